"""Profiles of the families of OpenAI-compatible endpoints, as plain data.

A profile has the ways to send frames, the limits, the field that constrains an answer, and the
fields that contain reasoning. `body` builds requests; `pricing` has prices.

Sources: the endpoints' own API references and, for vLLM and SGLang, their request schemas. A
limit that an endpoint does not publish is None here and can be set in `models.yaml`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any

from videomme_pipeline.models.spec import Schedule

MEBIBYTE = 2**20


class Profile(StrEnum):
    """Families of endpoints with the same behavior."""

    OPENAI = "openai"
    AZURE = "azure"
    GEMINI = "gemini"
    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama_cpp"
    OLLAMA = "ollama"
    QWEN = "qwen"
    TRANSFORMERS = "transformers"
    GENERIC = "generic"


class FramesAs(StrEnum):
    """A way to send the frames of a video."""

    IMAGES = "images"
    """One `image_url` part per frame, with a JPEG data URL."""
    VIDEO = "video"
    """One `video_url` part: JPEG frames in one data URL, and their real times in a parameter."""
    FILES = "files"
    """One `image_url` part per frame, with a `file://` path that the endpoint can read."""
    NATIVE = "native"
    """One part with the video itself, from which the endpoint takes the frames (see `native`)."""


class AnswerConstraint(StrEnum):
    """The request field that restricts the output to the option letters."""

    STRUCTURED_OUTPUTS = "structured_outputs"
    """vLLM ≥ 0.12: `structured_outputs: {"choice": […]}` (`guided_choice` is ignored there)."""
    JSON_SCHEMA = "json_schema"
    """`response_format` with an enum. The answer is a JSON object that contains the letter."""
    REGEX = "regex"
    """SGLang: `regex`."""
    GRAMMAR = "grammar"
    """llama.cpp: `grammar` (GBNF)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointProfile:
    """The abilities and reports of a family of endpoints.

    `frames_as` lists the ways to send frames, the default first. `max_images` and
    `max_body_bytes` are checked before anything is sent. `reasoning_fields` are fields of the
    message.
    """

    profile: Profile
    frames_as: tuple[FramesAs, ...] = (FramesAs.IMAGES,)
    max_images: int | None = None
    max_body_bytes: int | None = None
    token_limit_parameter: str = "max_tokens"
    answer_constraint: AnswerConstraint | None = None
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    schedule: Schedule = Schedule.TOGETHER
    takes_prompt_cache_key: bool = False
    is_paid: bool = False
    reports_context: bool = False
    """The list of models has the context of each model."""
    takes_audio: bool = False
    """The endpoint accepts `input_audio` with a WAV file."""


PROFILES: Mapping[Profile, EndpointProfile] = {
    item.profile: item
    for item in (
        EndpointProfile(
            profile=Profile.OPENAI,
            takes_audio=True,
            max_images=500,
            max_body_bytes=50 * MEBIBYTE,
            token_limit_parameter="max_completion_tokens",
            answer_constraint=AnswerConstraint.JSON_SCHEMA,
            schedule=Schedule.LEADER_FOLLOWER,
            takes_prompt_cache_key=True,
            is_paid=True,
        ),
        EndpointProfile(
            profile=Profile.AZURE,
            max_images=50,
            max_body_bytes=50 * MEBIBYTE,
            token_limit_parameter="max_completion_tokens",
            answer_constraint=AnswerConstraint.JSON_SCHEMA,
            schedule=Schedule.LEADER_FOLLOWER,
            takes_prompt_cache_key=True,
            is_paid=True,
        ),
        EndpointProfile(
            profile=Profile.GEMINI,
            takes_audio=True,
            frames_as=(FramesAs.IMAGES, FramesAs.NATIVE),
            max_images=3000,
            max_body_bytes=20 * MEBIBYTE,
            answer_constraint=AnswerConstraint.JSON_SCHEMA,
            schedule=Schedule.LEADER_FOLLOWER,
            is_paid=True,
        ),
        EndpointProfile(
            profile=Profile.VLLM,
            takes_audio=True,
            reports_context=True,
            frames_as=(FramesAs.IMAGES, FramesAs.VIDEO, FramesAs.FILES, FramesAs.NATIVE),
            answer_constraint=AnswerConstraint.STRUCTURED_OUTPUTS,
            reasoning_fields=("reasoning", "reasoning_content"),
        ),
        EndpointProfile(
            profile=Profile.SGLANG,
            takes_audio=True,
            reports_context=True,
            frames_as=(FramesAs.IMAGES, FramesAs.FILES, FramesAs.NATIVE),
            answer_constraint=AnswerConstraint.REGEX,
        ),
        EndpointProfile(
            profile=Profile.LLAMA_CPP,
            takes_audio=True,
            reports_context=True,
            answer_constraint=AnswerConstraint.GRAMMAR,
            schedule=Schedule.LEADER_FOLLOWER,
        ),
        EndpointProfile(
            profile=Profile.OLLAMA,
            answer_constraint=AnswerConstraint.JSON_SCHEMA,
            reasoning_fields=("reasoning", "reasoning_content"),
            schedule=Schedule.LEADER_FOLLOWER,
        ),
        EndpointProfile(
            profile=Profile.QWEN,
            frames_as=(FramesAs.IMAGES, FramesAs.NATIVE),
            max_body_bytes=10 * MEBIBYTE,
            schedule=Schedule.LEADER_FOLLOWER,
            is_paid=True,
        ),
        EndpointProfile(
            profile=Profile.TRANSFORMERS,
            takes_audio=True,
            frames_as=(FramesAs.IMAGES, FramesAs.NATIVE),
            schedule=Schedule.LEADER_FOLLOWER,
        ),
        EndpointProfile(profile=Profile.GENERIC, schedule=Schedule.LEADER_FOLLOWER),
    )
}


