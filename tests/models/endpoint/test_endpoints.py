"""Facts about endpoints: the tokens of a frame, and the parameters of videos."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_up_requests import request
from videomme_pipeline.frames.cache import VideoLength
from videomme_pipeline.frames.picture import Patches
from videomme_pipeline.models.endpoint.endpoints import FramesAs, video_sampling
from videomme_pipeline.models.endpoint.frame_tokens import TIME_TOKENS, frame_times, frame_tokens


@pytest.mark.parametrize(
    ("model", "size", "detail", "tokens"),
    [
        ("gpt-4o", (1024, 1024), "high", 765),
        ("gpt-4o", (2048, 4096), "high", 1105),
        ("gpt-4o", (4096, 8192), "low", 85),
        ("gpt-4.1-mini", (1024, 1024), None, 1659),
        ("gpt-5", (512, 512), None, 210),
        ("gpt-5.1", (512, 512), "high", 210),
        ("gpt-5.2", (2048, 2048), None, 4916),
        ("gpt-5.4", (1024, 1024), "high", 1229),
        ("gpt-5.4-mini", (2048, 2048), None, 3000),
        ("gpt-5.5", (2048, 2048), None, 4916),
        ("gpt-5.6-sol", (640, 360), "low", 173),
        ("o4-mini", (1800, 2400), None, 2498),
    ],
)
def test_openai_frames_cost_the_documented_tokens(
    model: str, size: tuple[int, int], detail: str | None, tokens: int
) -> None:
    assert frame_tokens(model, size, image_detail=detail) == tokens


def test_gemini_and_qwen_frames_cost_the_documented_tokens() -> None:
    assert frame_tokens("gemini-2.5-flash", (384, 216)) == 258
    assert frame_tokens("gemini-2.5-flash", (960, 540)) == 258 * 6
    assert frame_tokens("Qwen/Qwen2.5-VL-7B-Instruct", (448, 280)) == 160 + 2
    video = frame_tokens(
        "Qwen/Qwen2.5-VL-7B-Instruct",
        (448, 280),
        7,
        frames_as=FramesAs.FRAME_SEQUENCE,
    )
    assert video == 4 * 160 + 2, "a video has one start and one end"


def test_each_frame_of_a_llava_onevision_video_costs_the_same() -> None:
    as_video = FramesAs.FRAME_SEQUENCE
    model = "llava-hf/llava-onevision-qwen2-7b-ov-hf"
    assert frame_tokens(model, (640, 360), 7, frames_as=as_video) == 7 * 196 + 1


def test_all_frames_of_a_qwen3_video_share_a_limit() -> None:
    model, size = "Qwen/Qwen3-VL-8B-Instruct", (480, 270)
    for frames, tokens in [(8, 4 * 15 * 8), (256, 128 * 13 * 7)]:
        as_video = frame_tokens(model, size, frames, frames_as=FramesAs.VIDEO_FILE)
        assert as_video == tokens + frames // 2 * TIME_TOKENS + 2
        assert frame_tokens(model, size, frames) == frames * (120 + 2)


def test_a_request_can_limit_the_pixels_of_a_video() -> None:
    small = Patches(side=32, per_video=True, min_pixels=4096, max_pixels=8 * 256 * 256)
    tokens = frame_tokens(
        "qwen3-vl-8b", (1280, 720), 8, frames_as=FramesAs.VIDEO_FILE, limits=small
    )
    assert tokens == 4 * (10 * 6 + TIME_TOKENS) + 2


def test_the_times_of_qwen3_are_those_of_pairs() -> None:
    assert frame_times("Qwen/Qwen3-VL-8B", (0.0, 7.0, 20.5)) == [
        "<3.5 seconds><|vision_start|><|vision_end|>",
        "<20.5 seconds><|vision_start|><|vision_end|>",
    ]
    assert frame_times("Qwen/Qwen2.5-VL-7B-Instruct", (0.0, 7.0)) == []


def test_small_pictures_are_enlarged_by_qwen3() -> None:
    assert frame_tokens("Qwen/Qwen3-VL-8B-Instruct", (160, 120), 8) == 8 * (10 * 7 + 2)
    assert frame_tokens("Qwen/Qwen2.5-VL-7B-Instruct", (160, 120), 8) == 8 * (6 * 4 + 2)


@pytest.mark.parametrize(
    ("name", "small", "large"),
    [
        ("qwen2.5vl:7b", 16 * 9 + 2, 69 * 39 + 2),
        ("qwen3_5_moe", 14 * 8 + 2, 60 * 34 + 2),
        ("qwen3_omni_moe", 14 * 8 + 2, 60 * 34 + 2),
        ("OpenGVLab/InternVL3_5-8B", 3 * 256 + 2, 9 * 256 + 2),
        ("gemma3", 256 + 3, 256 + 3),
        ("google/gemma-4-12b-it", 22 * 12 + 2, 22 * 12 + 2),
        ("zai-org/GLM-4.6V", 16 * 9 + 2, 69 * 39 + 2),
        ("moonshotai/Kimi-K2.5", 16 * 9 + 4, 69 * 39 + 4),
        ("openbmb/MiniCPM-V-4_5", 64 + 6, 64 + 8 * 66 + 1 + 6),
        ("HuggingFaceTB/SmolVLM2-500M-Video-Instruct", 13 * 66 + 4, 13 * 66 + 4),
        ("claude-opus-4-5", 151, 1_600),
        ("gemini-3.5-flash", 1_120, 1_120),
    ],
)
def test_a_picture_costs_the_tokens_of_its_family(name: str, small: int, large: int) -> None:
    assert frame_tokens(name, (448, 252)) == small
    assert frame_tokens(name, (1920, 1080)) == large


def test_an_unknown_family_has_no_rule() -> None:
    assert frame_tokens("someone/new-vlm", (640, 360)) is None
    assert frame_tokens("gpt-5.7", (640, 360)) is None
    assert frame_tokens("llava-onevision-qwen2-7b-ov", (640, 360)) is None


@given(
    st.lists(st.integers(0, 100_000), min_size=1, max_size=80, unique=True),
    st.sampled_from([23.976, 25.0, 29.97, 60.0]),
)
def test_frames_sent_as_video_have_their_real_times(numbers: list[int], fps: float) -> None:
    frames = tuple(
        replace(request().frames.frames[0], index=number, pts_seconds=number / fps)
        for number in numbers
    )
    shown = replace(request().frames, frames=frames)
    video = video_sampling(shown)["media_io_kwargs"]["video"]
    times = [index / video["fps"] for index in video["frames_indices"]]
    expected = [frame.pts_seconds for frame in frames] if len(frames) > 1 else times
    assert times == pytest.approx(expected, rel=1e-4, abs=1e-3)
    assert video["total_num_frames"] > max(video["frames_indices"])


def test_frames_sent_as_video_have_the_length_of_the_video() -> None:
    shown = replace(request().frames, length=VideoLength(frames=9_000, seconds=300.3))
    video = video_sampling(shown)["media_io_kwargs"]["video"]
    assert (video["total_num_frames"], video["duration"]) == (9_000, 300.3)
