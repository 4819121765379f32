"""Encoding: a decoded frame is turned upright, scaled, and encoded to the bytes of a picture.

JPEG is defined as full-range BT.601 (JFIF 1.02). YUV 4:2:0 frames that are BT.601 or untagged
are scaled, converted to full range and passed to the encoder without conversion to RGB. All
other frames are converted to RGB with the matrix of the stream. The pixels of published rules are
resized from RGB, with the filters of the packages that define the rules.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from videomme_pipeline.frames.picture import Encoding, PictureSpec, Resize

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

Plane = NDArray[np.uint8]
"""A plane (height, width), or an RGB picture (height, width, 3)."""

_UNTAGGED_OR_BT601 = {2, 5, 6}
"""libav's numbers for unspecified, BT.470BG and SMPTE 170M, which have the matrix of JPEG."""
_FULL_RANGE = 2
_LOSSLESS: Mapping[Encoding, Mapping[str, int | bool]] = {
    Encoding.PNG: {"compress_level": 3},
    Encoding.WEBP: {"lossless": True, "quality": 0, "method": 0},
}
"""Pillow's options. Other levels of compression take several times as long for 10% fewer bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPicture:
    data: bytes
    width: int
    height: int


def encode(
    frame: "VideoFrame", rotation_degrees: int, spec: PictureSpec, frames: int
) -> EncodedPicture:
    """Turn `frame` counter-clockwise (by a multiple of 90 degrees), scale and encode it.

    `frames` is the number of chosen frames of the video, on which the size may depend.
    """
    turns = rotation_degrees // 90 % 4
    sideways = turns % 2 == 1
    shown = (frame.height, frame.width) if sideways else (frame.width, frame.height)
    width, height = spec.size(*shown, frames)
    coded = (height, width) if sideways else (width, height)
    if spec.patches is not None or spec.resize is Resize.SQUARE:
        upright = _turn(rgb(frame, frame.width, frame.height), turns)
        resize = _resize_as_pillow if spec.patches is None else _resize_as_torchvision
        data = _encode_rgb(resize(upright, width, height), spec)
    elif spec.encoding is Encoding.JPEG and _is_jpeg_ready(frame):
        planes = [_turn(plane, turns) for plane in _yuv_planes(frame, *coded)]
        data = _encode_planes(planes, spec.jpeg_quality)
    else:
        data = _encode_rgb(_turn(rgb(frame, *coded), turns), spec)
    return EncodedPicture(data=data, width=width, height=height)


def rgb(frame: "VideoFrame", width: int, height: int) -> Plane:
    """The frame as RGB (height, width, 3) with the stream's matrix and range, not turned."""
    from av.video.reformatter import Interpolation  # noqa: PLC0415

    if frame.format.name == "rgb24" and (frame.width, frame.height) == (width, height):
        return np.asarray(frame.to_ndarray(), np.uint8)
    exact = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
    scaled = frame.reformat(
        width, height, "rgb24", interpolation=Interpolation.AREA | exact, threads=1
    )
    return np.asarray(scaled.to_ndarray(), np.uint8)


def _resize_as_pillow(picture: Plane, width: int, height: int) -> Plane:
    from PIL import Image  # noqa: PLC0415

    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))


def _resize_as_torchvision(picture: Plane, width: int, height: int) -> Plane:
    """The RGB `picture` (height, width, 3) resized as by torchvision (bicubic, antialiased).

    torchvision rounds once, at the end, and Pillow after each of two passes unless the numbers are
    floats. 0.1% of the values differ by 1 from torchvision.
    """
    channels = np.moveaxis(picture, 2, 0).astype(np.float32)
    resized = [_resize_as_pillow(channel, width, height) for channel in channels]
    return np.stack(resized, axis=2).round().clip(0, 255).astype(np.uint8)


def _is_jpeg_ready(frame: "VideoFrame") -> bool:
    """True if the frame has the color matrix and subsampling of a JPEG."""
    name = frame.format.name
    return name.startswith(("yuv420p", "yuvj420p")) and frame.colorspace in _UNTAGGED_OR_BT601


def _yuv_planes(frame: "VideoFrame", width: int, height: int) -> list[Plane]:
    """Y, U and V at full range, each (height, width). U and V have half the size, rounded up."""
    from av.video.reformatter import Interpolation  # noqa: PLC0415

    area, full = Interpolation.AREA, _FULL_RANGE
    return planes_of(
        frame.reformat(
            width, height, "yuv420p", interpolation=area, dst_color_range=full, threads=1
        )
    )


def planes_of(frame: "VideoFrame") -> list[Plane]:
    """The planes of a YUV frame as views of its memory, without the padding of their rows."""
    rows = ((p, np.frombuffer(memoryview(p), np.uint8).reshape(p.height, -1)) for p in frame.planes)
    return [pixels[:, : plane.width] for plane, pixels in rows]


def _turn(picture: Plane, turns: int) -> Plane:
    """`picture`, turned counter-clockwise `turns` times by 90 degrees."""
    return np.ascontiguousarray(np.rot90(picture, turns))


def _encode_planes(planes: list[Plane], quality: int) -> bytes:
    """The JPEG of Y, U and V, each (height, width), at `quality` 1 to 100.

    The encoder reads Y in whole pairs of rows and columns, even beyond an odd size. Without a copy
    of the last row and column there, the picture would depend on other data in memory.
    """
    import simplejpeg  # noqa: PLC0415

    y, u, v = planes
    height, width = y.shape
    padded = np.pad(y, ((0, height % 2), (0, width % 2)), mode="edge")
    return bytes(simplejpeg.encode_jpeg_yuv_planes(padded[:height, :width], u, v, quality=quality))


def _encode_rgb(picture: Plane, spec: PictureSpec) -> bytes:
    if spec.encoding is Encoding.JPEG:
        import simplejpeg  # noqa: PLC0415

        pixels, quality = np.ascontiguousarray(picture), spec.jpeg_quality
        return bytes(simplejpeg.encode_jpeg(pixels, quality, "RGB", "420"))
    from PIL import Image  # noqa: PLC0415

    sink = io.BytesIO()
    Image.fromarray(picture).save(sink, spec.encoding.name, **_LOSSLESS[spec.encoding])
    return sink.getvalue()
