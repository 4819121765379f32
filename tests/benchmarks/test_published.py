"""The declarations of other published benchmarks read and fetch made-up data in their layouts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub_server import HubServer, running_hub
from tests.support.other_benchmarks import COUNTS, OtherBenchmarks, settings
from tests.support.published_data import declared
from tests.support.registered import registered
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.benchmarks.locate import FrameFolder
from videomme_pipeline.benchmarks.question import Letter, videos_of
from videomme_pipeline.benchmarks.registry import find_benchmark, published_benchmarks
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.errors import ConfigurationError, DownloadError, LicenseNotAcceptedError
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
            file = source.files(video).video
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
    assert source.files(videos[0]).video == tmp_path / "videos/vid_a.mp4"


def test_videos_of_mvbench_are_clips_and_folders_of_pictures(
    others: OtherBenchmarks, tmp_path: Path
) -> None:
    source = opened(others, "mvbench", tmp_path)
    by_task = {question.facets["task"]: question for question in source.questions()}
    assert source.hidden_answers == 14
    sequence = by_task["Action Sequence"]
    assert sequence.video_id == "x.1-2.5"
    assert sequence.footage.clip_end_seconds == 2.5
    episodic = by_task["Episodic Reasoning"].reference
    source.fetch([episodic], lambda *_: None)
    folder = source.files(episodic).video
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
