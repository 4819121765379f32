"""Prompt tokens of one frame by the published rules of model families.

`frame_tokens.yaml` contains the numbers of the families.
"""

from collections.abc import Iterable
from math import ceil
from pathlib import Path

from videomme_pipeline.configuration import read_spec
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.models.endpoint.endpoints import FramesAs, Profile

_PATCH_LIMIT = 1536


class _Rules(Spec):
    """Numbers by the start of a model's name. The first name that fits is used."""

    openai_patch_tokens: dict[str, float]
    openai_tile_tokens: dict[str, tuple[int, int]]
    open_patch_pixels: dict[str, int]


_RULES = read_spec(Path(__file__).with_name("frame_tokens.yaml"), _Rules)


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
    pixels = _RULES.open_patch_pixels.get(_prefix_of(name, _RULES.open_patch_pixels))
    if pixels is None:
        return None
    tokens = max(round(width / pixels), 1) * max(round(height / pixels), 1)
    return ceil(tokens / 2) if frames_as in (FramesAs.VIDEO, FramesAs.NATIVE) else tokens


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


def _gemini_image_tokens(name: str, width: int, height: int) -> int | None:
    if name.startswith("gemini-3"):
        return 1120
    if width <= 384 and height <= 384:
        return 258
    unit = max(min(width, height) / 1.5, 1)
    unit = min(max(unit, 256), 768)
    return 258 * ceil(width / unit) * ceil(height / unit)
