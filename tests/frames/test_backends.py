"""Backends: the pictures of a full sequential decode, or a refusal that says why."""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.builders import ODD_VIDEOS, damage, hole, read_barcode, write_video
from videomme_pipeline.frames.backends import Decoded, Missing, read, why_not
from videomme_pipeline.frames.sampling import Backend, FpsBased, Keyframe, Placement, UniformN
from videomme_pipeline.videos.packets import PacketIndex, index_packets

STRATEGIES = [
    UniformN(frames=7),
    UniformN(frames=7, placement=Placement.ENDPOINTS),
    FpsBased(fps=1.7),
    FpsBased(fps=100),
    Keyframe(),
]
EXACT_IN_DECORD = {"h264.mp4", "interlaced.mp4", "odd_size.mkv", "one_keyframe.mp4", "rotated.mp4"}


def sequential(path: Path) -> list[NDArray[Any]]:
    """Every frame of the file, decoded in order."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


def bytes_read() -> int:
    """How much this process has read from files so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def decoded(path: Path, index: PacketIndex, frames: list[int], backend: Backend) -> list[Decoded]:
    items = list(read(path, index, frames, backend))
    assert [item for item in items if isinstance(item, Missing)] == []
    return [item for item in items if isinstance(item, Decoded)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: str(strategy.name))
def test_planned_frames_are_those_of_a_full_decode(odd_video: Path, strategy: UniformN) -> None:
    index, truth = index_packets(odd_video), sequential(odd_video)
    frames = list(strategy.choose(index).frames)
    got = decoded(odd_video, index, frames, Backend.PYAV)
    assert sorted(item.number for item in got) == frames
    for item in got:
        np.testing.assert_array_equal(item.frame.to_ndarray(), truth[item.number])


def test_the_barcode_agrees_with_the_frame_number(odd_video_folder: Path) -> None:
    path = write_video(odd_video_folder / "barcode.mp4", frames=90)
    index = index_packets(path)
    got = decoded(path, index, [0, 13, 41, 77, 89], Backend.PYAV)
    for item in got:
        picture = np.asarray(item.frame.to_ndarray(format="rgb24"), np.uint8)
        assert read_barcode(picture) == item.number


def test_of_a_large_file_only_what_is_needed_is_read(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (60, 240, 320, 3), np.uint8)
    path = write_video(tmp_path / "noise.mp4", pictures=noise, width=320, height=240, gop=20)
    index = index_packets(path)
    for number in index.keyframes.tolist():
        before = bytes_read()
        decoded(path, index, [number], Backend.PYAV)
        assert bytes_read() - before < 0.2 * index.sizes[:20].sum()


@pytest.mark.parametrize("backend", [Backend.DECORD, Backend.TORCHCODEC])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: str(strategy.name))
def test_other_backends_are_exact_or_say_why_not(
    odd_video: Path, strategy: UniformN, backend: Backend
) -> None:
    if find_spec(backend.value) is None:
        pytest.skip(f"{backend} is not installed")
    index = index_packets(odd_video)
    if why_not(backend, odd_video, index):
        assert backend is Backend.TORCHCODEC or odd_video.name not in EXACT_IN_DECORD
        return
    frames = list(strategy.choose(index).frames)
    truth = {item.number: item for item in decoded(odd_video, index, frames, Backend.PYAV)}
    got = decoded(odd_video, index, frames, backend)
    assert sorted(item.number for item in got) == frames
    for item in got:
        expected = truth[item.number].frame.to_ndarray(format="rgb24").astype(int)
        expected = np.rot90(expected, truth[item.number].rotation // 90)
        seen = np.rot90(item.frame.to_ndarray(format="rgb24").astype(int), item.rotation // 90)
        assert np.abs(expected - seen).mean() < 3


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hevc.mp4", "H.264 alone"),
        ("open_gop.mp4", "IDR"),
        ("intra_refresh.mp4", "IDR"),
        ("edit_list.mp4", "edit list"),
        ("transport.ts", "does not return"),
        ("no_timestamps.h264", "no usable timestamps"),
    ],
)
def test_decord_is_refused_where_it_is_known_to_be_wrong(
    tmp_path: Path, name: str, reason: str
) -> None:
    path = ODD_VIDEOS[name](tmp_path / name)
    refused = why_not(Backend.DECORD, path, index_packets(path))
    assert refused is not None
    assert reason in refused


def test_a_backend_that_does_not_load_is_refused(
    tmp_path: Path, odd_video_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "torchcodec" / "__init__.py"
    package.parent.mkdir()
    package.write_text("raise RuntimeError('Could not load libtorchcodec.\\nLikely causes: …')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchcodec", raising=False)
    path = write_video(odd_video_folder / "plain.mp4")
    found = why_not(Backend.TORCHCODEC, path, index_packets(path))
    assert found == "torchcodec does not load: Could not load libtorchcodec."


def test_damage_is_reported_and_sound_frames_around_it_are_right(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=120, gop=24)
    truth = sequential(path)
    damage(path, 0.5, length=1500)
    index = index_packets(path)
    items = list(read(path, index, list(range(120))))
    missing = {item.number for item in items if isinstance(item, Missing)}
    assert missing
    assert max(missing) - min(missing) < 2 * 24
    for item in items:
        if isinstance(item, Decoded):
            np.testing.assert_array_equal(item.frame.to_ndarray(), truth[item.number])
    assert sorted(item.number for item in items) == list(range(120))


CHECKSUMS = {"preset": "ultrafast", "x265-params": "log-level=none:pools=1:hash=1"}


@pytest.mark.parametrize("at", [0.3, 0.5, 0.7])
@pytest.mark.parametrize(
    ("name", "codec", "options", "hurt"),
    [
        ("hevc.mp4", "libx265", None, hole),
        ("checksums.mp4", "libx265", CHECKSUMS, damage),
        ("vp9.webm", "libvpx-vp9", None, hole),
        ("av1.mp4", "libsvtav1", None, hole),
        ("mpeg2.mpg", "mpeg2video", None, damage),
    ],
)
def test_no_wrong_picture_comes_out_of_a_damaged_file(
    tmp_path: Path,
    name: str,
    codec: str,
    options: dict[str, str] | None,
    hurt: Callable[[Path, float], Path],
    at: float,
) -> None:
    fps = 25 if codec == "mpeg2video" else 10
    path = write_video(tmp_path / name, frames=120, gop=24, fps=fps, codec=codec, options=options)
    with av.open(str(path)) as container:
        truth = {frame.pts: frame.to_ndarray() for frame in container.decode(video=0)}
    hurt(path, at)
    index = index_packets(path)
    items = list(read(path, index, list(range(index.frame_count))))
    sound = [item.frame for item in items if isinstance(item, Decoded)]
    assert 0 < len(sound) < 120
    for frame in sound:
        np.testing.assert_array_equal(frame.to_ndarray(), truth[frame.pts])