def constrained_to(constraint: AnswerConstraint, letters: Sequence[str]) -> dict[str, Any]:
    """The request fields that restrict the output to one of `letters`."""
    match constraint:
        case AnswerConstraint.STRUCTURED_OUTPUTS:
            return {"structured_outputs": {"choice": list(letters)}}
        case AnswerConstraint.REGEX:
            return {"regex": f"[{''.join(letters)}]"}
        case AnswerConstraint.GRAMMAR:
            return {"grammar": "root ::= " + " | ".join(f'"{letter}"' for letter in letters)}
        case AnswerConstraint.JSON_SCHEMA:
            schema = {
                "type": "object",
                "properties": {"answer": {"type": "string", "enum": list(letters)}},
                "required": ["answer"],
                "additionalProperties": False,
            }
            return {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "strict": True, "schema": schema},
                }
            }


def video_sampling(times_seconds: Sequence[float], indices: Sequence[int]) -> dict[str, Any]:
    """vLLM's `media_io_kwargs` for frames that are already sampled.

    vLLM 0.33 keeps the first 32 frames of a `video/jpeg` data URL unless `num_frames` is -1.
    It computes their times as `index / fps`, with a default fps of 1. With the source's frame
    numbers and frame rate, every frame has its real time.
    """
    shown_seconds = times_seconds[-1] - times_seconds[0]
    fps = (indices[-1] - indices[0]) / shown_seconds if shown_seconds > 0 else 1.0
    return {
        "media_io_kwargs": {
            "video": {
                "num_frames": -1,
                "fps": round(fps, 6),
                "frames_indices": list(indices),
                "total_num_frames": indices[-1] + 1,
                "duration": round((indices[-1] + 1) / fps, 6),
            }
        }
    }


# Patch-priced OpenAI models: tokens per patch of 32 × 32 pixels, by model name.
_PATCH_MULTIPLIERS: tuple[tuple[str, float], ...] = (
    ("gpt-5-mini", 1.62),
    ("gpt-5-nano", 2.46),
    ("gpt-4.1-mini", 1.62),
    ("gpt-4.1-nano", 2.46),
    ("o4-mini", 1.72),
)
_PATCH_LIMIT = 1536

# Tile-priced OpenAI models: (tokens of the whole picture, tokens of a 512-pixel tile).
_TILE_TOKENS: tuple[tuple[str, tuple[int, int]], ...] = (
    ("gpt-4o-mini", (2833, 5667)),
    ("gpt-4o", (85, 170)),
    ("gpt-4.1", (85, 170)),
    ("gpt-5", (70, 140)),
    ("o1", (75, 150)),
    ("o3", (75, 150)),
)

# Open models: side in pixels of the square that costs one token. Frames sent as a video are
# merged in pairs.
_PATCH_PIXELS: tuple[tuple[str, int], ...] = (
    ("qwen3-vl", 32),
    ("qwen3.5", 32),
    ("qwen2.5-vl", 28),
    ("qwen2-vl", 28),
)


def frame_tokens(
    profile: Profile,
    model: str,
    size: tuple[int, int],
    *,
    image_detail: str | None = None,
    frames_as: FramesAs = FramesAs.IMAGES,
) -> int | None:
    """Prompt tokens of one frame of `size` (width, height) by published rules.

    None if the model's family has no published rule. Set `tokens_per_frame` in `models.yaml`
    then.
    """
    name = model.lower().rsplit("/", 1)[-1]
    width, height = size
    if profile in (Profile.OPENAI, Profile.AZURE):
        return _openai_image_tokens(name, width, height, image_detail)
    if profile is Profile.GEMINI and frames_as is FramesAs.NATIVE:
        return 70 if name.startswith("gemini-3") else 258
    if profile is Profile.GEMINI:
        return _gemini_image_tokens(name, width, height)
    pixels = next((side for prefix, side in _PATCH_PIXELS if name.startswith(prefix)), None)
    if pixels is None:
        return None
    tokens = max(round(width / pixels), 1) * max(round(height / pixels), 1)
    return ceil(tokens / 2) if frames_as in (FramesAs.VIDEO, FramesAs.NATIVE) else tokens


def _openai_image_tokens(name: str, width: int, height: int, detail: str | None) -> int | None:
    for prefix, multiplier in _PATCH_MULTIPLIERS:
        if name.startswith(prefix):
            patches = min(ceil(width / 32) * ceil(height / 32), _PATCH_LIMIT)
            return ceil(patches * multiplier)
    for prefix, (base, tile) in _TILE_TOKENS:
        if name.startswith(prefix) and not name.startswith(f"{prefix}."):
            return base if detail == "low" else base + tile * _tiles(width, height)
    return None


def _tiles(width: int, height: int) -> int:
    """Tiles of 512 × 512 after scaling to at most 2048 × 2048 and a short side of 768."""
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return ceil(width * scale / 512) * ceil(height * scale / 512)


def _gemini_image_tokens(name: str, width: int, height: int) -> int | None:
    if name.startswith("gemini-3"):
        return 1120
    if width <= 384 and height <= 384:
        return 258
    unit = max(min(width, height) / 1.5, 1)
    unit = min(max(unit, 256), 768)
    return 258 * ceil(width / unit) * ceil(height / unit)
