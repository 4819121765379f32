"""Probing: the facts of a file, and a content hash that is computed only once."""

import os
import time
from dataclasses import replace
from pathlib import Path, PosixPath
from typing import Any

import pytest
from blake3 import blake3
from upath import UPath

from tests.support.builders import declare_samples, rotate_mp4, write_audio_only, write_video
from videomme_pipeline.errors import VideoError, VideoUnreadableError
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import FileState
from videomme_pipeline.storage.tables import read_rows, write_rows
from videomme_pipeline.videos import probe
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.packets import PacketIndex
from videomme_pipeline.videos.probe import (
    ProbeJob,
    Video,
    content_hash,
    probe_video,
    probe_videos,
    video_hash,
)


def job(path: Path, **more: Any) -> ProbeJob:
    return ProbeJob(
        benchmark="smoke",
        video_id=path.stem,
        path=path,
        content_hash=content_hash(path) if path.is_file() else "",
        **more,
    )


def test_the_facts_of_a_rotated_video_describe_the_shown_pictures(tmp_path: Path) -> None:
    path = rotate_mp4(write_video(tmp_path / "a.mp4", audio=True, colorspace=1), 90)
    video, index = probe_video(job(path))
    stream, timing = video.stream, video.timing
    assert (stream.width, stream.height, stream.rotation_degrees) == (120, 160, -90)
    assert (stream.codec, stream.pixel_format, stream.color_space) == ("h264", "yuv420p", "bt709")
    assert (timing.frame_count, timing.keyframe_count) == (60, 5)
    assert timing.duration_seconds == pytest.approx(6.0)
    assert timing.average_fps == pytest.approx(10.0)
    assert video.has_audio
    assert video.content_hash == blake3(path.read_bytes()).hexdigest()
    assert index.frame_count == 60


def test_the_facts_are_a_row_of_a_table(tmp_path: Path) -> None:
    subtitle = tmp_path / "a.srt"
    subtitle.write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n", encoding="utf-8")
    video, _ = probe_video(
        job(
            write_video(tmp_path / "a.mp4"),
            subtitle_path=subtitle,
            subtitle_hash=content_hash(subtitle),
        )
    )
    path = Store.at(tmp_path / "data").path("smoke", "videos", "a.parquet")
    write_rows(path, [video], Video, fingerprint=video.content_hash)
    assert read_rows(path, Video) == [video]
    assert video.subtitle_hash == blake3(subtitle.read_bytes()).hexdigest()


def test_bad_files_do_not_stop_the_other_videos(tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    declare_samples(write_video(tmp_path / "huge.mp4"), "stts", (1 << 31) - 1)
    reasons = {
        "gone": "gone.mp4: no such file",
        "folder": "not a regular file",
        "loop": "Too many levels of symbolic links",
        "sound": "only audio",
        "huge": "'stts' declares 2,147,483,647 samples, more than the",
    }
    write_audio_only(tmp_path / "sound.mp4")
    write_video(tmp_path / "good.mp4")
    jobs = [job(tmp_path / f"{name}.mp4") for name in (*reasons, "good")]
    results = {result.task.video_id: result for result in probe_videos(jobs)}
    assert results["good"].result().timing.frame_count == 60
    for name, reason in reasons.items():
        error = results[name].error
        assert isinstance(error, VideoError)
        assert f"video {name}: " in str(error)
        assert reason in str(error)


@pytest.mark.parametrize("name", ["gone.mp4", "folder.mp4", "loop.mp4"])
def test_the_error_of_a_file_that_cannot_be_hashed_names_its_video(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    with pytest.raises(VideoUnreadableError, match=f"video 7: .*{name}: .*; get it again"):
        video_hash(tmp_path / name, "7")


def test_the_packet_index_is_stored_by_the_process_that_probes(tmp_path: Path) -> None:
    path, index_file = write_video(tmp_path / "a.mp4"), UPath(tmp_path / "index.parquet")
    (result,) = probe_videos([replace(job(path), index_file=index_file)])
    index = PacketIndex.load(index_file)
    assert index is not None
    assert result.result().timing.frame_count == index.frame_count == 60


class Endless(PosixPath):
    """A path that a child process receives only after ten minutes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return time.sleep, (600,)


def test_a_video_over_its_limits_does_not_stop_the_others(tmp_path: Path) -> None:
    good = job(write_video(tmp_path / "a.mp4"))
    (large,) = probe_videos([good], limits=TaskLimits(seconds=60, memory_bytes=1 << 20))
    assert isinstance(large.error, VideoError)
    (late,) = probe_videos(
        [replace(good, path=Endless(str(good.path)))], limits=TaskLimits(seconds=0.5)
    )
    assert "video a: " in str(late.error)
    assert "not finished after 0.5 s" in str(late.error)


def test_a_file_in_the_hash_cache_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"first")
    with HashCache(tmp_path / "hashes.sqlite") as hashes:
        first = content_hash(path, hashes)
        stat = path.stat()
        path.write_bytes(b"other")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert content_hash(path, hashes) == first
        hashes.clear()
        assert content_hash(path, hashes) == blake3(b"other").hexdigest()


def test_the_hash_does_not_depend_on_the_size_of_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "HASHED_PART_BYTES", 1000)
    path = tmp_path / "a.mp4"
    for size in (0, 1, 1000, 2005):
        path.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        assert content_hash(path) == blake3(path.read_bytes()).hexdigest()


def test_a_changed_file_is_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with HashCache(tmp_path / "hashes.sqlite") as hashes:
        path.write_bytes(b"first")
        content_hash(path, hashes)
        path.write_bytes(b"longer than before")
        assert content_hash(path, hashes) == blake3(b"longer than before").hexdigest()


def test_hashes_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"first")
    with HashCache(tmp_path / "hashes.sqlite") as hashes:
        content_hash(path, hashes)
    with HashCache(tmp_path / "hashes.sqlite") as hashes:
        assert hashes.get(path.resolve(), FileState.of(path.stat())) == blake3(b"first").hexdigest()
