"""Text in a picture, and the equal shapes of one color.

OCR is native code, so `read_pictures` runs in a child process. This module imports little, so that
the child starts quickly.
"""

import colorsys
import io
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from videomme_pipeline.extras import needs_extra

MAX_PICTURES = 8
"""Reading one picture takes about 0.3 s of CPU."""
MIN_PICTURE_DIFFERENCE = 1.5
"""Mean difference of gray levels (0–255) below which two pictures count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An encoded picture, shown at `seconds`."""

    seconds: float
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureText:
    """Text in a picture, with its center as fractions (0–1) of width and height."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """Text and shapes that were read from one frame."""

    seconds: float
    texts: tuple[PictureText, ...]
    shapes: str
    """"3 red shapes", or "" if there are no equal shapes of one color."""

    def describe(self) -> str:
        minutes, seconds = divmod(int(self.seconds), 60)
        texts = ", ".join(f"{text.text}{_place(text)}" for text in self.texts)
        shapes = f"; {self.shapes}" if self.shapes else ""
        return f"At {minutes:02d}:{seconds:02d}: {texts}{shapes}."


def read_pictures(pictures: Sequence[Picture]) -> tuple[PictureFacts, ...]:
    return tuple(map(_read, pictures))


@cache
def load_ocr() -> Any:
    """PP-OCR with onnxruntime. The package contains the networks."""
    with needs_extra("demo", "the embedded model"):
        from rapidocr import RapidOCR  # noqa: PLC0415 - takes half a second and 100 MB

    return RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.use_cls": False,
            "Det.limit_side_len": 448,
            "Det.limit_type": "max",
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _read(picture: Picture) -> PictureFacts:
    pixels = np.asarray(Image.open(io.BytesIO(picture.data)).convert("RGB"))
    height, width = pixels.shape[:2]
    result = load_ocr()(np.ascontiguousarray(pixels[..., ::-1]))
    boxes = [] if result.boxes is None else [np.asarray(box) for box in result.boxes]
    read = [pair for pair in zip(result.txts or (), boxes, strict=True) if _is_text(pair[0])]
    texts = tuple(
        PictureText(
            text=text,
            x=round(float(box[:, 0].mean()) / width, 3),
            y=round(float(box[:, 1].mean()) / height, 3),
        )
        for text, box in read
    )
    shapes = equal_shapes(pixels, [box for _, box in read])
    return PictureFacts(seconds=picture.seconds, texts=texts, shapes=shapes)


def distinct(pictures: Sequence[Picture]) -> list[Picture]:
    """The pictures that differ most from each other, at most `MAX_PICTURES`, in time order."""
    small = [
        np.asarray(Image.open(io.BytesIO(picture.data)).convert("L").resize((64, 36)), np.float32)
        for picture in pictures
    ]
    chosen = [0]
    distance = np.array([np.abs(other - small[0]).mean() for other in small])
    while len(chosen) < MAX_PICTURES:
        farthest = int(distance.argmax())
        if distance[farthest] < MIN_PICTURE_DIFFERENCE:
            break
        chosen.append(farthest)
        away = np.array([np.abs(other - small[farthest]).mean() for other in small])
        distance = np.minimum(distance, away)
    return [pictures[number] for number in sorted(chosen)]


def equal_shapes(picture: NDArray[np.uint8], text_boxes: Iterable[NDArray[np.floating]]) -> str:
    """The largest group of equal patches of one color outside the text, as "3 red shapes"."""
    from scipy import ndimage  # noqa: PLC0415 - only here

    height, width = picture.shape[:2]
    free = np.ones((height, width), bool)
    for box in text_boxes:
        (left, top), (right, bottom) = box.min(axis=0), box.max(axis=0)
        pad = 0.5 * (bottom - top)
        free[
            max(0, int(top - pad)) : int(bottom + pad), max(0, int(left - pad)) : int(right + pad)
        ] = False
    named = _color_numbers(picture)
    most_pixels, description = 0, ""
    for number, color in enumerate(_COLORS):
        patches, _ = ndimage.label((named == number) & free)
        sizes = np.bincount(patches.ravel())[1:]
        largest = int(sizes.max(initial=0))
        equal = int((sizes > 0.6 * largest).sum())
        is_shape = equal >= 2 and 0.001 < largest / (height * width) < 0.03
        if is_shape and equal * largest > most_pixels:
            most_pixels, description = equal * largest, f"{equal} {color} shapes"
    return description


_COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "white", "black")
_HUES = (0.04, 0.12, 0.19, 0.46, 0.71, 0.92)
"""The end of the hues of each of the first colors. Larger hues are red again."""


def _color_numbers(picture: NDArray[np.uint8]) -> NDArray[np.int8]:
    """The index in `_COLORS` of each pixel's color, -1 for pale and mixed colors."""
    levels = picture >> 4
    codes = (levels[..., 0].astype(np.int32) << 8) | (levels[..., 1] << 4) | levels[..., 2]
    named: NDArray[np.int8] = _color_table()[codes]
    return named


@cache
def _color_table() -> NDArray[np.int8]:
    levels = [level * 17 / 255 for level in range(16)]
    return np.array([_color_number(*rgb) for rgb in product(levels, repeat=3)], np.int8)


def _color_number(red: float, green: float, blue: float) -> int:
    hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
    if value < 0.2:
        return _COLORS.index("black")
    if saturation < 0.1 and value > 0.9:
        return _COLORS.index("white")
    if saturation < 0.5:
        return -1
    return bisect(_HUES, hue) % len(_HUES)


def _is_text(text: str) -> bool:
    """True if `text` is more than one repeated character, such as a row of crosses."""
    letters = [character for character in text if character.isalnum()]
    return any(letter.isascii() for letter in letters) or len(set(letters)) > 1


def _place(text: PictureText) -> str:
    """A position such as " top left", or "" in the middle."""
    across = "left" if text.x < 0.33 else "right" if text.x > 0.67 else ""
    down = "top" if text.y < 0.2 else "bottom" if text.y > 0.8 else ""
    return "".join(f" {word}" for word in (down, across) if word) if across else ""
