"""Prompt tokens of frames by the published rules of model families (`frame_tokens.yaml`)."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil, floor, inf, log, sqrt
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from videomme_pipeline.configuration import nearest, parse_spec, read_yaml
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.frames.picture import Patches
from videomme_pipeline.models.endpoint.endpoints import FramesAs

MAX_CHARACTERS_PER_TOKEN = 6
"""English text has 4 to 5 characters per token. The context check must reject no request that fits,
so text counts few tokens."""
TIME_TOKENS = 8
"""Tokens of the shortest time of a pair of frames, with the marks for its start and end."""


class _Sizes(Patches):
    """The sizes that a Qwen processor gives to pictures, without the limits of qwen-vl-utils."""

    def _most(self, _frames: int) -> float:
        return self.max_pixels or inf

    def tokens(self, width: int, height: int, frames: int = 1) -> int:
        width, height = self.size(width, height, frames)
        return (width // self.side) * (height // self.side)


class _Tiles(Spec):
    """Tiles of the same size, each with `tokens`, in the grid whose shape is nearest to the
    picture's. A picture with several tiles has one more, which shows all of it."""

    tile: int = 1
    tokens_per_tile: int
    max_tiles: int = 1

    def tokens(self, width: int, height: int) -> int:
        numbers = range(1, self.max_tiles + 1)
        grids = [(n, rows) for rows in numbers for n in numbers if n * rows <= self.max_tiles]
        best, least = 1, inf
        for columns, rows in sorted(grids, key=lambda grid: (grid[0] * grid[1], grid)):
            difference = abs(width / height - columns / rows)
            fills_half = width * height > 0.5 * self.tile**2 * columns * rows
            if difference < least or (difference == least and fills_half):
                best, least = columns * rows, difference
        return (best + (best > 1)) * self.tokens_per_tile


