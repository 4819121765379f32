"""Text in a picture.

OCR is native code, so `read_pictures` runs in a child process. This module imports little, so that
the child starts quickly.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
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
    """Text that was read from one frame."""

    seconds: float
    texts: tuple[PictureText, ...]

    def describe(self) -> str:
        minutes, seconds = divmod(int(self.seconds), 60)
        texts = ", ".join(f"{text.text}{_place(text)}" for text in self.texts)
        return f"At {minutes:02d}:{seconds:02d}: {texts}."


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
    return PictureFacts(seconds=picture.seconds, texts=texts)


def distinct(pictures: Sequence[Picture]) -> list[Picture]:
    """The pictures that differ most from each other, at most `MAX_PICTURES`, in time order."""
    small = [
        np.asarray(Image.open(io.BytesIO(picture.data)).convert("L").resize((64, 36)), np.float32)
        for picture in pictures
    ]
    chosen: list[int] = []
    distance = np.full(len(small), np.inf)
    while len(chosen) < MAX_PICTURES and distance.max() >= MIN_PICTURE_DIFFERENCE:
        farthest = int(distance.argmax())
        chosen.append(farthest)
        away = [np.abs(other - small[farthest]).mean() for other in small]
        distance = np.minimum(distance, away)
    return [pictures[number] for number in sorted(chosen)]


def _is_text(text: str) -> bool:
    """True if `text` is more than one repeated character, such as a row of crosses."""
    letters = [character for character in text if character.isalnum()]
    return any(letter.isascii() for letter in letters) or len(set(letters)) > 1


def _place(text: PictureText) -> str:
    """A position such as " top left", or "" in the middle."""
    across = "left" if text.x < 0.33 else "right" if text.x > 0.67 else ""
    down = "top" if text.y < 0.2 else "bottom" if text.y > 0.8 else ""
    return "".join(f" {word}" for word in (down, across) if word) if across else ""
