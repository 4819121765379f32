"""Probing: the facts of a file, and a content hash that is computed only once."""

import mmap
import os
from pathlib import Path

import pytest
from blake3 import blake3

from tests.support.builders import rotate_mp4, write_audio_only, write_video
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.store import Store, read_rows, write_rows
from videomme_pipeline.videos import probe
from videomme_pipeline.videos.probe import HashCache, Video, content_hash, probe_video


def test_the_facts_of_a_rotated_video_describe_the_shown_pictures(tmp_path: Path) -> None:
    path = rotate_mp4(write_video(tmp_path / "a.mp4", audio=True, colorspace=1), 90)
    video, index = probe_video(path, benchmark="smoke", video_id="a")
    assert (video.width, video.height, video.rotation_degrees) == (120, 160, -90)
    assert (video.codec, video.pixel_format, video.color_space) == ("h264", "yuv420p", "bt709")
    assert (video.frame_count, video.keyframe_count) == (60, 5)
    assert video.duration_seconds == pytest.approx(6.0)
    assert video.average_fps == pytest.approx(10.0)
    assert video.has_audio
    assert video.content_hash == blake3(path.read_bytes()).hexdigest()
    assert index.frame_count == 60


def test_the_facts_are_a_row_of_a_table(tmp_path: Path) -> None:
    subtitle = tmp_path / "a.srt"
    subtitle.write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n", encoding="utf-8")
    video, _ = probe_video(
        write_video(tmp_path / "a.mp4"), benchmark="smoke", video_id="a", subtitle_path=subtitle
    )
    path = Store.at(tmp_path / "data").video("smoke", "a")
    write_rows(path, [video], Video, fingerprint=video.content_hash)
    assert read_rows(path, Video) == [video]
    assert video.subtitle_hash == blake3(subtitle.read_bytes()).hexdigest()


def test_a_missing_file_and_a_file_without_pictures_are_errors(tmp_path: Path) -> None:
    with pytest.raises(VideoUnreadableError, match=r"video 7: .*no such file"):
        probe_video(tmp_path / "7.mp4", benchmark="smoke", video_id="7")
    with pytest.raises(VideoUnreadableError, match="only audio"):
        probe_video(write_audio_only(tmp_path / "8.mp4"), benchmark="smoke", video_id="8")


def test_a_file_in_the_hash_cache_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"first")
    with HashCache(tmp_path / "hashes.sqlite") as hashes:
        first = content_hash(path, hashes)
        stat = path.stat()
        path.write_bytes(b"other")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert content_hash(path, hashes) == first
        assert content_hash(path, hashes, verify=True) == blake3(b"other").hexdigest()
        assert content_hash(path, hashes) == blake3(b"other").hexdigest()
        path.write_bytes(b"third")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        hashes.clear()
        assert content_hash(path, hashes) == blake3(b"third").hexdigest()


def test_the_hash_does_not_depend_on_the_size_of_the_mapped_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "MAPPED_PART_BYTES", mmap.ALLOCATIONGRANULARITY)
    path = tmp_path / "a.mp4"
    for size in (0, 1, mmap.ALLOCATIONGRANULARITY, 2 * mmap.ALLOCATIONGRANULARITY + 5):
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
        assert hashes.get(path.resolve(), path.stat()) == blake3(b"first").hexdigest()
