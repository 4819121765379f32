"""Pictures have the right colors, range, size and orientation for every kind of stream."""

import io
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

from tests.support.builders import draw_frame, read_barcode, rotate_mp4, write_video
from videomme_pipeline.frames.encoding import encode, rgb
from videomme_pipeline.frames.picture import Encoding, Patches, PictureSpec, Resize

NATIVE = PictureSpec(resize=Resize.NATIVE, jpeg_quality=95)
LIMITED, FULL = 1, 2
BT709, BT601, UNTAGGED = 1, 5, 2

Array = NDArray[Any]


def first_frame(path: Path) -> av.VideoFrame:
    with av.open(str(path)) as container:
        return next(container.decode(video=0))


def smooth_picture(width: int = 320, height: int = 240) -> NDArray[np.uint8]:
    """A color gradient, on which only wrong colors reduce the PSNR."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [40 + x * 160 / width, 60 + y * 140 / height, 200 - x * 120 / width]
    return np.stack(planes, axis=-1).astype(np.uint8)


def pixels(data: bytes) -> Array:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def psnr(actual: Array, expected: Array) -> float:
    error = np.mean((actual.astype(float) - expected.astype(float)) ** 2)
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def tagged_frame(colorspace: int, color_range: int, pixel_format: str = "yuv420p") -> av.VideoFrame:
    """The smooth picture as YUV with the given matrix and range."""
    frame = av.VideoFrame.from_ndarray(smooth_picture(), format="rgb24").reformat(
        format=pixel_format, dst_colorspace=colorspace, dst_color_range=color_range
    )
    frame.colorspace, frame.color_range = colorspace, color_range
    return frame


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p", "yuv420p10le"])
@pytest.mark.parametrize("color_range", [LIMITED, FULL])
@pytest.mark.parametrize("colorspace", [BT601, BT709])
def test_pictures_have_the_colors_of_the_stream(
    colorspace: int, color_range: int, pixel_format: str
) -> None:
    picture = encode(tagged_frame(colorspace, color_range, pixel_format), 0, NATIVE, 1)
    assert psnr(pixels(picture.data), smooth_picture()) >= 40


def test_an_untagged_stream_is_read_as_bt601(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", pictures=[smooth_picture()], width=320, height=240)
    frame = first_frame(path)
    assert frame.colorspace == UNTAGGED
    assert psnr(pixels(encode(frame, 0, NATIVE, 1).data), smooth_picture()) >= 38


def test_reading_bt709_as_bt601_would_be_detected() -> None:
    wrong = tagged_frame(BT709, LIMITED)
    wrong.colorspace = BT601
    assert psnr(pixels(encode(wrong, 0, NATIVE, 1).data), smooth_picture()) < 40


@pytest.mark.parametrize("colorspace", [BT601, BT709])
def test_scaled_pictures_match_a_reference_of_equal_quality(colorspace: int) -> None:
    spec = PictureSpec(resize=Resize.SHORT_SIDE, pixels=120, jpeg_quality=85)
    picture = encode(tagged_frame(colorspace, LIMITED), 0, spec, 1)
    reference = np.asarray(
        Image.fromarray(smooth_picture()).resize((160, 120), Image.Resampling.BOX)
    )
    assert (picture.width, picture.height) == (160, 120)
    assert psnr(pixels(picture.data), reference) >= 40


def test_a_smaller_picture_has_the_means_of_all_pixels() -> None:
    """Noise, of which an interpolation between few pixels keeps more than the mean."""
    gray = np.random.default_rng(1).integers(60, 200, (480, 640, 1), dtype=np.uint8)
    noise = np.repeat(gray, 3, axis=2)
    frame = av.VideoFrame.from_ndarray(noise, format="rgb24").reformat(
        format="yuv420p", dst_colorspace=BT601, dst_color_range=FULL
    )
    frame.colorspace, frame.color_range = BT601, FULL
    spec = PictureSpec(resize=Resize.SHORT_SIDE, pixels=120, jpeg_quality=95)
    means = Image.fromarray(noise).resize((160, 120), Image.Resampling.BOX)
    assert psnr(pixels(encode(frame, 0, spec, 1).data), np.asarray(means)) > 37


@pytest.mark.parametrize("size", [(161, 121), (1, 1), (33, 50), (160, 120)])
@pytest.mark.parametrize("encoding", list(Encoding))
def test_odd_sizes_keep_every_row_and_column(size: tuple[int, int], encoding: Encoding) -> None:
    width, height = size
    frame = av.VideoFrame.from_ndarray(smooth_picture(width, height), format="rgb24")
    frame = frame.reformat(format="yuv420p", dst_colorspace=BT601)
    spec = PictureSpec(resize=Resize.NATIVE, encoding=encoding)
    picture = encode(frame, 0, spec, 1)
    assert (picture.width, picture.height) == size
    assert pixels(picture.data).shape == (height, width, 3)


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("colorspace", [BT601, BT709])
def test_the_pictures_of_a_rotated_video_are_upright(
    tmp_path: Path, encoding: Encoding, colorspace: int
) -> None:
    turned = [np.ascontiguousarray(np.rot90(draw_frame(n + 700, 120, 160))) for n in range(2)]
    path = tmp_path / "a.mp4"
    write_video(path, pictures=turned, width=160, height=120, colorspace=colorspace)
    frame = first_frame(rotate_mp4(path, 90))
    picture = encode(frame, frame.rotation, PictureSpec(resize=Resize.NATIVE, encoding=encoding), 1)
    assert (picture.width, picture.height) == (120, 160)
    assert read_barcode(pixels(picture.data)) == 700


@pytest.mark.parametrize(
    ("encoding", "signature"), [(Encoding.PNG, b"\x89PNG"), (Encoding.WEBP, b"RIFF")]
)
def test_lossless_pictures_contain_the_pixels_of_the_frame(
    encoding: Encoding, signature: bytes
) -> None:
    frame = tagged_frame(BT709, LIMITED)
    picture = encode(frame, 0, PictureSpec(resize=Resize.NATIVE, encoding=encoding), 1)
    assert picture.data.startswith(signature)
    assert np.array_equal(pixels(picture.data), rgb(frame, frame.width, frame.height))


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (PictureSpec(patches=Patches(side=28), encoding=Encoding.PNG), (280, 392)),
        (PictureSpec(resize=Resize.SQUARE, pixels=96, encoding=Encoding.WEBP), (96, 96)),
    ],
    ids=["patches", "square"],
)
def test_pixels_of_published_rules_are_resized_upright(
    spec: PictureSpec, size: tuple[int, int]
) -> None:
    frame = av.VideoFrame.from_ndarray(smooth_picture(160, 120), format="rgb24")
    picture = encode(frame, 90, spec, 8)
    upright = Image.fromarray(np.rot90(smooth_picture(160, 120)))
    reference = np.asarray(upright.resize(size, Image.Resampling.BICUBIC))
    assert (picture.width, picture.height) == size
    assert int(np.abs(pixels(picture.data).astype(int) - reference).max()) <= 1


def test_a_higher_quality_gives_a_larger_file() -> None:
    frame = first_frame_of_noise()
    sizes = [
        len(encode(frame, 0, PictureSpec(resize=Resize.NATIVE, jpeg_quality=q), 1).data)
        for q in (30, 60, 90)
    ]
    assert sizes == sorted(sizes)
    assert simplejpeg.decode_jpeg_header(encode(frame, 0, NATIVE, 1).data)[2] == "YCbCr"


def first_frame_of_noise() -> av.VideoFrame:
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    return av.VideoFrame.from_ndarray(noise, format="rgb24").reformat(format="yuv420p")


@pytest.mark.parametrize(("width", "height"), [(321, 240), (320, 241), (321, 241)])
def test_a_picture_of_odd_size_depends_on_nothing_else_in_memory(width: int, height: int) -> None:
    frame = av.VideoFrame.from_ndarray(smooth_picture(width, height), format="rgb24").reformat(
        format="yuv420p", dst_colorspace=BT601
    )
    chance = np.random.default_rng(0)
    encoded = set()
    for _ in range(40):
        chance.bytes(int(chance.integers(10_000, 200_000)))  # leaves noise in freed memory
        encoded.add(encode(frame, 0, NATIVE, 1).data)
    assert len(encoded) == 1
