"""The clips for measurements are realistic, and all strategies and backends decode them right."""

from importlib.util import find_spec
from pathlib import Path

import av
import numpy as np
import pytest
from blake3 import blake3

from tests.support.clips import CLIPS, DEFAULT_FOLDER, ENCODED_FRAMES, Clip, clip, facts
from videomme_pipeline.frames.backends import DecodedFrame, decode_frames, refusal_reason
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.videos.container import index_packets

pytestmark = pytest.mark.slow

STRATEGIES = ("uniform_n-64", "uniform_n-16-endpoints", "fps_based-1-max-64", "keyframe-32")


@pytest.fixture(scope="module")
def folder() -> Path:
    """Where the measurements keep their clips, since they take minutes to build."""
    return DEFAULT_FOLDER


@pytest.fixture(scope="module")
def digests(folder: Path) -> list[str]:
    """The digests of the encoded minute, decoded in order."""
    with av.open(str(clip("60s_360p30", folder))) as container:
        frames = container.decode(video=0)
        return [_digest(frame) for _, frame in zip(range(ENCODED_FRAMES), frames, strict=False)]


def _digest(frame: av.VideoFrame) -> str:
    return blake3(np.ascontiguousarray(frame.to_ndarray()).tobytes()).hexdigest()


@pytest.mark.parametrize("expected", [c for c in CLIPS if c.height == 360], ids=lambda c: c.name)
def test_a_long_clip_repeats_the_pictures_of_its_minute(
    folder: Path, digests: list[str], expected: Clip
) -> None:
    path = clip(expected.name, folder)
    index = index_packets(path)
    assert index.frame_count == expected.seconds * expected.fps // ENCODED_FRAMES * ENCODED_FRAMES
    for name in STRATEGIES:
        frames = parse_sampling(name).choose(index.times).frames
        items = list(decode_frames(path, index, frames))
        assert [item.number for item in items] == list(frames)
        for item in items:
            assert isinstance(item, DecodedFrame)
            assert _digest(item.frame) == digests[item.number % ENCODED_FRAMES], (name, item.number)


@pytest.mark.skipif(find_spec("decord") is None, reason="decord is not installed")
@pytest.mark.parametrize("name", STRATEGIES)
def test_decord_reads_the_same_pictures(folder: Path, name: str) -> None:
    path = clip("60s_360p30", folder)
    index = index_packets(path)
    assert refusal_reason("decord", path, index) is None
    frames = parse_sampling(name).choose(index.times).frames
    for ours, other in zip(
        decode_frames(path, index, frames),
        decode_frames(path, index, frames, "decord"),
        strict=True,
    ):
        assert isinstance(ours, DecodedFrame)
        assert isinstance(other, DecodedFrame)
        expected = ours.frame.to_ndarray(format="rgb24").astype(int)
        assert np.abs(expected - other.frame.to_ndarray(format="rgb24")).mean() < 3


def test_the_bit_rate_is_typical_of_video_sites(folder: Path) -> None:
    measured = facts(clip("60s_360p30", folder))
    assert 0.3 <= measured.megabits_per_second <= 0.5
    assert measured.longest_gop <= 250
    assert 0.3 < measured.non_reference_share < 0.6
