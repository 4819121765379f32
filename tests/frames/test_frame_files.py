"""Files that name the frames of each question, in the forms that selectors publish."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.made_up_requests import videos
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.frames.cache import frames_fingerprint
from videomme_pipeline.frames.sampling import FromFile
from videomme_pipeline.frames.sampling_names import configured_sampling, parse_sampling
from videomme_pipeline.videos.packets import FrameTimes

QUESTION = replace(
    videos(1)[0].questions[0][0], question_id="001-1", video_id="001", youtube_id="yt1"
)
SECOND = replace(QUESTION, question_id="001-2")
OTHER = replace(QUESTION, question_id="002-1", video_id="002", youtube_id="yt2")
CLOCK = FrameTimes(np.arange(50) / 10, np.arange(0, 50, 10), 5.0)


def chosen(folder: Path, *questions: object) -> dict[str, tuple[int, ...] | str]:
    sampling = configured_sampling("from_file-a", folder).for_questions(
        questions or (QUESTION, SECOND)  # type: ignore[arg-type]
    )
    return dict(sampling.choose(CLOCK).by_question)


def write(folder: Path, name: str, text: str) -> None:
    (folder / "samplings").mkdir(exist_ok=True)
    (folder / "samplings" / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"001-1": [9, 2], "001-2": [4]}'),
        ("a.json", '{"001-1": {"frame_idx": [9, 2], "score": 1}, "001-2": {"frame_idx": [4]}}'),
        (
            "a.json",
            '[{"videoID": "yt1", "question_id": "001-1", "frame_idx": [9, 2]},'
            ' {"videoID": "yt1", "question_id": "001-2", "frame_idx": [4]}]',
        ),
        (
            "a.json",
            '{"data": [{"qid": "001-1", "frames": [9, 2]}, {"qid": "001-2", "frames": [4]}]}',
        ),
        (
            "a.jsonl",
            '{"question_id": "001-1", "frame_indices": [9, 2], "timestamps": [4, 4]}\n'
            '{"question_id": "001-2", "frame_indices": [4.0]}\n',
        ),
        ("a.jsonl", '{"id": "001-1", "seconds": [0.95, 0.2]}\n{"id": "001-2", "seconds": [0.4]}\n'),
        ("a.json", '{"001-1": [0.95, 0.2], "001-2": [0.4]}'),
        ("a.csv", 'question_id,selected_frames\n001-1,"[9, 2]"\n001-2,[4]\n'),
        (
            "a.jsonl",
            '{"video": "v/001.mp4", "id": 1, "keyframe_indices": [9, 2]}\n'
            '{"video": "v/001.mp4", "id": 2, "keyframe_indices": [4]}\n'
            '{"video": "v/002.mp4", "id": 1, "keyframe_indices": [1]}\n'
            '{"video": "v/002.mp4", "id": 2, "keyframe_indices": [1]}\n',
        ),
    ],
)
def test_published_forms_name_the_same_frames(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text)
    assert chosen(tmp_path) == {"001-1": (9, 2), "001-2": (4,)}


def test_parquet_names_frames_and_a_video_names_those_of_all_its_questions(tmp_path: Path) -> None:
    (tmp_path / "samplings").mkdir()
    table = pa.table({"video_id": ["yt1", "002"], "frame_ids": [[7, 1, 7], [3]]})
    pq.write_table(table, tmp_path / "samplings" / "a.parquet")
    assert chosen(tmp_path) == {"001-1": (7, 1, 7), "001-2": (7, 1, 7)}
    sampling = configured_sampling("from_file-a", tmp_path).for_questions([QUESTION, SECOND])
    assert sampling.choose(CLOCK).frames == (1, 7)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ('"001-1": []', "empty list"),
        ('"001-1": [1], "001-1": [2]', "more than one entry for 001-1"),
        ('"001-1": [50]', "names frame 50, but the video has 0 to 49"),
        ('"001-1": [5.1]', "names 5.1 s, but the video ends at 5.000 s"),
        ('"001-1": [-1]', "other values than numbers from 0"),
        ('"001-1": ["a"]', "other values than numbers from 0"),
        ('"001-1": [true]', "other values than numbers from 0"),
        ('"001-1": {"frames": [1.5]}', "a fraction as the number of a frame"),
        ('"001-1": {"video": "x"}', "no list `frames` or `seconds`"),
        ('"3": [1]', "no entry for this question or for video 001"),
    ],
)
def test_a_mistake_is_the_reason_of_its_question_alone(
    tmp_path: Path, entries: str, reason: str
) -> None:
    write(tmp_path, "a.json", f'{{{entries}, "001-2": [4]}}')
    named = chosen(tmp_path)
    assert reason in str(named["001-1"])
    assert named["001-2"] == (4,)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no file with the frames of each question"),
        ({"a.json": '{"1": [1]}', "a.jsonl": "{}"}, "a.json, a.jsonl"),
        ({"a.json": '{"001-1": []}'}, "no entry has frame numbers or seconds"),
        ({"a.json": "[[1, 2], [3]]"}, "not a table"),
        ({"a.json": "{"}, "a.json"),
        ({"a.jsonl": '{"frames": [1]}'}, "row 1 has no `question_id` or `video_id`"),
    ],
)
def test_a_file_without_a_usable_entry_is_an_error(
    tmp_path: Path, files: Mapping[str, str], message: str
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    with pytest.raises(ConfigurationError, match=r"from_file-a|a\.json") as error:
        configured_sampling("from_file-a", tmp_path)
    assert message in str(error.value)


def test_the_key_of_the_frames_depends_on_the_entries_of_their_video_only(tmp_path: Path) -> None:
    def keys(entries: Mapping[str, object]) -> tuple[str, ...]:
        write(tmp_path, "a.json", json.dumps(entries))
        sampling = configured_sampling("from_file-a", tmp_path)
        assert isinstance(sampling, FromFile)
        own = (sampling.for_questions([question]) for question in (QUESTION, OTHER))
        return (sampling.fingerprint, *map(frames_fingerprint, own))

    before = keys({"001-1": [1], "002-1": [2]})
    assert keys({"002-1": [2], "001-1": [1]}) == before, "the order of the file changes nothing"
    after = keys({"001-1": [1], "002-1": [3]})
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True, False]


def test_a_sampling_from_a_file_has_no_frames_by_duration() -> None:
    with pytest.raises(ConfigurationError, match="remove `frames_by_duration`"):
        parse_sampling("from_file-a.frames_by_duration-8-16-32")
