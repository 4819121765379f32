"""The smoke benchmarks: their questions, and that videos and subtitles agree with the scripts."""

import json
import re
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from av.video.frame import PictureType
from filelock import FileLock
from scipy.stats import binomtest

from tests.support.paths import ROOT
from tests.support.published_data import DOMAINS, LOGIC_STRUCTURES, SUB_CATEGORIES, TASK_TYPES, read
from videomme_pipeline.benchmarks.question import Duration, Letter, Question
from videomme_pipeline.demo.smoke import scripts as smoke
from videomme_pipeline.demo.smoke.drawing import (
    MOTION_SECONDS,
    draw_shapes,
    shape_offset,
    srt,
    subtitle_lines,
    word_lines,
    write_video,
)
from videomme_pipeline.demo.smoke.media import clips, is_drawn, make_video, youtube_id
from videomme_pipeline.demo.smoke.scripts import Scene, Script, scripts
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.evaluation.folder import read_configuration

SCRIPTS = {script.video_id: script for script in scripts()}


def short_script() -> Script:
    """The first scene of a drawn video, three seconds long."""
    script = SCRIPTS["002"]
    scene = replace(script.scenes[0], end_seconds=3)
    return replace(script, scenes=(scene,))


def test_smoke_has_every_task_type_domain_and_duration() -> None:
    questions = smoke.questions("smoke")
    assert len(questions) == 72
    assert Counter(question.facets["task_type"] for question in questions) == dict.fromkeys(
        TASK_TYPES, 6
    )
    assert {question.facets["domain"] for question in questions} == set(DOMAINS)
    assert {question.facets["sub_category"] for question in questions} <= set(SUB_CATEGORIES)
    videos = Counter(question.duration for question in questions)
    assert videos == {Duration.SHORT: 51, Duration.MEDIUM: 15, Duration.LONG: 6}


def test_videos_are_as_long_as_their_duration_class() -> None:
    limits = {Duration.SHORT: (20, 120), Duration.MEDIUM: (240, 900), Duration.LONG: (1800, 3600)}
    for script in scripts():
        low, high = limits[script.duration]
        assert low <= script.scenes[-1].end_seconds <= high


def test_smoke_v2_has_relevance_and_every_logic_structure() -> None:
    questions = smoke.questions("smoke_v2")
    structures = Counter(question.facets["group_structure"] for question in questions)
    assert structures == {"4": 16, **dict.fromkeys(LOGIC_STRUCTURES, 8)}
    assert {
        question.facets["group_structure"]
        for question in questions
        if question.facets["group_type"] == "relevance"
    } == {"4"}
    assert len(smoke.video_ids("smoke_v2")) == 10
    assert set(smoke.video_ids("smoke_v2")) <= set(smoke.video_ids("smoke"))
    assert {len(question.options) for question in questions} == {7, 8}
    assert {question.facets["level"] for question in questions} == {1, 2, 3}


@pytest.mark.parametrize(("benchmark", "per_letter"), [("smoke", 18), ("smoke_v2", 5)])
def test_letters_are_balanced(benchmark: str, per_letter: int) -> None:
    count = Counter(question.answer for question in smoke.questions(benchmark))
    assert all(abs(number - per_letter) <= 1 for number in count.values())


@pytest.mark.parametrize("benchmark", ["smoke", "smoke_v2"])
def test_options_are_distinct_lettered_and_of_one_kind(benchmark: str) -> None:
    for question in smoke.questions(benchmark):
        assert len(set(question.options)) == len(question.options)
        texts = [question.option_text(letter) for letter in question.letters]
        assert all(
            option == f"{letter}. {text}"
            for letter, option, text in zip(question.letters, question.options, texts, strict=True)
        )
        assert len({text[:-1].isdecimal() for text in texts}) == 1
        assert len({text[:-1].isupper() for text in texts}) == 1


@pytest.mark.parametrize("benchmark", ["smoke", "smoke_v2"])
def test_the_longest_option_is_right_about_as_often_as_chance(benchmark: str) -> None:
    questions = smoke.questions(benchmark)
    chance = sum(1 / len(question.options) for question in questions) / len(questions)
    right = sum(
        max(question.letters, key=lambda letter: len(question.option_text(letter)))
        == question.answer
        for question in questions
    )
    assert binomtest(right, len(questions), chance).pvalue > 0.1


