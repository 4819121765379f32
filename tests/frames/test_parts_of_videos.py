"""Clips of videos, and folders of pictures as videos: their frames, times and cache keys."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.builders import pixels_of, read_barcode, write_video
from videomme_pipeline.benchmarks.locate import FrameFolder, VideoFile
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.frames.cache import FrameSet, frames_fingerprint, read_frames
from videomme_pipeline.frames.extract import FrameJob, extract_here
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.container import index_packets
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.probe import ProbeJob, content_hash, probe_video

SAMPLING = parse_sampling("uniform_n-4.native.png")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "data")


def extracted(store: Store, path: VideoFile, clip: Clip | None = None) -> FrameSet:
    job = FrameJob(
        video_id="v", path=path, video_hash=content_hash(path), samplings=(SAMPLING,), clip=clip
    )
    result = extract_here(job, store=store)
    if result.error is not None:
        raise result.error
    return read_frames(store, job.video_hash, frames_fingerprint(SAMPLING, None, clip))


def test_frames_of_a_clip_are_inside_it_and_count_from_its_start(
    tmp_path: Path, store: Store
) -> None:
    path = write_video(tmp_path / "a.mp4", frames=60)  # 10 frames per second
    clip = Clip(start_seconds=2.05, end_seconds=4.0)
    frames = extracted(store, path, clip).frames
    shown = [read_barcode(pixels_of(frame)) for frame in frames]
    assert 20 <= min(shown) < max(shown) < 40
    assert [frame.index for frame in frames] == [number - 20 for number in shown]
    assert [frame.pts_seconds for frame in frames] == pytest.approx(
        [number / 10 - 2 for number in shown]
    )


def test_a_clip_has_its_own_key() -> None:
    clips = [Clip(end_seconds=3.0), Clip(start_seconds=1.0), Clip(start_seconds=1.0, end_seconds=3)]
    keys = {frames_fingerprint(SAMPLING, None, clip) for clip in (None, *clips)}
    assert len(keys) == 4
    assert frames_fingerprint(parse_sampling("uniform_n-8")) == "c4ff2f74d331a53857187972"


def test_the_facts_of_a_clip_describe_only_the_clip(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=60)
    job = ProbeJob(
        benchmark="b",
        video_id="v",
        path=path,
        content_hash="",
        clip=Clip(start_seconds=2.0, end_seconds=3.5),
    )
    video, index = probe_video(job)
    assert [video.timing.frame_count, video.timing.duration_seconds] == pytest.approx([15, 1.5])
    assert index.frame_count == 60


def test_a_clip_outside_of_the_video_is_an_error(tmp_path: Path, store: Store) -> None:
    path = write_video(tmp_path / "a.mp4", frames=60)
    with pytest.raises(VideoUnreadableError, match=r"the clip from 7 s to 9 s contains no frame"):
        extracted(store, path, Clip(start_seconds=7.0, end_seconds=9.0))
    assert index_packets(path).within(Clip(start_seconds=5.97)).frame_count == 1


def pictures(folder: Path, count: int = 12) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        grey = np.full((48, 64, 3), 20 * number, np.uint8)
        Image.fromarray(grey).save(folder / f"{number + 1:05}.jpg", quality=95)
    return folder


def test_a_folder_of_pictures_is_a_video(tmp_path: Path, store: Store) -> None:
    folder = FrameFolder(pictures(tmp_path / "show [s01] {1}"), frames_per_second=3)
    frames = extracted(store, folder, Clip(start_seconds=1.0, end_seconds=3.0)).frames
    shown = [round(float(pixels_of(frame).mean()) / 20) for frame in frames]
    assert shown == [frame.index + 3 for frame in frames]
    assert 3 <= min(shown) < max(shown) < 9
    job = ProbeJob(benchmark="b", video_id="v", path=folder, content_hash="")
    video, _ = probe_video(job)
    assert [video.timing.duration_seconds, video.stream.width] == pytest.approx([4.0, 64])


def test_the_hash_of_a_folder_depends_on_its_pictures_and_rate(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "a", count=3)
    with HashCache(tmp_path / "hashes.sqlite") as hashes:
        first = content_hash(FrameFolder(folder, 3), hashes)
        assert content_hash(FrameFolder(pictures(tmp_path / "b", count=3), 3), hashes) == first
        assert content_hash(FrameFolder(folder, 2), hashes) != first
        (folder / "00002.jpg").write_bytes((folder / "00003.jpg").read_bytes())
        assert content_hash(FrameFolder(folder, 3), hashes) != first


def test_a_folder_without_pictures_is_an_error(tmp_path: Path, store: Store) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(VideoUnreadableError, match="no picture in this folder"):
        extracted(store, FrameFolder(tmp_path / "empty", 3))
