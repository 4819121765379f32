"""Backends return the frames of a full sequential decode, or refuse with a reason."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.builders import ODD_VIDEOS, damage, hole, read_barcode, write_video
from tests.support.shared_files import OddVideos
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.frames.backends import (
    BACKENDS,
    PYAV,
    DecodedFrame,
    Missing,
    decode_frames,
    refusal_reason,
)
from videomme_pipeline.frames.cache import read_frames
from videomme_pipeline.frames.extract import FrameJob, extract_here
from videomme_pipeline.frames.sampling import FpsBased, Keyframe, Placement, UniformN
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.videos.container import index_packets
from videomme_pipeline.videos.packets import IndexSource, PacketIndex

STRATEGIES = (
    UniformN(frames=7),
    UniformN(frames=7, placement=Placement.ENDPOINTS),
    FpsBased(fps=1.7),
    FpsBased(fps=100),
    Keyframe(),
)
EXACT_IN_DECORD = {"h264.mp4", "interlaced.mp4", "odd_size.mkv", "one_keyframe.mp4", "rotated.mp4"}


def sequential(path: Path) -> list[NDArray[Any]]:
    """Every frame of the file, decoded in order."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


def bytes_read() -> int:
    """The number of bytes that this process has read from files so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def decoded(path: Path, index: PacketIndex, frames: list[int], backend: str) -> list[DecodedFrame]:
    items = list(decode_frames(path, index, frames, backend))
    assert [item for item in items if isinstance(item, Missing)] == []
    return [item for item in items if isinstance(item, DecodedFrame)]


def test_pyav_returns_the_frames_of_a_full_decode(odd_video: Path) -> None:
    whole, truth = index_packets(odd_video), sequential(odd_video)
    length = whole.duration_seconds
    middle = whole.within(Clip(start_seconds=0.4 * length, end_seconds=0.7 * length))
    assert 0 < middle.frames_before < middle.frames_before + middle.frame_count < len(truth)
    for index, strategy in product((whole, middle), STRATEGIES):
        frames = list(strategy.choose(index.times).frames)
        items = decoded(odd_video, index, frames, PYAV)
        assert sorted(item.number for item in items) == frames, strategy.name
        for item in items:
            number = index.frames_before + item.number
            np.testing.assert_array_equal(item.frame.to_ndarray(), truth[number], strategy.name)


def test_the_barcode_agrees_with_the_frame_number(tmp_path: Path) -> None:
    path = write_video(tmp_path / "barcode.mp4", frames=90)
    index = index_packets(path)
    for item in decoded(path, index, [0, 13, 41, 77, 89], PYAV):
        picture = np.asarray(item.frame.to_ndarray(format="rgb24"), np.uint8)
        assert read_barcode(picture) == item.number


def test_only_the_needed_part_of_a_large_file_is_read(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (60, 240, 320, 3), np.uint8)
    path = write_video(tmp_path / "noise.mp4", pictures=noise, width=320, height=240, gop=20)
    index = index_packets(path)
    decoded(path, index, [0], PYAV)  # the first call imports modules
    for number in index.keyframes.tolist():
        bytes_before = bytes_read()
        decoded(path, index, [number], PYAV)
        assert bytes_read() - bytes_before < 0.2 * index.size[:20].sum()


@pytest.mark.skipif(find_spec("decord") is None, reason="decord is not installed")
def test_decord_returns_exact_frames_or_is_refused(odd_videos: OddVideos) -> None:
    accepted = set()
    for name in ODD_VIDEOS:
        path = odd_videos.path(name)
        index = index_packets(path)
        if refusal_reason("decord", path, index) is None:
            accepted.add(name)
            for strategy in STRATEGIES:
                assert_equal_to_pyav(
                    path, index, list(strategy.choose(index.times).frames), "decord"
                )
    assert accepted >= EXACT_IN_DECORD


def test_lost_and_corrupt_frames_of_a_full_decode_are_missing_by_number(tmp_path: Path) -> None:
    whole = write_video(tmp_path / "whole.mp4", frames=20)
    index = replace(index_packets(whole), source=IndexSource.DECODE)
    cut = write_video(tmp_path / "cut.mp4", frames=10)
    items = list(decode_frames(cut, index, [3, 12, 15], PYAV))
    assert [item.number for item in items] == [3, 12, 15]
    reasons = [item.reason for item in items if isinstance(item, Missing)]
    assert reasons == ["the decoder returns no picture for it"] * 2
    items = list(decode_frames(damage(whole, at=0.3, length=40), index, list(range(20)), PYAV))
    assert sorted(item.number for item in items) == list(range(20))
    (corrupt,) = [item for item in items if isinstance(item, Missing)]
    assert corrupt.reason == "its decoder marks it as corrupt"


def assert_equal_to_pyav(path: Path, index: PacketIndex, frames: list[int], backend: str) -> None:
    truth = {item.number: item for item in decoded(path, index, frames, PYAV)}
    items = decoded(path, index, frames, backend)
    assert sorted(item.number for item in items) == frames, path.name
    for item in items:
        expected = truth[item.number].frame.to_ndarray(format="rgb24").astype(int)
        expected = np.rot90(expected, truth[item.number].rotation // 90)
        actual = np.rot90(item.frame.to_ndarray(format="rgb24").astype(int), item.rotation // 90)
        assert np.abs(expected - actual).mean() < 3, (path.name, item.number)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hevc.mp4", "only on H.264"),
        ("open_gop.mp4", "IDR"),
        ("intra_refresh.mp4", "IDR"),
        ("edit_list.mp4", "edit list"),
        ("transport.ts", "does not return"),
        ("no_timestamps.h264", "no usable timestamps"),
    ],
)
def test_decord_is_refused_on_files_that_it_decodes_wrong(
    odd_videos: OddVideos, name: str, reason: str
) -> None:
    path = odd_videos.path(name)
    refused = refusal_reason("decord", path, index_packets(path))
    assert refused is not None
    assert reason in refused


def test_a_backend_that_does_not_load_is_refused(
    tmp_path: Path, odd_videos: OddVideos, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "decord" / "__init__.py"
    package.parent.mkdir()
    package.write_text("raise RuntimeError('libavcodec.so.58 is missing.\\nLikely causes: …')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "decord", raising=False)
    path = odd_videos.path("h264.mp4")
    refused = refusal_reason("decord", path, index_packets(path))
    assert refused == "decord does not load: libavcodec.so.58 is missing."


def test_a_backend_is_one_class_that_is_registered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BACKENDS, "whole", "tests.support.whole_backend:WholeBackend")
    path = write_video(tmp_path / "a.mp4", frames=30)
    job = FrameJob(
        video_id="a",
        path=path,
        video_hash="hash",
        samplings=(parse_sampling("uniform_n-3.whole"), parse_sampling("uniform_n-3")),
    )
    store = Store.at(tmp_path / "data")
    whole, planned = extract_here(job, store=store).frame_sets
    assert (whole.decoded_by, planned.decoded_by) == ("whole", "pyav")
    frames = [read_frames(store, "hash", item.fingerprint).frames for item in (whole, planned)]
    assert frames[0] == frames[1]
    with pytest.raises(ConfigurationError, match=r"`backend` is 'hole': choose pyav, .*, whole"):
        parse_sampling({"strategy": "keyframe", "backend": "hole"})


def test_frames_around_damage_are_right_and_the_damage_is_reported(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=120, gop=24)
    truth = sequential(path)
    damage(path, 0.5, length=1500)
    index = index_packets(path)
    items = list(decode_frames(path, index, list(range(120))))
    missing = {item.number for item in items if isinstance(item, Missing)}
    assert missing
    assert max(missing) - min(missing) < 2 * 24
    for item in items:
        if isinstance(item, DecodedFrame):
            np.testing.assert_array_equal(item.frame.to_ndarray(), truth[item.number])
    assert sorted(item.number for item in items) == list(range(120))


CHECKSUMS = {"preset": "ultrafast", "x265-params": "log-level=none:pools=1:hash=1"}


@pytest.mark.parametrize(
    ("name", "codec", "options", "inflict"),
    [
        ("hevc.mp4", "libx265", None, hole),
        ("checksums.mp4", "libx265", CHECKSUMS, damage),
        ("vp9.webm", "libvpx-vp9", None, hole),
        ("av1.mp4", "libsvtav1", None, hole),
        ("mpeg2.mpg", "mpeg2video", None, damage),
    ],
)
def test_a_damaged_file_yields_no_wrong_picture(
    tmp_path: Path,
    name: str,
    codec: str,
    options: dict[str, str] | None,
    inflict: Callable[[Path, float], Path],
) -> None:
    fps = 25 if codec == "mpeg2video" else 10
    undamaged = write_video(
        tmp_path / name, frames=120, gop=24, fps=fps, codec=codec, options=options
    )
    with av.open(str(undamaged)) as container:
        truth = {frame.pts: frame.to_ndarray() for frame in container.decode(video=0)}
    for position in (0.3, 0.5, 0.7):
        path = inflict(
            Path(shutil.copy(undamaged, tmp_path / f"damaged{undamaged.suffix}")), position
        )
        index = index_packets(path)
        items = list(decode_frames(path, index, list(range(index.frame_count))))
        frames = [item.frame for item in items if isinstance(item, DecodedFrame)]
        assert 0 < len(frames) < 120, position
        for frame in frames:
            np.testing.assert_array_equal(frame.to_ndarray(), truth[frame.pts])
