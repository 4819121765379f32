"""Extraction of frames: each is decoded once, and a bad video affects only itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders import (
    damage,
    pixels_of,
    read_barcode,
    rotate_mp4,
    truncate,
    write_audio_only,
    write_video,
)
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.frames import extract as extract_module
from videomme_pipeline.frames.cache import FrameSet, frames_fingerprint, read_frames
from videomme_pipeline.frames.extract import FrameJob, FrameResult, extract, show_frames
from videomme_pipeline.frames.sampling import Limit, Sampling
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import LocalWorkers
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.container import index_packets
from videomme_pipeline.videos.probe import content_hash

NAMES = ("uniform_n-8.native", "fps_based-1-max-5.native.png", "keyframe-all.native")
SAMPLINGS = tuple(map(parse_sampling, NAMES))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "data")


def job(path: Path, *samplings: Sampling, duration: Duration | None = None) -> FrameJob:
    return FrameJob(
        video_id=path.stem,
        path=path,
        video_hash=content_hash(path),
        samplings=samplings or SAMPLINGS,
        duration=duration,
    )


def stored(store: Store, video_job: FrameJob, sampling: Sampling) -> FrameSet:
    fingerprint = frames_fingerprint(sampling, video_job.duration)
    return read_frames(store, video_job.video_hash, fingerprint)


def run(store: Store, *jobs: FrameJob, workers: int = 1) -> dict[str, FrameResult]:
    results = extract(jobs, store=store, workers=LocalWorkers(workers))
    return {result.job.video_id: result for result in results}


def test_several_samplings_of_a_video_come_from_one_pass(tmp_path: Path, store: Store) -> None:
    video_job = job(write_video(tmp_path / "a.mp4"))
    result = run(store, video_job)["a"]
    assert result.error is None
    assert [frame_set.count for frame_set in result.frame_sets] == [8, 5, 5]
    index = index_packets(video_job.file)
    for sampling in SAMPLINGS:
        frames = stored(store, video_job, sampling)
        assert tuple(f.index for f in frames.frames) == sampling.choose(index.times).frames
        for frame in frames.frames:
            assert read_barcode(pixels_of(frame)) == frame.index
            assert frame.pts_seconds == pytest.approx(frame.index / 10)


def test_two_stores_get_the_same_bytes(tmp_path: Path) -> None:
    video_job, contents = job(write_video(tmp_path / "a.mp4")), []
    for name in ("one", "two"):
        extracted = run(Store.at(tmp_path / name), video_job)["a"].frame_sets
        files = sorted((tmp_path / name).rglob("*.parquet"))
        contents.append((extracted, [file.read_bytes() for file in files]))
    assert len(contents[0][1]) >= len(SAMPLINGS)
    assert contents[0] == contents[1]


def test_cached_frames_are_not_decoded_again(tmp_path: Path, store: Store) -> None:
    path = write_video(tmp_path / "a.mp4")
    run(store, job(path, SAMPLINGS[0]))
    moved = path.rename(tmp_path / "moved.mp4")
    moved_job = job(moved, *SAMPLINGS[:2])
    result = run(store, moved_job)["moved"]
    assert {item.sampling: item.reused for item in result.frame_sets} == {
        NAMES[0]: True,
        NAMES[1]: False,
    }
    last = run(store, moved_job)["moved"]
    assert all(item.reused for item in last.frame_sets)
    assert last.cpu_seconds == 0


def test_frames_that_were_damaged_on_disk_are_rebuilt(tmp_path: Path, store: Store) -> None:
    video_job = job(write_video(tmp_path / "a.mp4"), SAMPLINGS[0])
    run(store, video_job)
    frames = stored(store, video_job, SAMPLINGS[0])
    damage(Path(store.frames(video_job.video_hash, frames.fingerprint).path), 0.4, 5)
    assert not run(store, video_job)["a"].frame_sets[0].reused
    assert stored(store, video_job, SAMPLINGS[0]) == frames


def test_unusable_videos_are_reported_and_the_others_continue(tmp_path: Path, store: Store) -> None:
    good = write_video(tmp_path / "good.mp4")
    empty = tmp_path / "empty.mp4"
    empty.write_bytes(b"")
    sound = write_audio_only(tmp_path / "sound.mp4")
    cut = truncate(write_video(tmp_path / "cut.mkv"), 0.6)
    paths = (empty, good, sound, cut)
    results = run(store, *map(job, paths), workers=1)
    assert results["good"].error is None
    by_size = sorted(paths, key=lambda path: path.stat().st_size, reverse=True)
    assert list(results) == [path.stem for path in by_size], "large videos come first"
    messages = {name: str(result.error) for name, result in results.items()}
    assert "empty (0 bytes)" in messages["empty"]
    assert "only audio" in messages["sound"]
    assert "of 6 s; last good frame 3." in messages["cut"]
    assert all(result.frame_sets == () for name, result in results.items() if name != "good")


def test_too_many_frames_are_named_before_they_are_decoded(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract_module, "MAX_FRAMES", 59)
    samplings = tuple(map(parse_sampling, ("uniform_n-all", "uniform_n-4")))
    result = extract_module.extract_here(
        job(write_video(tmp_path / "a.mp4"), *samplings), store=store
    )
    assert "uniform_n-all takes 60 frames, more than 59; choose a number" in str(result.error)
    assert len(result.frame_sets) == 1, "other samplings of the video are built"


def test_use_what_decodes_records_the_missing_frames(tmp_path: Path, store: Store) -> None:
    path = write_video(tmp_path / "a.mp4", frames=120, gop=24)
    damage(path, 0.5, length=1500)
    lenient = parse_sampling("fps_based-5.native.use_what_decodes")
    video_job = job(path, parse_sampling("fps_based-5.native"), lenient)
    result = run(store, video_job)["a"]
    assert isinstance(result.error, VideoUnreadableError)
    assert "decoded" in str(result.error)
    assert "of 60 frames" in str(result.error)
    advice = "get the file again, or set `on_damage: use_what_decodes`"
    assert str(result.error).endswith(advice)
    (frame_set,) = result.frame_sets
    missing = len(frame_set.missing_seconds)
    assert 0 < missing < 60
    assert frame_set.count == 60 - missing
    frames = stored(store, video_job, lenient)
    assert frames.missing_seconds == frame_set.missing_seconds
    assert frames.damage == frame_set.damage
    for frame in frames.frames:
        assert read_barcode(pixels_of(frame)) == frame.index


def test_rotation_is_applied(tmp_path: Path, store: Store) -> None:
    video_job = job(rotate_mp4(write_video(tmp_path / "a.mp4"), 90), SAMPLINGS[0])
    run(store, video_job)
    frame = stored(store, video_job, SAMPLINGS[0]).frames[0]
    assert (frame.width, frame.height) == pixels_of(frame).shape[1::-1] == (120, 160)


def test_pyav_replaces_a_backend_that_would_return_wrong_frames(
    tmp_path: Path, store: Store
) -> None:
    named = parse_sampling("uniform_n-4.decord")
    exact = job(write_video(tmp_path / "exact.mp4"), named)
    hevc = job(write_video(tmp_path / "hevc.mp4", codec="libx265"), named)
    results = run(store, exact, hevc)
    assert results["exact"].frame_sets[0].decoded_by == "decord"
    assert results["hevc"].frame_sets[0].decoded_by == "pyav"
    assert "H.264" in str(results["hevc"].frame_sets[0].wrong_backend)
    assert stored(store, hevc, named).decoded_by == "pyav"


def test_budgets_and_limits_are_stored_with_the_frames(tmp_path: Path, store: Store) -> None:
    sampling = parse_sampling("uniform_n-16.frames_by_duration-4-_-_")
    video_job = job(write_video(tmp_path / "a.mp4"), sampling, duration=Duration.SHORT)
    assert run(store, video_job)["a"].frame_sets[0].count == 4
    short = job(write_video(tmp_path / "b.mp4", frames=3), sampling)
    frame_set = run(store, short)["b"].frame_sets[0]
    assert (frame_set.asked, frame_set.count, frame_set.limit) == (16, 3, Limit.ALL_THERE_ARE)


def test_a_time_limit_affects_only_the_slow_video(tmp_path: Path, store: Store) -> None:
    video_job = job(write_video(tmp_path / "a.mp4"))
    (result,) = extract([video_job], store=store, limits=TaskLimits(seconds=0.01))
    assert "not finished after 0.01 s" in str(result.error)
    assert run(store, video_job)["a"].error is None


def test_children_do_not_load_dagster() -> None:
    program = (
        "import sys, videomme_pipeline.frames.extract\n"
        "assert not {'dagster', 'pandas', 'openai', 'decord'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_contact_sheet_of_any_video_file(tmp_path: Path, store: Store) -> None:
    video = write_video(tmp_path / "a.mp4")
    frames = show_frames(video, SAMPLINGS[0], tmp_path / "sheet.jpg", store=store)
    assert len(frames.frames) == 8
    assert (tmp_path / "sheet.jpg").stat().st_size > 2000
