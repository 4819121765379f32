"""The packet index equals what a demuxer and a full decode report."""

from pathlib import Path

import av
import numpy as np
import pytest
from upath import UPath

from tests.support.builders import declare_samples, truncate, write_audio_only, write_video
from tests.support.shared_files import OddVideos
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.videos.container import demux_packets, index_packets
from videomme_pipeline.videos.mp4 import read_moov
from videomme_pipeline.videos.packets import IndexSource, PacketIndex

ARRAYS = ("pts", "dts", "size", "is_keyframe", "is_hidden", "precedes_loss")


def test_index_lists_the_frames_of_a_full_decode(odd_video: Path) -> None:
    index = index_packets(odd_video)
    with av.open(str(odd_video)) as container:
        shown = [frame.pts for frame in container.decode(video=0)]
    if index.source is IndexSource.DECODE:
        assert index.frame_count == len(shown)
    else:
        assert index.frame_pts.tolist() == shown


def test_sample_tables_agree_with_the_demuxer(odd_video: Path) -> None:
    tables = read_moov(odd_video)
    if tables is None:
        assert odd_video.suffix != ".mp4" or odd_video.stem in ("fragmented", "edit_between_frames")
        return
    demuxed = demux_packets(odd_video)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(tables, name), getattr(demuxed, name), name)
    assert tables.time_base == demuxed.time_base
    assert tables.last_duration == demuxed.last_duration
    assert tables.missing_seconds == demuxed.missing_seconds == 0


def test_times_count_from_the_first_shown_frame(odd_videos: OddVideos) -> None:
    index = index_packets(odd_videos.path("late_start.mkv"))
    assert index.timing.start_seconds == pytest.approx(5.0)
    assert index.seconds[:3].tolist() == pytest.approx([0, 0.1, 0.2])
    assert index.duration_seconds == pytest.approx(6.0)
    assert index.missing_seconds == 0


@pytest.mark.parametrize("name", ["cut.mkv", "cut.mp4"])
def test_the_index_of_a_truncated_file_has_its_missing_seconds(tmp_path: Path, name: str) -> None:
    complete = write_video(tmp_path / name, container_options=_table_first(name))
    index = index_packets(truncate(complete, 0.5))
    assert index.claimed_seconds == pytest.approx(6.0, abs=0.2)
    assert 2.0 < index.duration_seconds < 4.0
    assert index.missing_seconds == pytest.approx(6.0 - index.duration_seconds, abs=0.2)


def test_a_loaded_index_equals_the_saved_one(tmp_path: Path) -> None:
    index = index_packets(write_video(tmp_path / "a.mp4"))
    path = UPath(tmp_path / "packets" / "a.parquet")
    index.save(path)
    loaded = PacketIndex.load(path)
    assert loaded is not None
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(index, name))
    assert (loaded.time_base, loaded.last_duration, loaded.claimed_seconds, loaded.source) == (
        index.time_base,
        index.last_duration,
        index.claimed_seconds,
        index.source,
    )


def test_a_missing_or_damaged_index_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert PacketIndex.load(UPath(tmp_path / "none.parquet")) is None
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    assert PacketIndex.load(UPath(tmp_path / "bad.parquet")) is None
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet.corrupt"]
    assert "bad.parquet: the file is damaged" in caplog.text


@pytest.mark.parametrize(
    ("content", "format_name"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html><body>quota exceeded</body></html>", "an HTML page"),
        (b"PK\x03\x04" + b"\0" * 200, "a ZIP archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 200, "a JPEG picture"),
        (b"nothing in particular " * 20, "no video"),
    ],
)
def test_the_error_for_another_format_names_that_format(
    tmp_path: Path, content: bytes, format_name: str
) -> None:
    path = tmp_path / "007.mp4"
    path.write_bytes(content)
    with pytest.raises(VideoUnreadableError, match=f"video 007: .*{format_name}"):
        index_packets(path)


@pytest.mark.parametrize("box", ["stsz", "stts", "ctts", "stsc"])
def test_the_error_names_a_box_with_more_samples_than_bytes(tmp_path: Path, box: str) -> None:
    path = write_video(tmp_path / "007.mp4", options={"bf": "2"})
    declare_samples(path, box, (1 << 31) - 1)
    with pytest.raises(VideoUnreadableError, match=f"'{box}' declares 2,147,483,[67].. samples"):
        index_packets(path)


def test_a_file_with_only_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VideoUnreadableError, match="no video stream in it, only audio"):
        index_packets(write_audio_only(tmp_path / "007.mp4"))


def test_the_error_of_an_mp4_without_its_table_has_the_file_size(tmp_path: Path) -> None:
    path = truncate(write_video(tmp_path / "007.mp4"), 0.5)
    with pytest.raises(VideoUnreadableError, match=r"no 'moov' box.*cut off: [\d,]+ of at least"):
        index_packets(path)


def test_an_encrypted_track_is_identified(tmp_path: Path) -> None:
    path = write_video(tmp_path / "007.mp4")
    path.write_bytes(path.read_bytes().replace(b"avc1", b"encv"))
    with pytest.raises(VideoUnreadableError, match="encrypted"):
        index_packets(path)


def test_a_file_with_the_wrong_suffix_is_read_by_its_content(tmp_path: Path) -> None:
    matroska = write_video(tmp_path / "a.mkv")
    mislabelled = matroska.rename(tmp_path / "a.mp4")
    assert index_packets(mislabelled).frame_count == 60


def _table_first(name: str) -> dict[str, str]:
    return {"movflags": "+faststart"} if name.endswith(".mp4") else {}
