"""Sampling: placements equal those of the published evaluators, and limits are recorded."""

import json
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import write_video
from tests.support.clock import steady
from tests.support.paths import GOLDEN
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.frames.backends import BACKENDS
from videomme_pipeline.frames.picture import MAX_SIDE_PIXELS, Encoding, Patches, PictureSpec, Resize
from videomme_pipeline.frames.sampling import (
    MAX_FPS,
    MIN_FPS,
    STRATEGIES,
    FpsBased,
    FramesByDuration,
    Keyframe,
    Limit,
    OnDamage,
    Placement,
    Qwen2Vl,
    Qwen3Vl,
    QwenSglang,
    QwenVl,
    UniformN,
    on_screen,
    place,
)
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.videos.container import index_packets
from videomme_pipeline.videos.packets import FrameTimes

PUBLISHED: dict[str, list[Any]] = json.loads(
    (GOLDEN / "placements.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("placement", list(Placement))
def test_placements_are_those_of_the_published_evaluators(placement: Placement) -> None:
    compared = 0
    for total, count, published in PUBLISHED[placement]:
        if 0 < count < total:
            assert place(total, count, placement).tolist() == published, (total, count)
            compared += 1
    assert compared >= 6


@pytest.mark.parametrize(("total", "fps", "rate", "published"), PUBLISHED["fps_based"])
def test_fps_based_takes_the_frames_of_the_official_v2_script(
    total: int, fps: float, rate: float, published: list[int]
) -> None:
    choice = FpsBased(fps=rate).choose(steady(total, fps))
    assert list(choice.frames) == published
    assert choice.limit is None


@pytest.mark.parametrize("strategy", [QwenVl, QwenSglang, Qwen2Vl, Qwen3Vl])
def test_the_rules_of_qwen_take_the_frames_of_the_packages(
    strategy: type[QwenVl | Qwen2Vl | Qwen3Vl],
) -> None:
    cases = PUBLISHED[strategy.model_fields["strategy"].default]
    for total, fps, rate, least, most, published in cases:
        sampling = strategy(fps=rate, min_frames=least, max_frames=most)
        chosen = sampling.choose(steady(total, fps)).frames
        assert list(chosen) == published, (total, fps)


RATES = ("24000/1001", "24", "25", "30000/1001", "30", "50", "60")
EVERYDAY = (("30000/1001", "mkv"),)


@pytest.mark.parametrize(
    ("fps", "suffix"),
    [
        pytest.param(*pair, marks=() if pair in EVERYDAY else pytest.mark.slow)
        for pair in product(RATES, ("mp4", "mkv", "webm"))
    ],
)
def test_the_rules_of_qwen_count_frames_of_files_as_the_packages_do(
    fps: str, suffix: str, tmp_path: Path
) -> None:
    """The packages compute the number of frames from the average rate in the file's header."""
    codec = "libvpx" if suffix == "webm" else "libx264"
    for seconds in (33, 46):
        path = write_video(
            tmp_path / f"{seconds}.{suffix}",
            frames=round(seconds * Fraction(fps)),
            fps=Fraction(fps),
            width=32,
            height=32,
            codec=codec,
        )
        with av.open(path) as container:
            rate = float(container.streams.video[0].average_rate or 0)
        times = index_packets(path).times
        for strategy in (QwenVl, Qwen2Vl, Qwen3Vl):
            for ours in (0.5, 1.0, 2.0):
                asked = len(times.seconds) / rate * ours
                whole = int(asked) if strategy is Qwen3Vl else int(asked) // 2 * 2
                assert strategy(fps=ours).choose(times).count == whole, (seconds, strategy, ours)


def test_256_seconds_of_24_frames_have_256_seconds() -> None:
    times = FrameTimes(np.arange(6144) / 24, np.array([0]), 255.99999999999997)
    assert Qwen2Vl(fps=1).choose(times).count == Qwen3Vl(fps=1).choose(times).count == 256


def test_llava_video_takes_every_second_or_evenly_spaced_frames() -> None:
    sampling = parse_sampling("llava_video-1-max-8")
    assert sampling.choose(steady(180, 29.97)).frames == (0, 30, 60, 90, 120, 150)
    choice = sampling.choose(steady(3000, 25.0))
    assert choice.frames == tuple(place(3000, 8, Placement.ENDPOINTS))
    assert (choice.asked, choice.limit) == (120, Limit.MAXIMUM)


@pytest.mark.parametrize("rule", ["qwen_vl_utils", "qwen3_vl"])
def test_sizes_in_patches_are_those_of_the_packages(rule: str) -> None:
    cases = [case[1:] for case in PUBLISHED["sizes"] if case[0] == rule]
    for *video, side, limits, published in cases:
        patches = Patches.model_validate({"side": side, "per_video": rule == "qwen3_vl", **limits})
        assert list(patches.size(*video)) == published, (video, side, limits)
    assert len(cases) >= 20


def test_pictures_are_smaller_if_there_are_more_of_them() -> None:
    picture = parse_sampling("qwen_vl-2.patches-28-total-19267584").picture
    sizes = [picture.size(1280, 720, frames) for frames in (4, 64, 128, 768)]
    assert sizes == [(1008, 560), (1008, 560), (728, 392), (420, 224)]
    assert all(width % 28 == height % 28 == 0 for width, height in sizes)
    assert picture.size(32, 24, 4) == (392, 280), "small pictures are enlarged"


@given(st.integers(1, 5000), st.floats(0.1, 60), st.integers(2, 64), st.integers(2, 2048))
def test_qwen_vl_takes_an_even_number_within_its_limits(
    total: int, fps: float, least: int, most: int
) -> None:
    sampling = QwenVl(fps=fps, min_frames=min(least, most), max_frames=max(least, most))
    choice = sampling.choose(steady(total, 30.0))
    assert choice.count % 2 == 0 or total == 1
    assert 1 <= choice.count <= min(total, max(least, most, 2))
    assert choice.frames[0] == 0
    assert choice.frames[-1] == total - 1
    assert len(set(choice.frames)) == choice.count


def test_a_video_of_one_frame_is_that_frame() -> None:
    choice = QwenVl().choose(steady(1, 30.0))
    assert (choice.frames, choice.asked) == ((0,), 1)


def test_frames_merged_in_pairs_share_the_pixel_limit_of_a_video() -> None:
    patches = Patches(side=32, per_video=True)
    assert patches.size(640, 416, 94) == (640, 416)
    assert patches.size(640, 416, 100) == (608, 384)


@given(st.integers(0, 5000), st.integers(1, 600), st.sampled_from(Placement))
def test_a_placement_chooses_distinct_frames_of_the_video(
    total: int, count: int, placement: Placement
) -> None:
    frames = place(total, count, placement)
    assert len(frames) == min(count, total)
    assert np.all(np.diff(frames) > 0)
    assert len(frames) == 0 or (frames[0] >= 0 and frames[-1] < total)


def test_all_frames_of_a_short_video_are_taken_and_the_limit_is_set() -> None:
    choice = UniformN(frames=16).choose(steady(5, 10))
    assert choice.frames == (0, 1, 2, 3, 4)
    assert (choice.asked, choice.count, choice.limit) == (16, 5, Limit.ALL_THERE_ARE)


def test_fps_based_sets_the_limit_at_its_maximum() -> None:
    choice = FpsBased(fps=1, max_frames=512).choose(steady(18_000, 10))
    assert (choice.asked, choice.count, choice.limit) == (1800, 512, Limit.MAXIMUM)
    gaps = np.diff(choice.requested_seconds)
    np.testing.assert_allclose(gaps, 1800 / 512)
    assert choice.requested_seconds[0] == 0


def test_fps_based_sets_the_limit_at_its_minimum() -> None:
    choice = FpsBased(fps=1, min_frames=8).choose(steady(40, 10))
    assert (choice.asked, choice.count, choice.limit) == (4, 8, Limit.MINIMUM)


def test_fps_based_above_the_rate_of_the_video_takes_each_frame_once() -> None:
    choice = FpsBased(fps=30).choose(steady(20, 10))
    assert choice.frames == tuple(range(20))
    assert (choice.asked, choice.limit) == (60, Limit.ALL_THERE_ARE)


def test_fps_based_chooses_the_frame_on_screen_if_the_rate_varies() -> None:
    shown = np.array([0.0, 0.9, 1.0, 1.1, 3.5])
    assert on_screen(shown, np.array([0.0, 1.0, 2.0, 3.0, 4.0])).tolist() == [0, 2, 3, 3, 4]
    choice = FpsBased(fps=1).choose(FrameTimes(shown, np.array([0]), 5.0))
    assert choice.frames == (0, 2, 3, 4)
    assert choice.requested_seconds == (0.0, 1.0, 2.0, 4.0)
    assert choice.limit is Limit.ALL_THERE_ARE


@given(
    st.integers(1, 400),
    st.floats(1, 60),
    st.floats(0.1, 5),
    st.integers(1, 20),
    st.integers(20, 64),
)
def test_fps_based_respects_its_limits_and_takes_no_later_frame(
    frames: int, fps: float, rate: float, least: int, most: int
) -> None:
    clock = steady(frames, fps)
    choice = FpsBased(fps=rate, min_frames=least, max_frames=most).choose(clock)
    assert 1 <= choice.count <= min(most, frames)
    assert list(choice.frames) == sorted(set(choice.frames))
    assert np.all(clock.seconds[list(choice.frames)] <= np.array(choice.requested_seconds) + 1e-5)


def test_uniform_n_takes_all_frames_of_a_short_clip() -> None:
    sampling = parse_sampling("uniform_n-all")
    assert sampling.name == "uniform_n-all"
    assert sampling.choose(steady(50, 25)).frames == tuple(range(50))


def test_keyframe_takes_all_or_some_of_the_keyframes() -> None:
    clock = steady(300, 30, gop=30)
    assert Keyframe().choose(clock).frames == tuple(range(0, 300, 30))
    some = Keyframe(frames=3).choose(clock)
    assert some.count == 3
    assert set(some.frames) <= set(range(0, 300, 30))
    more = Keyframe(frames=32).choose(clock)
    assert (more.asked, more.count, more.limit) == (32, 10, Limit.ALL_THERE_ARE)


def test_a_video_without_frames_has_an_empty_choice() -> None:
    empty = FrameTimes(np.empty(0), np.empty(0, np.int64), 0.0)
    examples = [strategy.name_examples[0] for strategy in STRATEGIES.values()]
    for sampling in map(parse_sampling, examples):
        assert sampling.choose(empty).frames == ()


def test_budgets_replace_the_count_of_a_duration_class() -> None:
    sampling = UniformN(frames=32, frames_by_duration=FramesByDuration(short=8, long=64))
    clock = steady(1000, 10)
    counts = {d: sampling.choose(clock, d).count for d in (*Duration, None)}
    assert counts == {Duration.SHORT: 8, Duration.MEDIUM: 32, Duration.LONG: 64, None: 32}
    assert sampling.for_duration(Duration.SHORT) == UniformN(frames=8)
    least = FpsBased(
        fps=1, min_frames=16, frames_by_duration=FramesByDuration(short=8)
    ).for_duration(Duration.SHORT)
    assert (least.min_frames, least.max_frames) == (8, 8)


PICTURES = st.builds(
    PictureSpec,
    resize=st.sampled_from([resize for resize in Resize if resize is not Resize.NATIVE]),
    pixels=st.integers(1, MAX_SIDE_PIXELS),
    jpeg_quality=st.integers(1, 100),
) | st.builds(
    PictureSpec,
    encoding=st.sampled_from([Encoding.PNG, Encoding.WEBP]),
    patches=st.builds(
        Patches,
        side=st.sampled_from([28, 32]),
        min_pixels=st.none() | st.integers(1, 50_000),
        max_pixels=st.none() | st.integers(200_000, 900_000),
        total_pixels=st.none() | st.integers(1, 10**9),
    )
    | st.just(Patches(side=32, per_video=True, max_pixels=25_165_824)),
)
COUNTS = st.integers(1, 999)
COMMON = {
    "picture": PICTURES,
    "on_damage": st.sampled_from(OnDamage),
    "backend": st.sampled_from(sorted(BACKENDS)),
    "frames_by_duration": st.builds(
        FramesByDuration,
        short=st.none() | COUNTS,
        medium=st.none() | COUNTS,
        long=st.none() | COUNTS,
    ),
}
SAMPLINGS = (
    st.builds(UniformN, frames=COUNTS, placement=st.sampled_from(Placement), **COMMON)
    | st.builds(
        FpsBased,
        fps=st.floats(MIN_FPS, MAX_FPS),
        min_frames=st.none() | st.integers(1, 9),
        max_frames=st.none() | st.integers(9, 999),
        **COMMON,
    )
    | st.builds(Keyframe, frames=st.none() | COUNTS, **COMMON)
)


@given(SAMPLINGS)
def test_a_name_determines_the_sampling_and_is_a_partition_key(
    sampling: UniformN | FpsBased | Keyframe,
) -> None:
    assert parse_sampling(sampling.name) == sampling
    assert len(sampling.name) <= 180
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in sampling.name)


@pytest.mark.parametrize(
    "name",
    [
        "uniform_n-16",
        "uniform_n-16-endpoints",
        "fps_based-1-max-512",
        "keyframe-32",
        "keyframe-all",
    ],
)
def test_names_of_stored_samplings_are_still_valid(name: str) -> None:
    assert parse_sampling(name).name == name


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_examples_of_a_registered_strategy_are_valid_names(strategy: str) -> None:
    examples = STRATEGIES[strategy].name_examples
    assert examples
    for example in examples:
        sampling = parse_sampling(example)
        assert (sampling.strategy, sampling.name) == (strategy, example)
        assert parse_sampling(sampling.model_dump(mode="json")) == sampling


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("uniform-37", "did you mean 'uniform_n-37'"),
        ("keyframes-all", "did you mean 'keyframe-all'"),
        ("fps-1-max-512", "did you mean 'fps_based-1-max-512'"),
        ("uniform_n-16.gif", "not an option"),
        ("uniform_n-16.jpeg-95.webp", "no meaning"),
        ("uniform_n-16.patches-14", "choose 28 or 32"),
        ("uniform_n-16.patches-28.native", "no meaning with `patches`"),
        ("uniform_n-16.patches-28-max-5", "below min_pixels"),
        ("uniform_n-16.patches-32-video-total-9", "use `max_pixels`"),
        ("uniform_n-0", "more than 0"),
        ("fps_based-1-min-9-max-4", "above max_frames"),
        ("uniform_n-16.jpeg-95.png", "no meaning"),
    ],
)
def test_the_error_of_an_unknown_name_has_the_nearest_name(written: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        parse_sampling(written)


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (PictureSpec(), (796, 448)),
        (PictureSpec(resize=Resize.LONG_SIDE, pixels=512), (512, 288)),
        (PictureSpec(resize=Resize.AREA, pixels=200_704), (597, 336)),
        (PictureSpec(resize=Resize.NATIVE), (1280, 720)),
        (PictureSpec(resize=Resize.SHORT_SIDE, pixels=1080), (1280, 720)),
    ],
)
def test_a_picture_is_never_enlarged(spec: PictureSpec, size: tuple[int, int]) -> None:
    assert spec.size(1280, 720, 16) == size
    assert spec.size(720, 1280, 16) == size[::-1]


def test_a_side_of_a_picture_is_never_shorter_than_one_pixel() -> None:
    picture = PictureSpec(resize=Resize.LONG_SIDE, pixels=1)
    assert picture.size(3, 100, 16) == (1, 1)
    assert picture.size(100, 3, 16) == (1, 1)


def test_fps_based_requests_at_least_one_frame() -> None:
    choice = FpsBased(fps=1).choose(steady(5, 10))
    assert (choice.frames, choice.asked, choice.limit) == ((0,), 1, None)


@pytest.mark.parametrize("sampling", ["fps_based-1-max-3", "fps_based-1-min-3"])
def test_a_count_that_equals_a_limit_is_not_limited(sampling: str) -> None:
    choice = parse_sampling(sampling).choose(steady(35, 10))
    assert choice.frames == (0, 10, 20)
    assert choice.limit is None
