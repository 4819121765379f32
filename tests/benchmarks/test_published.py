"""The declarations of other published benchmarks read and fetch made-up data in their layouts."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.hub_server import HubServer, running_hub
from tests.support.other_benchmarks import COUNTS, OtherBenchmarks, settings
from tests.support.published_data import declared
from tests.support.registered import registered
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.locate import FrameFolder
from videomme_pipeline.benchmarks.question import Letter, Question, videos_of
from videomme_pipeline.benchmarks.questions import read_questions
from videomme_pipeline.benchmarks.registry import find_benchmark, published_benchmarks
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.benchmarks.source import AnnotationContent
from videomme_pipeline.errors import (
    AnnotationError,
    ConfigurationError,
    DownloadError,
    LicenseNotAcceptedError,
)
from videomme_pipeline.prompts.render import Template, render
from videomme_pipeline.subtitles.align import AlignedLine
from videomme_pipeline.subtitles.cues import read_subtitles

FAST = ("longvideobench_val", "mvbench")
"""Benchmarks with a split archive, subtitles, clips and folders of pictures."""
ANNOTATIONS = "video_info.meta.jsonl"


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherBenchmarks]:
    with running_hub() as hub, pytest.MonkeyPatch.context() as patch, registered():
        patch.setenv("HF_ENDPOINT", hub.url)
        yield OtherBenchmarks(hub, tmp_path_factory.mktemp("others"))


def opened(others: OtherBenchmarks, name: str, folder: Path) -> DeclaredSource:
    others.publish(name)
    spec = BenchmarkSettings.model_validate(settings(name, others.folder))
    source = find_benchmark(name).open_source(spec, folder)
    assert isinstance(source, DeclaredSource)
    return source


def test_all_published_benchmarks_have_made_up_data() -> None:
    assert set(published_benchmarks()) == {"videomme", "videomme_v2", *COUNTS}


@pytest.mark.parametrize(
    "name",
    [
        name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
        for name in sorted(COUNTS)
    ],
)
def test_a_published_benchmark_is_read_and_fetched(
    others: OtherBenchmarks, name: str, tmp_path: Path
) -> None:
    source = opened(others, name, tmp_path)
    questions = source.questions()
    videos = videos_of(questions)
    assert (len(questions), len(videos)) == COUNTS[name]
    find_benchmark(name).check_letters(questions)
    problems = source.fetch(videos, lambda *_: None)
    assert set(problems) <= {"requested"}  # MVBench: videos that must be requested
    for video in videos:
        if video.video_id not in problems:
            file = source.video_file(video)
            pictures = file.pictures if isinstance(file, FrameFolder) else [Path(str(file))]
            assert all(path.stat().st_size for path in pictures)
    requests = len(others.hub.requests)
    assert set(source.fetch(videos, lambda *_: None)) == set(problems)
    assert source.known_questions() == questions
    assert problems or len(others.hub.requests) == requests


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_nothing_is_requested_before_the_license_is_accepted(name: str) -> None:
    assert declared(name).license is not None
    with registered(), pytest.raises(LicenseNotAcceptedError):
        find_benchmark(name).open_source(BenchmarkSettings(), Path("unused"))


def test_subtitles_of_longvideobench_have_an_offset(
    others: OtherBenchmarks, tmp_path: Path
) -> None:
    source = opened(others, "longvideobench_val", tmp_path)
    first, _, last = source.questions()
    source.fetch([first.reference, last.reference], lambda *_: None)
    path = source.subtitle(last.reference)
    assert path is not None
    assert read_subtitles(path).cues[0].start_seconds == 101.0
    assert last.footage.subtitle_shift_seconds == 100.0
    assert (first.answer, last.facets["duration_group"]) == (Letter.A, "3600")
    assert [len(first.options), len(last.options)] == [2, 4]


def test_only_the_needed_bytes_of_a_split_archive_are_transferred(
    others: OtherBenchmarks, tmp_path: Path
) -> None:
    source = opened(others, "longvideobench_val", tmp_path)
    videos = videos_of(source.questions())
    others.hub.requests.clear()
    source.fetch(videos[:1], lambda *_: None)
    assert not any((tmp_path / ".hub").rglob("videos.tar.part.*"))
    assert source.video_file(videos[0]) == tmp_path / "videos/vid_a.mp4"


def test_videos_of_mvbench_are_clips_and_folders_of_pictures(
    others: OtherBenchmarks, tmp_path: Path
) -> None:
    source = opened(others, "mvbench", tmp_path)
    by_task = {question.facets["task"]: question for question in source.questions()}
    stored = source.stored_questions()
    assert stored is not None
    assert stored.hidden == 14
    sequence = by_task["Action Sequence"]
    assert sequence.video_id == "x.1-2.5"
    assert sequence.footage.clip_end_seconds == 2.5
    episodic = by_task["Episodic Reasoning"].reference
    source.fetch([episodic], lambda *_: None)
    folder = source.video_file(episodic)
    assert isinstance(folder, FrameFolder)
    assert (len(folder.pictures), folder.frames_per_second) == (12, 3)


def test_a_question_of_lvbench_is_in_each_of_its_categories(
    others: OtherBenchmarks, tmp_path: Path
) -> None:
    _, question, _ = opened(others, "lvbench", tmp_path).questions()
    assert {column for column in question.facets if column.startswith("question_type")} == {
        "question_type_temporal_grounding",
        "question_type_entity_recognition",
    }


def test_a_benchmark_without_a_pinned_commit_asks_for_a_commit(
    others: OtherBenchmarks, tmp_path: Path
) -> None:
    others.publish("mlvu_test")
    source = find_benchmark("mlvu_test").open_source(
        BenchmarkSettings(accept_license=True), tmp_path
    )
    with pytest.raises(ConfigurationError, match="set `revision` in"):
        source.questions()


def test_a_small_file_outside_of_git_lfs_is_verified(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    with registered():
        source = opened(OtherBenchmarks(hub, tmp_path / "videos"), "lvbench", tmp_path)
        release = source.release
        assert release is not None
        assert release.revision is not None
        size = len(hub.files[release.hub.repository, release.revision][ANNOTATIONS])
        hub.altered[ANNOTATIONS] = bytes(size)
        with pytest.raises(DownloadError, match="the downloaded file has Git sha1"):
            source.questions()


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with running_hub() as server:
        yield server


def test_questions_numbered_within_a_video_have_the_id_of_the_video(
    others: OtherBenchmarks, tmp_path: Path
) -> None:
    questions = opened(others, "video_holmes", tmp_path).questions()
    assert [question.question_id for question in questions] == ["film0-1", "film1-1"]
    questions = opened(others, "mlvu_test", tmp_path).questions()
    assert [question.question_id for question in questions] == ["needleQA", "sportsQA"]


def with_answers(name: str, folder: Path, answers: Sequence[str]) -> AnnotationContent:
    """The content of made-up annotations of `name` with one question per answer."""
    declaration = declared(name)
    rows = [
        {
            "video": f"{number}.mp4",
            "question": "Which?",
            "candidates": ["Red", "Blue", "Red"],
            "answer": answer,
            "question_type": "needleQA",
            "question_id": f"NQA_{number}",
        }
        for number, answer in enumerate(answers)
    ]
    path = folder / "annotations.json"
    path.write_text(json.dumps(rows))
    return read_questions(
        declaration, [path] * len(declaration.annotations), find_benchmark(name).name
    )


@pytest.mark.parametrize("name", ["mlvu_test", "mvbench"])
def test_the_last_of_equal_options_is_right(name: str, tmp_path: Path) -> None:
    annotated = with_answers(name, tmp_path, ["Red", "Blue"])
    letters = [question.answer for question in annotated.questions]
    assert letters[:2] == [Letter.C, Letter.B]
    assert annotated.ambiguous_answers == len(letters) // 2
    assert annotated.require() == annotated.questions


def test_a_published_question_without_a_right_option_is_listed_and_left_out(
    tmp_path: Path,
) -> None:
    annotated = with_answers("mlvu_test", tmp_path, ["Blue", "Green", "Blue"])
    assert [question.question_id for question in annotated.require()] == ["NQA_0", "NQA_2"]
    assert annotated.listed(annotated.unmatched) == (
        "annotations.json, row 2, question NQA_1: the answer 'Green' matches none of the options "
        "A. Red, B. Blue, C. Red"
    )
    with pytest.raises(AnnotationError, match=r"no row can be used: .*'Green' matches none"):
        with_answers("mlvu_test", tmp_path, ["Green"]).require()


MLVU_SYSTEM = (
    "Carefully watch this video and pay attention to every detail. Based on your observations, "
    "select the best option that accurately addresses the question."
)
IN_BRACKETS = "Options:\n(A) Red\n(B) Blue\n"
ALL_LETTERS = "(A, B, C, D, E, or F)"
PROMPTS = {
    "cgbench_mini.authors": (
        "You will be provided with sampled frames from a video, along with a multiple-choice "
        "question that includes a question and several answer options.\nYour task is to analyze "
        "the provided frames, infer the most plausible answer based on the visual information.\n"
        "If the video does not provide enough information, infer the answer based on the options "
        "available and still provide a result. Therefore, In all cases, an answer must be given.\n"
        'Only output the answer in the following format:\n\n```json\n{"result": "option"}\n```\n\n'
        'The "option" is the uppercase letter corresponding to your answer.\n\n'
        "The subtitles of the video are as follows:\n\n[1.0, 2.5] hello\n[3.0, 4.0] bye\n\n"
        "A total of 2 frames are sampled. Their corresponding timestamps are:\n\n0.0, 1.3333\n\n"
        "Question: Which?\n\nA:Red\nB:Blue\n\n"
    ),
    "longvideobench_val.authors": "hello\nbye\nQuestion: Which?\nA. Red\nB. Blue\n"
    "Answer with the option's letter from the given choices directly.",
    "longvideobench_val.lmms_eval": "hello\nbye\nWhich?\nA. Red\nB. Blue\n"
    "Answer with the option's letter from the given choices directly.",
    "lvbench.lmms_eval": "Which?\nA. Red\nB. Blue\nAnswer the question with the option letter",
    "mlvu_dev.authors": f"Question: Which?\n{IN_BRACKETS}Only give the best option.\n"
    "Best Option: (",
    "mlvu_dev.lmms_eval": "Which?\nA. Red\nB. Blue\nOnly give the best option.\nBest option: (",
    "mlvu_dev.vlmevalkit": f"Question: Which?\n{IN_BRACKETS}Only give the best option.",
    "mlvu_test.authors": f"Question: Which?\n{IN_BRACKETS}Only give the best option.\n"
    "Best Option: (",
    "mvbench.authors": f"Question: Which?\n{IN_BRACKETS}Only give the best option.\nBest option:(",
    "mvbench.lmms_eval": "Question:Which?\nOption:\n(A) Red\n(B) Blue\n"
    "Only give the best option.\n",
    "video_holmes.authors": "Based on the given video, reason and answer the single-choice "
    "question. Provide your reasoning between the <think> and </think> tags, and then give your "
    "final answer between the <answer> and </answer> tags. The question is: Which?. The options "
    "are: A: Red, B: Blue. Your answer:",
    "video_holmes.lmms_eval": "Question: Which?\nA. Red\nB. Blue\nSelect the best answer to the "
    "following multiple-choice question based on the video. Respond with only the letter "
    f"{ALL_LETTERS} of the correct option.",
    "video_holmes.vlmevalkit": "\n    Based on the given video, reason and answer the "
    "single-choice question. Provide your reasoning between the <think> and </think> tags, and "
    "then give your final answer between the <answer> and </answer> tags.     The question is: "
    "Which?. The options are: ['A. Red', 'B. Blue'].     Your answer:\n    ",
}
"""The texts that the published programs send for one question, by prompt."""


def test_published_prompts_are_those_of_the_published_programs(tmp_path: Path) -> None:
    question = Question(
        benchmark="mvbench",
        question_id="1",
        video_id="1",
        youtube_id=None,
        url=None,
        question="Which?",
        options=("A. Red", "B. Blue"),
        answer=Letter.A,
        facets=Facets({}),
    )
    lines = [
        AlignedLine(
            frame=number,
            cue=number,
            last_cue=number,
            start_seconds=start,
            end_seconds=end,
            text=text,
        )
        for number, (start, end, text) in enumerate([(1.0, 2.5, "hello"), (3.0, 4.0, "bye")])
    ]
    texts, systems = {}, {}
    for name in COUNTS:
        for prompt, published in find_benchmark(name).prompts.items():
            template = Template(name=prompt, text=published.text, system=published.system)
            shown = lines if template.can_list else None
            filled = render(template, question, shown, frame_seconds=[0.0, 4 / 3])
            texts[prompt], systems[prompt] = filled.text, filled.system
    defaults = {name: texts.pop(name) for name in COUNTS if name in texts}
    assert texts == PROMPTS
    assert systems["mlvu_dev.authors"] == systems["mlvu_test.authors"] == MLVU_SYSTEM
    assert systems["mvbench.authors"] == (
        "Carefully watch the video and pay attention to the cause and sequence of events, the "
        "detail and movement of objects, and the action and pose of persons. Based on your "
        "observations, select the best option that accurately addresses the question."
    )
    assert defaults["mlvu_dev"] == PROMPTS["mlvu_dev.lmms_eval"]
    assert defaults["video_holmes"] == PROMPTS["video_holmes.authors"]
