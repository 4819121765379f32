"""The context check never rejects a prompt that fits."""

from videomme_pipeline.models.context import context_excess
from videomme_pipeline.models.endpoint.spec import EndpointSpec


def spec(**values: object) -> EndpointSpec:
    return EndpointSpec.model_validate({"name": "qwen2.5-vl-7b", "profile": "vllm", **values})


def excess_of(model: EndpointSpec, frames: int, context_tokens: int | None = 32_768) -> str | None:
    excess = context_excess(
        model, context_tokens, frames=frames, frame_size=(448, 252), text_characters=600
    )
    return None if excess is None else str(excess)


def test_the_error_names_the_largest_number_of_frames_that_fit() -> None:
    # 16 × 9 patches of 28 × 28 pixels, and 100 tokens of text
    assert excess_of(spec(), 226) is None
    message = excess_of(spec(), 768)
    assert message is not None
    assert "needs at least 110,692 tokens, and the context has 32,768" in message
    assert "at most 226 frames of this size fit" in message


def test_text_alone_can_be_too_long() -> None:
    message = excess_of(spec(), 0, context_tokens=50)
    assert message is not None
    assert "no frame fits" in message


def test_unknown_sizes_reject_nothing() -> None:
    assert excess_of(spec(), 768, context_tokens=None) is None
    assert excess_of(spec(model="unknown-family"), 768) is None


def test_a_video_may_be_shrunk_by_the_server() -> None:
    as_video = spec(frames_as="video")
    assert excess_of(as_video, 700) is None
    assert excess_of(as_video, 800) is not None