def test_answers_on_counts_colors_and_order_agree_with_the_script() -> None:
    for question in smoke.questions("smoke"):
        answer = question.option_text(question.answer).removesuffix(".")
        script = SCRIPTS.get(question.video_id)
        quoted = re.search(r'the heading "(\w+)"', question.question)
        if script is None or quoted is None:
            continue
        position = [scene.heading for scene in script.scenes].index(quoted.group(1))
        scene = script.scenes[position]
        if question.facets["task_type"] == "Counting Problem":
            assert answer == str(scene.count)
        if question.facets["task_type"] == "Attribute Perception":
            assert answer.lower() == scene.colour
        if question.facets["task_type"] == "Temporal Reasoning":
            assert answer == script.scenes[position + 1].heading


def scene_at(script: Script, seconds: float) -> Scene:
    return next(scene for scene in script.scenes if seconds < scene.end_seconds)


def test_the_answer_to_a_clock_question_is_the_heading_at_that_time() -> None:
    asked = [
        question for question in smoke.questions("smoke") if "clock shows" in question.question
    ]
    assert asked
    for question in asked:
        minutes, seconds = question.question.removesuffix("?")[-5:].split(":")
        scene = scene_at(SCRIPTS[question.video_id], 60 * int(minutes) + int(seconds))
        assert question.option_text(question.answer) == f"{scene.heading}."


def test_spoken_answers_are_in_the_subtitles() -> None:
    spoken = [
        question
        for question in smoke.questions("smoke")
        if question.facets["task_type"] == "Object Reasoning"
    ]
    assert len(spoken) == 6
    for question in spoken:
        subtitles = srt(SCRIPTS[question.video_id])
        for letter in question.letters:
            line = re.escape(question.option_text(letter).removeprefix("The "))
            person, heading = re.findall(r"does (\w+) need at the (\w+)", question.question)[0]
            match = re.search(f"At the {heading}, {person} asks for the {line}", subtitles)
            assert bool(match) == (letter == question.answer)


def write_annotations(folder: Path) -> tuple[Path, Path]:
    """Write both annotation files to `folder` in the published layouts, and return (v1, v2)."""
    first = folder / "videomme" / "test-00000-of-00001.parquet"
    second = folder / "test.parquet"
    first.parent.mkdir(parents=True, exist_ok=True)
    v1 = [
        {
            **question.facets,
            "video_id": question.video_id,
            "url": question.url or "",
            "videoID": question.youtube_id,
            "question_id": question.question_id,
            "question": question.question,
            "options": list(question.options),
            "answer": question.answer,
        }
        for question in smoke.questions("smoke")
    ]
    v2 = [
        {
            **question.facets,
            "level": str(question.facets["level"]),
            "video_id": question.video_id,
            "url": question.url or "",
            "question_id": question.question_id,
            "question": question.question,
            "options": "\n".join(question.options),
            "answer": question.answer,
        }
        for question in smoke.questions("smoke_v2")
    ]
    pq.write_table(pa.Table.from_pylist(v1), first)
    pq.write_table(pa.Table.from_pylist(v2), second)
    return first, second


def test_annotation_files_have_the_published_layout(tmp_path: Path) -> None:
    first, second = write_annotations(tmp_path)
    assert read("videomme", first, benchmark="smoke", videos=24) == smoke.questions("smoke")
    assert read("videomme_v2", second, benchmark="smoke_v2", videos=10) == smoke.questions(
        "smoke_v2"
    )


def test_a_video_shows_its_script_and_is_reproducible(tmp_path: Path) -> None:
    script = short_script()
    for name in ("a.mp4", "b.mp4"):
        write_video(script, tmp_path / name, "mark")
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height) == (script.width, script.height)
        frames = list(container.decode(stream))
    assert len(frames) == script.scenes[-1].end_seconds * script.frames_per_second
    assert {PictureType(frame.pict_type) for frame in frames} == {
        PictureType.I,
        PictureType.P,
        PictureType.B,
    }
    purple = np.array([142, 68, 173])  # purple diamonds
    assert script.scenes[0].colour == "purple"
    near = [
        (np.abs(frame.to_ndarray(format="rgb24").astype(int) - purple).sum(axis=2) < 60).sum()
        for frame in frames[:: script.frames_per_second]
    ]
    drawn = np.asarray(draw_shapes(script, script.scenes[0]))
    purple_pixels = (np.abs(drawn[..., :3].astype(int) - purple).sum(axis=2) < 60).sum()
    assert all(abs(pixels - purple_pixels) < 0.25 * purple_pixels for pixels in near)


