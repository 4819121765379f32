"""The context check never rejects a prompt that fits."""

from typing import Any

import pytest

from videomme_pipeline.frames.picture import PictureSpec
from videomme_pipeline.models.endpoint.frame_tokens import context_problem
from videomme_pipeline.models.endpoint.spec import EndpointSpec


def spec(**values: object) -> EndpointSpec:
    return EndpointSpec.model_validate({"name": "qwen2.5-vl-7b", "profile": "vllm", **values})


def excess_of(
    model: EndpointSpec,
    frames: int,
    context_tokens: int | None = 32_768,
    size: tuple[int, int] = (448, 252),
) -> str | None:
    return context_problem(
        context_tokens,
        frames=frames,
        frame_tokens=model.frame_tokens(size, frames) if frames else 0,
        text_characters=600,
    )


def test_the_error_names_the_largest_number_of_frames_that_fit() -> None:
    # 16 × 9 patches of 28 × 28 pixels with a start and an end, and 100 tokens of text
    assert excess_of(spec(), 223) is None
    message = excess_of(spec(), 768)
    assert message is not None
    assert "needs at least 112,228 tokens, and the context has 32,768" in message
    assert "at most 223 frames of this size fit" in message


def test_text_alone_can_be_too_long() -> None:
    message = excess_of(spec(), 0, context_tokens=50)
    assert message is not None
    assert "no frame fits" in message


def test_unknown_sizes_reject_nothing() -> None:
    assert excess_of(spec(), 768, context_tokens=None) is None
    assert excess_of(spec(model="unknown-family"), 768) is None


@pytest.mark.parametrize(
    ("entry", "size", "most"),
    [
        ({"frames_as": "frame_sequence"}, (448, 252), 452),  # 226 pairs of 16 × 9 patches
        ({"frames_as": "video_file"}, (1280, 720), 54),  # 27 pairs of 46 × 26 patches
    ],
)
def test_pairs_of_a_video_count_by_the_rule_of_the_engine(
    entry: dict[str, Any], size: tuple[int, int], most: int
) -> None:
    assert excess_of(spec(**entry), most, size=size) is None
    assert excess_of(spec(**entry), most + 2, size=size) is not None


def test_all_frames_of_a_qwen3_video_fit_if_they_share_a_limit() -> None:
    model = spec(name="qwen3-vl-8b", frames_as="video_file")
    assert excess_of(model, 768, context_tokens=14_000, size=(1280, 720)) is None
    assert excess_of(model, 768, context_tokens=10_000, size=(1280, 720)) is not None


@pytest.mark.parametrize(
    ("values", "picture", "most"),
    [
        ({}, {"resize": "native"}, 86),
        ({"engine_version": "0.33.0"}, {"resize": "native"}, 86),
        ({"engine_version": "0.32.0"}, {"resize": "native"}, None),
        ({"frames_as": "frame_sequence"}, {"resize": "native"}, 86),
        ({"frames_as": "video_file"}, {}, 115),
        ({}, {}, 501),  # 796 × 448 pixels
        ({"profile": "sglang"}, {"resize": "native"}, None),
    ],
)
def test_the_pixels_that_vllm_rejects_are_known_before_a_run(
    values: dict[str, Any], picture: dict[str, Any], most: int | None
) -> None:
    model, pictures = spec(**values), PictureSpec.model_validate(picture)
    counts = [n for n in range(1, 1_000) if not model.pixel_problem((1920, 1080), n, pictures)]
    assert counts[-1] == (most or 999)
