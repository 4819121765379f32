"""Prompt tokens of frames by the published rules of model families.

`frame_tokens.yaml` contains the numbers of the families.
"""

from collections.abc import Iterable
from math import ceil, sqrt
from pathlib import Path
from typing import Literal

from videomme_pipeline.configuration import read_spec
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.picture import Patches
from videomme_pipeline.models.endpoint.endpoints import FramesAs, Profile

_PATCH_LIMIT = 1536


class _Family(Spec):
    """A family of open models. Frames that are sent as a video are merged in pairs."""

    pixels: Literal[28, 32]
    """Side of the square that costs one token."""
    least_pixels: int = 0
    """A picture with fewer pixels is enlarged."""
    limits_videos: bool = False
    """All frames of a video together have at most 24,576 tokens."""


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
) -> int | None:
    """Prompt tokens of `frames` frames of `size` (width, height) by published rules.

    Tokens for the start, the end and the time of a frame are not counted. None if the model's
    family has no published rule. Set `tokens_per_frame` in `models.yaml` then.
    """
    name = model.lower().rsplit("/", 1)[-1]
    width, height = size
    if profile in (Profile.OPENAI, Profile.AZURE):
        tokens = _openai_image_tokens(name, width, height, image_detail)
        return None if tokens is None else frames * tokens
    if profile is Profile.GEMINI and frames_as is FramesAs.NATIVE:
        return frames * (70 if name.startswith("gemini-3") else 258)
    if profile is Profile.GEMINI:
        return frames * _gemini_image_tokens(name, width, height)
    family = _RULES.open_families.get(_prefix_of(name, _RULES.open_families))
    if family is None:
        return None
    is_video = frames_as in (FramesAs.VIDEO, FramesAs.NATIVE)
    if is_video and family.limits_videos:
        width, height = Patches(side=family.pixels, per_video=True).size(width, height, frames)
    pictures = ceil(frames / 2) if is_video else frames
    columns = max(round(width / family.pixels), 1)
    rows = max(round(height / family.pixels), 1)
    if not is_video and columns * rows * family.pixels**2 < family.least_pixels:
        scale = sqrt(family.least_pixels / (width * height)) / family.pixels
        columns, rows = ceil(width * scale), ceil(height * scale)
    return pictures * columns * rows


def _openai_image_tokens(name: str, width: int, height: int, detail: str | None) -> int | None:
    multiplier = _RULES.openai_patch_tokens.get(_prefix_of(name, _RULES.openai_patch_tokens))
    if multiplier is not None:
        patches = min(ceil(width / 32) * ceil(height / 32), _PATCH_LIMIT)
        return ceil(patches * multiplier)
    tiled = _prefix_of(name, _RULES.openai_tile_tokens)
    if not tiled or name.startswith(f"{tiled}."):
        return None
    base, tile = _RULES.openai_tile_tokens[tiled]
    return base if detail == "low" else base + tile * _tiles(width, height)


def _prefix_of(name: str, prefixes: Iterable[str]) -> str:
    """The first of `prefixes` with which the name of a model starts, or ""."""
    return next((prefix for prefix in prefixes if name.startswith(prefix)), "")


def _tiles(width: int, height: int) -> int:
    """Tiles of 512 × 512 after scaling to at most 2048 × 2048 and a short side of 768."""
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return ceil(width * scale / 512) * ceil(height * scale / 512)


def _gemini_image_tokens(name: str, width: int, height: int) -> int:
    if name.startswith("gemini-3"):
        return 1120
    if width <= 384 and height <= 384:
        return 258
    unit = max(min(width, height) / 1.5, 1)
    unit = min(max(unit, 256), 768)
    return 258 * ceil(width / unit) * ceil(height / unit)