def test_shapes_move_as_in_the_script() -> None:
    quarter = MOTION_SECONDS / 4

    def move(motion: str) -> tuple[float, float]:
        (left, top), (first_left, first_top) = (
            shape_offset(motion, seconds) for seconds in (quarter, 0.0)
        )
        return left - first_left, top - first_top

    assert move("They drift to the right") == (0.25, 0)
    assert move("They drift to the left") == (-0.25, 0)
    assert move("They climb upwards") == (0, -0.25)
    assert move("They sink downwards") == (0, 0.25)
    assert move("They do not move at all") == (0, 0)
    for motion in {scene.motion for script in scripts() for scene in script.scenes}:
        for step in range(50):
            assert all(0 <= share <= 1 for share in shape_offset(motion, 0.3 * step))


def test_cues_are_within_their_scenes_and_have_the_text_of_the_words() -> None:
    script = SCRIPTS["001"]
    cues = list(subtitle_lines(script))
    for start, end, text in cues:
        scene = scene_at(script, start)
        assert scene.start_seconds <= start < end <= scene.end_seconds
        assert text in scene.sentences
    words = [json.loads(line)["text"] for line in word_lines(script).splitlines()]
    assert words == " ".join(text for _, _, text in cues).split()


def test_some_videos_have_no_subtitles() -> None:
    silent = [script for script in scripts() if not script.narrated]
    assert len(silent) == 2
    assert all(srt(script) == "" for script in silent)
    tags = ["<font" in srt(script) for script in scripts() if script.narrated]
    assert True in tags
    assert False in tags


def test_some_file_names_begin_with_a_hyphen_like_youtube_ids() -> None:
    names = [youtube_id(video_id) for video_id in smoke.video_ids()]
    assert {len(name) for name in names} == {11}
    assert {name[0] for name in names} == {"-", "v"}


def test_the_error_names_an_unknown_video_or_benchmark(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="099"):
        make_video("099", tmp_path)
    with pytest.raises(AnnotationError, match="smok:"):
        smoke.questions("smok")


def test_complete_files_are_kept_and_damaged_ones_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    video = make_video("012", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    files = {"vsmoke-0012.mp4", "vsmoke-0012.srt", "012.mp4", "012.jsonl"}
    assert names == files | {".vsmoke-0012.lock"}
    data, written_at = video.read_bytes(), video.stat().st_mtime_ns
    make_video("012", tmp_path)
    assert video.stat().st_mtime_ns == written_at, "a complete file is kept"
    assert caplog.messages == []
    video.write_bytes(data[: len(data) // 2])
    (tmp_path / "vsmoke-0012.srt").write_text("")
    make_video("012", tmp_path)
    assert video.read_bytes() == data
    assert (tmp_path / "012.mp4").read_bytes() == data
    assert (tmp_path / "vsmoke-0012.srt").read_text() == srt(SCRIPTS["012"])
    assert caplog.messages[0].startswith(f"{video}: not the video of this version")


def test_a_video_that_another_machine_draws_is_not_drawn_again(tmp_path: Path) -> None:
    drawn, shared = make_video("012", tmp_path / "elsewhere"), tmp_path / "shared"
    shared.mkdir()
    with ThreadPoolExecutor(1) as thread:
        with FileLock(shared / ".vsmoke-0012.lock"):
            making = thread.submit(make_video, "012", shared)
            time.sleep(0.5)  # it may have begun to wait
            written_at = Path(shutil.copy(drawn, shared)).stat().st_mtime_ns
        assert making.result().stat().st_mtime_ns == written_at


@pytest.mark.slow
def test_real_clips_are_fetched_and_decode(tmp_path: Path) -> None:
    for clip in clips():
        with av.open(str(make_video(clip.video_id, tmp_path))) as container:
            assert sum(1 for _ in container.decode(video=0)) > 100


def questions_of(video_id: str) -> list[Question]:
    return [question for question in smoke.questions("smoke") if question.video_id == video_id]


def test_every_video_has_three_questions_with_the_published_ids() -> None:
    for video_id in smoke.video_ids():
        ids = [question.question_id for question in questions_of(video_id)]
        assert ids == [f"{video_id}-{number}" for number in (1, 2, 3)]
        assert {question.answer for question in questions_of(video_id)} <= set(Letter)


def test_the_offline_configuration_needs_only_local_files() -> None:
    configuration = read_configuration(ROOT / "assets" / "offline")
    assert not configuration.problems
    for name, spec in configuration.benchmarks.items():
        chosen = spec.select(smoke.questions(name))
        assert chosen
        assert all(is_drawn(question.video_id) for question in chosen)
    models = {evaluation.model.name for evaluation in configuration.evaluations.values()}
    assert models == {"constant-A", "longest-option", "random"}
