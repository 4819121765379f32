"""The size and encoding of pictures, which are settings of a sampling.

Sizes are pure functions of the size of the video and the number of its chosen frames.
"""

from collections.abc import Callable
from enum import StrEnum
from math import ceil, floor, sqrt
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from videomme_pipeline.fingerprint import Spec

MAX_SIDE_PIXELS = 8_192
"""Limit of the side of a picture (8K). An area has at most its square."""

PixelCount = Annotated[int, Field(gt=0, le=MAX_SIDE_PIXELS**2)]


class Resize(StrEnum):
    """The quantity that `PictureSpec.pixels` limits. Only SQUARE enlarges small pictures."""

    NATIVE = "native"
    SHORT_SIDE = "short_side"
    LONG_SIDE = "long_side"
    AREA = "area"
    SQUARE = "square"
    """Both sides have this length, whatever the shape of the video (InternVL, LLaVA-Video)."""


class Encoding(StrEnum):
    """Format in which a picture is stored and sent. PNG and WEBP are lossless."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"


class Patches(Spec):
    """Sizes in whole patches, as Qwen's models see them. Small pictures are enlarged.

    Both sides are multiples of `side`, within the limits of a picture. All pictures of a video
    together have at most 2 · `total_pixels`, because the models merge them in pairs, but each may
    have 1.05 · `min_pixels`. This is the rule of qwen-vl-utils 0.0.14, with at most 768 patches.

    With `per_video`, the limits are for all pictures of a video together, as in transformers'
    `Qwen3VLVideoProcessor`. A limit that is not set has the default of the package.
    """

    side: Literal[28, 32]
    per_video: bool = False
    min_pixels: PixelCount | None = None
    max_pixels: PixelCount | None = None
    total_pixels: Annotated[int, Field(gt=0, le=10**12)] | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.per_video and self.total_pixels is not None:
            raise ValueError("`total_pixels` has no meaning with `per_video`; use `max_pixels`")
        least, most = self._least, self.max_pixels
        if most is not None and most < least:
            raise ValueError(f"max_pixels {most} is below min_pixels {least}; swap them")
        return self

    @property
    def _least(self) -> int:
        return self.min_pixels or (4 if self.per_video else 128) * self.side**2

    def _most(self, frames: int) -> float:
        """The limit of a picture, or with `per_video` of all pictures."""
        patch = self.side**2
        if self.per_video:
            return self.max_pixels or 24_576 * patch
        total = self.total_pixels or 115_200 * patch
        most = max(min(768 * patch, total / (frames + frames % 2) * 2), int(self._least * 1.05))
        return most if self.max_pixels is None else min(self.max_pixels, most)

    def size(self, width: int, height: int, frames: int) -> tuple[int, int]:
        """Width and height of the `frames` pictures of a video of `width` by `height`."""
        counted = rounded = 1
        if self.per_video:
            counted = max(frames, 2)  # a single picture is doubled
            rounded = round(counted / 2) * 2
            scale = max(self.side / min(width, height), 1.0)
            width, height = int(width * scale), int(height * scale)
        least, most = self._least, self._most(frames)
        size = self._whole(width, height, round)
        pixels = rounded * size[0] * size[1]
        if pixels > most:
            scale = sqrt(counted * width * height / most)
            return self._whole(width / scale, height / scale, floor)
        if pixels < least:
            scale = sqrt(least / (counted * width * height))
            return self._whole(width * scale, height * scale, ceil)
        return size

    def _whole(
        self, width: float, height: float, rounding: Callable[[float], int]
    ) -> tuple[int, int]:
        columns, rows = rounding(width / self.side), rounding(height / self.side)
        return max(columns, 1) * self.side, max(rows, 1) * self.side

    @property
    def name(self) -> str:
        """The rule as written in a sampling's name: `patches-28-total-19267584`."""
        limits = {"min": self.min_pixels, "max": self.max_pixels, "total": self.total_pixels}
        written = "".join(f"-{name}-{limit}" for name, limit in limits.items() if limit)
        return f"patches-{self.side}{'-video' if self.per_video else ''}{written}"


class PictureSpec(Spec):
    """The size and encoding of a picture. The defaults suit the input size of vision models.

    `pixels` is the length of a side, or for AREA the number of pixels. NATIVE does not use it.
    `patches` replaces `resize` and `pixels`.
    """

    resize: Resize = Resize.SHORT_SIDE
    pixels: PixelCount = 448
    encoding: Encoding = Encoding.JPEG
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] = 85
    patches: Patches | None = None

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.resize is not Resize.AREA and self.pixels > MAX_SIDE_PIXELS:
            raise ValueError(f"a side of {self.pixels} pixels is above {MAX_SIDE_PIXELS}")
        if self.patches and not self._has_default("resize", "pixels"):
            raise ValueError("`resize` and `pixels` have no meaning with `patches`; remove them")
        if self.resize is Resize.NATIVE and not self._has_default("pixels"):
            raise ValueError("`pixels` has no meaning with `resize: native`; leave it out")
        if self.encoding is not Encoding.JPEG and not self._has_default("jpeg_quality"):
            raise ValueError(
                f"`jpeg_quality` has no meaning with `encoding: {self.encoding}`; leave it out"
            )
        return self

    def _has_default(self, *names: str) -> bool:
        fields = type(self).model_fields
        return all(getattr(self, name) == fields[name].default for name in names)

    def size(self, width: int, height: int, frames: int) -> tuple[int, int]:
        """Width and height of the `frames` pictures of a video of `width` by `height`."""
        if self.patches is not None:
            return self.patches.size(width, height, frames)
        if self.resize is Resize.SQUARE:
            return self.pixels, self.pixels
        scale = {
            Resize.NATIVE: 1.0,
            Resize.SHORT_SIDE: self.pixels / min(width, height),
            Resize.LONG_SIDE: self.pixels / max(width, height),
            Resize.AREA: (self.pixels / (width * height)) ** 0.5,
        }[self.resize]
        if scale >= 1:
            return width, height
        return max(1, round(width * scale)), max(1, round(height * scale))

    @property
    def media_type(self) -> str:
        return f"image/{self.encoding}"

    @property
    def name_parts(self) -> list[str]:
        """The values that differ from the defaults, as written in a sampling's name."""
        parts = []
        if self.patches is not None:
            parts.append(self.patches.name)
        elif self.resize is Resize.NATIVE:
            parts.append(self.resize.value)
        elif not self._has_default("resize", "pixels"):
            parts.append(f"{self.resize}-{self.pixels}")
        if self.encoding is not Encoding.JPEG:
            parts.append(self.encoding.value)
        elif not self._has_default("jpeg_quality"):
            parts.append(f"jpeg-{self.jpeg_quality}")
        return parts
