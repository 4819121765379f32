"""Prompt tokens of frames by the published rules of model families.

`frame_tokens.yaml` contains the numbers of the families.
"""

from collections.abc import Iterable, Sequence
from math import ceil, inf
from pathlib import Path

from videomme_pipeline.configuration import read_spec
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.picture import Patches
from videomme_pipeline.models.endpoint.endpoints import FramesAs, Profile

MAX_CHARACTERS_PER_TOKEN = 6
"""English text has 4 to 5 characters per token. The context check must reject no request that fits,
so text counts few tokens."""
_PATCH_LIMIT = 1536
TIME_TOKENS = 8
"""Tokens of the shortest time of a pair of frames, with the marks for its start and end."""
_MARKS = 2
"""Tokens for the start and the end of a picture or a video."""


class _Sizes(Patches):
    """The sizes that a model's processor gives to pictures, without the limits of qwen-vl-utils."""

    def _most(self, _frames: int) -> float:
        return self.max_pixels or inf


class _Family(Spec):
    """A family of open models, in which a patch costs a token and a video is merged in pairs."""

    picture: _Sizes
    video: _Sizes
    """With limits of a whole video (`per_video`), each pair has its time as text."""


class _Rules(Spec):
    """Numbers by the start of a model's name. The first name that fits is used."""

    openai_patch_tokens: dict[str, float]
    openai_tile_tokens: dict[str, tuple[int, int]]
    open_families: dict[str, _Family]


_RULES = read_spec(Path(__file__).with_name("frame_tokens.yaml"), _Rules)


def frame_tokens(  # noqa: PLR0913 - everything that a rule uses
    profile: Profile,
    model: str,
    size: tuple[int, int],
    frames: int = 1,
    *,
    image_detail: str | None = None,
    frames_as: FramesAs = FramesAs.IMAGES,
    limits: Patches | None = None,
) -> int | None:
    """Prompt tokens of `frames` frames of `size` (width, height) by published rules.

    `limits` are those that a request sets for a video. Each of `frame_times` has `TIME_TOKENS`.
    None if the model's family has no published rule. Set `tokens_per_frame` in `models.yaml` then.
    """
    name = _base_name(model)
    width, height = size
    if profile in (Profile.OPENAI, Profile.AZURE):
        tokens = _openai_image_tokens(name, width, height, image_detail)
        return None if tokens is None else frames * tokens
    if profile is Profile.GEMINI:
        return frames * _gemini_image_tokens(name, width, height)
    family = _family_of(model)
    if family is None:
        return None
    if frames_as not in (FramesAs.FRAME_SEQUENCE, FramesAs.VIDEO_FILE):
        return frames * (_patches(family.picture, width, height) + _MARKS)
    sizes = family.video
    if limits is not None and limits.min_pixels and limits.max_pixels:
        pixels = {"min_pixels": limits.min_pixels, "max_pixels": limits.max_pixels}
        sizes = sizes.model_copy(update=pixels)
    tokens = _patches(sizes, width, height, frames) + (TIME_TOKENS if sizes.per_video else 0)
    return ceil(frames / 2) * tokens + _MARKS


def frame_times(model: str, seconds: Sequence[float]) -> list[str]:
    """The text that an engine adds to each pair of frames shown at `seconds`, one text per pair.

    Empty for families whose engines add no text.
    """
    family = _family_of(model)
    if family is None or not family.video.per_video:
        return []
    pairs = zip(seconds[::2], [*seconds[1::2], *seconds[-1:]], strict=False)
    times = [f"<{(first + second) / 2:.1f} seconds>" for first, second in pairs]
    return [f"{time}<|vision_start|><|vision_end|>" for time in times]


def context_problem(
    context_tokens: int | None, *, frames: int, frame_tokens: int | None, text_characters: int
) -> str | None:
    """The reason why a prompt with `frames`, which need `frame_tokens`, does not fit, or None.

    None also if the context or the tokens of the frames are unknown. If the server has other limits
    than the published rule, set `tokens_per_frame` in `models.yaml`.
    """
    if context_tokens is None or frame_tokens is None:
        return None
    text_tokens = text_characters // MAX_CHARACTERS_PER_TOKEN
    if frame_tokens + text_tokens <= context_tokens:
        return None
    left_tokens = max(context_tokens - text_tokens, 0)
    fitting = frames * left_tokens // frame_tokens if frame_tokens else 0
    next_step = f"at most {fitting:,} frames of this size fit" if fitting else "no frame fits"
    return (
        f"the prompt needs at least {frame_tokens + text_tokens:,} tokens, and the context has "
        f"{context_tokens:,}; {next_step} (or start the server with a longer context and adapt "
        "`max_model_len`)"
    )


def video_strategy(model: str) -> str | None:
    """The sampling by which a model's own processor takes frames of a video, or None if unknown."""
    family = _family_of(model)
    if family is None:
        return None
    return "qwen3_vl" if family.video.per_video else "qwen2_vl"


def _family_of(model: str) -> _Family | None:
    return _RULES.open_families.get(_prefix_of(_base_name(model), _RULES.open_families))


def _base_name(model: str) -> str:
    return model.lower().rsplit("/", 1)[-1]


def _patches(sizes: _Sizes, width: int, height: int, frames: int = 1) -> int:
    width, height = sizes.size(width, height, frames)
    return (width // sizes.side) * (height // sizes.side)


def _openai_image_tokens(name: str, width: int, height: int, detail: str | None) -> int | None:
    multiplier = _RULES.openai_patch_tokens.get(_prefix_of(name, _RULES.openai_patch_tokens))
    if multiplier is not None:
        patches = min(ceil(width / 32) * ceil(height / 32), _PATCH_LIMIT)
        return ceil(patches * multiplier)
    tiled = _prefix_of(name, _RULES.openai_tile_tokens)
    if not tiled or name.startswith(f"{tiled}."):
        return None
    base, tile = _RULES.openai_tile_tokens[tiled]
    if detail == "low":
        return base
    # Tiles of 512 × 512, after scaling to at most 2048 × 2048 and a short side of 768.
    scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
    return base + tile * ceil(width * scale / 512) * ceil(height * scale / 512)


def _prefix_of(name: str, prefixes: Iterable[str]) -> str:
    """The first of `prefixes` with which the name of a model starts, or ""."""
    return next((prefix for prefix in prefixes if name.startswith(prefix)), "")


def _gemini_image_tokens(name: str, width: int, height: int) -> int:
    if name.startswith("gemini-3"):
        return 1120
    if width <= 384 and height <= 384:
        return 258
    unit = max(min(width, height) / 1.5, 1)
    unit = min(max(unit, 256), 768)
    return 258 * ceil(width / unit) * ceil(height / unit)
