"""The view `inputs` and the raw segments of subtitle files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from tests.support.made_up_results import made_up_video
from tests.support.scored_rows import questions_of, v1_evaluation
from tests.support.stored_files import made_up_file, write_made_up
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse import database, loading

QUESTIONS = questions_of(v1_evaluation(2))
SRT = "1\n00:00:04,000 --> 00:00:05,500\nSecond\n\n2\n00:00:01,000 --> 00:00:02,000\nFirst\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two videos, of which the first one has subtitles."""
    store = Store.at(tmp_path / "data")
    write_made_up(made_up_file(store, "questions", "videomme"), QUESTIONS, Question)
    put_subtitles(store, tmp_path / "001.srt", SRT)
    return store


def put_subtitles(store: Store, path: Path, text: str) -> None:
    path.write_text(text)
    digest = blake3(path.read_bytes()).hexdigest()
    video = replace(made_up_video(QUESTIONS[0]), subtitle_path=str(path), subtitle_hash=digest)
    write_made_up(
        made_up_file(store, "videos", "videomme", video="001", fingerprint=digest[:24]),
        [video],
        Video,
    )


def inputs(store: Store) -> list[dict[str, Any]]:
    with database.connect(store) as connection:
        return database.query(connection, "select * from inputs order by question_id")


def test_inputs_have_the_columns_of_the_contract(store: Store) -> None:
    first = inputs(store)[0]
    question = QUESTIONS[0]
    assert first["video_path"].endswith("001.mp4")
    assert first["example_id"] == "video_001_q1"
    assert first["options"] == list(question.options)
    assert first["answer"] == question.answer
    assert first["subcategory"] == question.facets["sub_category"]
    assert (first["duration"], first["domain"]) == (
        question.facets["duration"],
        question.facets["domain"],
    )
    assert first["task_category"] == question.facets["task_type"]
    assert first["task_type"] == question.facets["skill"]
    assert first["task_type"] in ("perception", "reasoning", "temporal")
    assert first["subtitles"] == [
        {"start_seconds": 1.0, "end_seconds": 2.0, "text": "First"},
        {"start_seconds": 4.0, "end_seconds": 5.5, "text": "Second"},
    ]


def test_a_video_that_is_not_read_has_neither_path_nor_subtitles(store: Store) -> None:
    other = next(row for row in inputs(store) if row["video_id"] == "002")
    assert other["video_path"] is None
    assert other["subtitles"] is None


def test_segments_of_unchanged_files_are_not_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = inputs(store)
    (tmp_path / "001.srt").unlink()
    monkeypatch.delattr(loading, "read_subtitles")
    database.rebuild(store)
    assert inputs(store) == before


def test_changed_subtitles_replace_the_old_segments(store: Store, tmp_path: Path) -> None:
    inputs(store)
    put_subtitles(store, tmp_path / "001.srt", SRT.replace("First", "Changed"))
    assert inputs(store)[0]["subtitles"][0]["text"] == "Changed"


@pytest.mark.parametrize("text", [None, "changed after the video was read"])
def test_a_missing_or_changed_file_has_no_segments(
    store: Store, tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "001.srt"
    path.unlink() if text is None else path.write_text(text)
    assert inputs(store)[0]["subtitles"] is None
    assert "no segments of videomme, video 001" in caplog.text