class _Fitted(Spec):
    """Square patches of the largest picture of the same shape that has at most `max_tokens`."""

    max_tokens: int

    def tokens(self, width: int, height: int) -> int:
        scale = sqrt(self.max_tokens / (width * height))
        columns, rows = int(scale * width), int(scale * height)
        if not columns or not rows:
            return min(max(width // height, height // width), self.max_tokens)
        return columns * rows


class _Padded(Spec):
    """Patches of a picture that is reduced to `max_tokens` and padded to whole patches."""

    side: int
    max_tokens: int

    def tokens(self, width: int, height: int) -> int:
        half = self.side // 2
        patches = max(width // half, 1) * max(height // half, 1)
        scale = min(1.0, sqrt(4 * self.max_tokens / patches))
        width, height = max(int(width * scale), 1), max(int(height * scale), 1)
        return ceil(width / self.side) * ceil(height / self.side)


class _Area(Spec):
    """One token per `pixels` of a picture that is reduced to `max_side` and `max_tokens`."""

    pixels: int
    max_side: int
    max_tokens: int

    def tokens(self, width: int, height: int) -> int:
        scale = min(1.0, self.max_side / max(width, height))
        return min(ceil(width * height * scale**2 / self.pixels), self.max_tokens)


class _Rows(Spec):
    """Tiles of a picture that is resized to four along its long side, and one of the whole picture.
    Each tile has two marks, each row of tiles has another, and the picture a last one."""

    row_tile: int
    tokens_per_tile: int

    def tokens(self, width: int, height: int) -> int:
        short = int(4 * self.row_tile * min(width, height) / max(width, height))
        others = max(ceil((short + short % 2) / self.row_tile), 1)
        rows = others if width >= height else 4
        return (4 * others + 1) * (self.tokens_per_tile + 2) + rows + 1


class _Slices(Spec):
    """The whole picture, and its slices of about `slice_side` pixels in width and height if it is
    larger. Each slice has two marks, and each row of slices but the first another. Without
    `tokens_per_slice`, each square of 56 × 56 pixels is one token."""

    slice_side: int
    max_slices: int
    tokens_per_slice: int | None = None

    def tokens(self, width: int, height: int) -> int:
        most = min(ceil(width * height / self.slice_side**2), self.max_slices)
        if most == 1:
            return self._tokens_of(width, height)
        numbers = range(max(most - 1, 2), min(most + 1, self.max_slices) + 1)
        grids = [(n // rows, rows) for n in numbers for rows in range(1, n + 1) if n % rows == 0]
        shape = log(width / height)
        columns, rows = min(grids, key=lambda grid: (abs(shape - log(grid[0] / grid[1])), -grid[1]))
        sides = (max(round(width / columns), 1), max(round(height / rows), 1))
        slices = columns * rows * (self._tokens_of(*sides) + 2) + rows - 1
        return self._tokens_of(width, height) + slices

    def _tokens_of(self, width: int, height: int) -> int:
        if self.tokens_per_slice is not None:
            return self.tokens_per_slice
        fitted_height = int(self.slice_side / sqrt(width / height))
        fitted_width = int(fitted_height * width / height)
        return max(round(fitted_width / 56), 1) * max(round(fitted_height / 56), 1)


class _Patches32(Spec):
    """`multiplier` tokens per patch of 32 × 32 pixels of a picture that is reduced to `max_side`
    and to `max_patches`."""

    multiplier: float
    max_side: int
    max_patches: float = inf

    def tokens(self, width: int, height: int) -> int:
        scale = min(1.0, self.max_side / max(width, height))
        width, height = round(width * scale), round(height * scale)
        if ceil(width / 32) * ceil(height / 32) > self.max_patches:
            scale = sqrt(32**2 * self.max_patches / (width * height))
            columns, rows = width * scale / 32, height * scale / 32
            scale *= min(floor(columns) / columns, floor(rows) / rows)
            width, height = int(width * scale), int(height * scale)
        return ceil(ceil(width / 32) * ceil(height / 32) * self.multiplier)


class _Squares512(Spec):
    """`base` tokens, and `square` for each 512 × 512 pixels of a picture that is reduced to 2,048
    × 2,048 pixels and to a short side of 768."""

    base: int
    square: int

    def tokens(self, width: int, height: int) -> int:
        scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
        return self.base + self.square * ceil(width * scale / 512) * ceil(height * scale / 512)


class _Crops(Spec):
    """Square crops with a side of two thirds of the picture's short side, within 256 to 768 pixels.
    A picture of at most `one_crop` pixels in width and height is one crop."""

    one_crop: int
    tokens_per_crop: int

    def tokens(self, width: int, height: int) -> int:
        if max(width, height) <= self.one_crop:
            return self.tokens_per_crop
        side = min(max(min(width, height) / 1.5, 256), 768)
        return self.tokens_per_crop * ceil(width / side) * ceil(height / side)


_OpenRule = _Sizes | _Tiles | _Fitted | _Padded | _Rows | _Slices
_HostedRule = _Area | _Patches32 | _Squares512 | _Crops


class Family(Spec):
    """A family of models, in which all pictures follow one rule."""

    names: tuple[str, ...]
    """Starts of the names of its models. A start that a "." follows names another version."""
    model_types: tuple[str, ...] = ()
    """Values of `model_type` in `config.json`."""
    marks: int = 2
    """Tokens for the start and the end of a picture or a video."""
    is_exact: bool = True
    """False for a provider, which can bill by other numbers than the published."""
    picture: _OpenRule | _HostedRule | None = None
    details: Mapping[str, _Tiles | _Patches32] = {}
    """Rules of pictures with another `image_detail` than `auto`."""
    video: _Sizes | _Tiles | None = None
    """`_Sizes` are those of frames that are merged in pairs. With limits of a whole video
    (`per_video`), each pair has its time as text."""

    @property
    def video_strategy(self) -> str | None:
        """The sampling by which the models' own processor takes frames, or None if unknown."""
        if not isinstance(self.video, _Sizes):
            return None
        return "qwen3_vl" if self.video.per_video else "qwen2_vl"


@cache
def _families() -> Mapping[str, Family]:
    return {
        name: family
        for rule in read_yaml(Path(__file__).with_name("frame_tokens.yaml"))["families"]
        for family in [parse_spec(rule, Family, f"token rule {rule['names']}")]
        for name in (*family.model_types, *family.names)
    }


def _known(family: str) -> str:
    if family in _families():
        return family
    hint = nearest(family, tuple(_families()))
    raise ValueError(f"{family!r} is no family with a token rule, {hint}")


FamilyName = Annotated[str, AfterValidator(_known)]
"""A `model_type`, or the start of the names of a family of models."""


def frame_tokens(  # noqa: PLR0913 - everything that a rule uses
    model: str,
    size: tuple[int, int],
    frames: int = 1,
    *,
    image_detail: str | None = None,
    frames_as: FramesAs = FramesAs.IMAGES,
    limits: Patches | None = None,
) -> int | None:
    """Prompt tokens of `frames` frames of `size` (width, height) by published rules.

    `model` is the name of the model or of its family. `limits` are those that a request sets for a
    video. Each of `frame_times` has `TIME_TOKENS`. None if the family has no published rule.
    """
    family = family_of(model)
    if family is None:
        return None
    width, height = size
    if frames_as is FramesAs.IMAGES:
        picture = family.details.get(image_detail or "auto", family.picture)
        return None if picture is None else frames * (picture.tokens(width, height) + family.marks)
    if isinstance(family.video, _Tiles):
        return frames * family.video.tokens(width, height) + family.marks
    sizes = family.video
    if sizes is None:
        return None
    if limits is not None and limits.min_pixels and limits.max_pixels:
        pixels = {"min_pixels": limits.min_pixels, "max_pixels": limits.max_pixels}
        sizes = sizes.model_copy(update=pixels)
    tokens = sizes.tokens(width, height, frames) + (TIME_TOKENS if sizes.per_video else 0)
    return ceil(frames / 2) * tokens + family.marks


def frame_times(model: str, seconds: Sequence[float]) -> list[str]:
    """The texts, if any, that an engine adds to pairs of frames shown at `seconds`."""
    family = family_of(model)
    if family is None or family.video_strategy != "qwen3_vl":
        return []
    pairs = zip(seconds[::2], [*seconds[1::2], *seconds[-1:]], strict=False)
    times = [f"<{(first + second) / 2:.1f} seconds>" for first, second in pairs]
    return [f"{time}<|vision_start|><|vision_end|>" for time in times]


def context_problem(
    context_tokens: int | None, *, frames: int, frame_tokens: int | None, text_characters: int
) -> str | None:
    """The reason why a prompt with `frames`, which need `frame_tokens`, does not fit, or None.

    None also if the context or the tokens of the frames are unknown.
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


def family_of(model: str) -> Family | None:
    """The family of a model by its name, or None if it has no published rule."""
    name = model.lower().rsplit("/", 1)[-1]
    starts = (start for start in _families() if name.startswith(start))
    start = next((start for start in starts if not name.startswith(f"{start}.")), "")
    return _families().get(start)
