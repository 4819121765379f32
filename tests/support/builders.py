"""Small real videos, drawn frame by frame.

Every frame shows its own number as a barcode, so that tests notice a wrong frame without trusting
any decoder. Files that are odd on purpose (rotation, edit lists, damage) are patched copies of good
ones.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from videomme_pipeline.frames.cache import Frame

Picture = NDArray[np.uint8]

BARCODE_BITS = 16
BARCODE_ROWS = 16


def draw_frame(number: int, width: int = 160, height: int = 120) -> Picture:
    """RGB picture (height, width, 3) that moves with `number` and shows it as a barcode.

    The barcode is one row of `BARCODE_BITS` black or white cells along the top, highest bit
    first.
    """
    y, x = np.mgrid[0:height, 0:width]
    picture = np.empty((height, width, 3), np.uint8)
    picture[..., 0] = (x * 2 + number * 3) % 256
    picture[..., 1] = (y * 2 + number * 5) % 256
    picture[..., 2] = 64 + 32 * ((x // 8 + y // 8 + number) % 4)
    edges = [round(bit * width / BARCODE_BITS) for bit in range(BARCODE_BITS + 1)]
    for bit in range(BARCODE_BITS):
        on = number >> (BARCODE_BITS - 1 - bit) & 1
        picture[:BARCODE_ROWS, edges[bit] : edges[bit + 1]] = 235 if on else 20
    return picture


def pixels_of(frame: Frame) -> NDArray[np.uint8]:
    """The picture of a frame as RGB, (height, width, 3)."""
    with Image.open(io.BytesIO(frame.picture)) as image:
        return np.asarray(image.convert("RGB"))


def read_barcode(picture: Picture) -> int:
    """Number that `draw_frame` drew into an upright RGB or gray picture of any scale."""
    grey = picture.astype(np.float64)
    if grey.ndim == 3:
        grey = grey.mean(axis=2)
    height, width = grey.shape
    rows = max(3, round(BARCODE_ROWS * height / 120)) if height < 120 else BARCODE_ROWS
    strip = grey[rows // 4 : rows * 3 // 4]
    cell = width / BARCODE_BITS
    bits = [
        strip[:, round((bit + 0.25) * cell) : round((bit + 0.75) * cell)].mean() > 128
        for bit in range(BARCODE_BITS)
    ]
    return sum(int(on) << (BARCODE_BITS - 1 - bit) for bit, on in enumerate(bits))


def write_video(
    path: Path,
    *,
    frames: int = 60,
    fps: int | Fraction = 10,
    width: int = 160,
    height: int = 120,
    codec: str = "libx264",
    gop: int = 12,
    pixel_format: str = "yuv420p",
    options: dict[str, str] | None = None,
    pts: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    pictures: Iterable[Picture] | None = None,
    container_options: dict[str, str] | None = None,
    container_format: str | None = None,
    audio: bool = False,
    colorspace: int | None = None,
    color_range: int | None = None,
) -> Path:
    """Encode a video to `path` (the suffix names the container) and return `path`.

    `pts` contains the presentation time of each frame in `time_base` (default: 0, 1, 2 … in
    1/fps). `pictures` replaces the drawn frames. `audio` adds a quiet AAC track. `colorspace` and
    `color_range` tag the stream with libav's numbers (1 is BT.709, 5 is BT.601 625; range 1 is
    limited, 2 is full).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    base = time_base or Fraction(1, 1) / Fraction(fps)
    shown = (
        pictures if pictures is not None else (draw_frame(i, width, height) for i in range(frames))
    )
    with av.open(
        str(path), "w", format=container_format, options=container_options or {}
    ) as output:
        stream: Any = output.add_stream(codec, rate=Fraction(fps))
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        stream.codec_context.time_base = base
        stream.codec_context.gop_size = gop
        stream.codec_context.thread_count = 1
        if colorspace is not None:
            stream.codec_context.colorspace = colorspace
        if color_range is not None:
            stream.codec_context.color_range = color_range
        stream.options = {**_default_options(codec), **(options or {})}
        sound = _add_audio(output, frames, Fraction(fps)) if audio else None
        for number, picture in enumerate(shown):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame = frame.reformat(
                format=pixel_format,
                dst_colorspace=colorspace,
            )
            frame.pts = pts[number] if pts is not None else number
            frame.time_base = base
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
        if sound is not None:
            output.mux(sound.encode(None))
    return path


def write_audio_only(path: Path, seconds: int = 2) -> Path:
    """Write a file that has a sound track and no picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as output:
        sound = _add_audio(output, seconds * 10, Fraction(10))
        output.mux(sound.encode(None))
    return path


def rotate_mp4(path: Path, degrees: int) -> Path:
    """Mark the video track of an mp4 as turned clockwise by 90, 180 or 270 degrees, in place."""
    cosine, sine = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    matrix = np.array([cosine, sine, 0, -sine, cosine, 0, 0, 0, 0], np.int64) * 65536
    matrix[8] = 1 << 30
    data = bytearray(path.read_bytes())
    start = data.index(b"tkhd") + 4
    version = data[start]
    offset = start + (52 if version == 1 else 40)
    data[offset : offset + 36] = matrix.astype(">i4").tobytes()
    path.write_bytes(data)
    return path


def hide_first_frames(path: Path, media_units: int) -> Path:
    """Move the start of an mp4's single edit by `media_units` (media time base), in place."""
    data = bytearray(path.read_bytes())
    media = data.index(b"mdhd") + 4
    edit = data.index(b"elst") + 4
    track = data.index(b"tkhd") + 4
    assert data[media] == data[edit] == data[track] == 0, "boxes of version 0"
    assert _number(data, edit + 4) == 1, "one edit"
    milliseconds = media_units * 1000 // _number(data, media + 12)
    _add(data, edit + 12, media_units)
    _add(data, edit + 8, -milliseconds)
    _add(data, track + 20, -milliseconds)
    path.write_bytes(data)
    return path


def declare_samples(path: Path, box: str, samples: int) -> Path:
    """Set the first count of samples in the `stsz`, `stts`, `ctts` or `stsc` of an mp4, in place.

    All samples in `stsz` get the size 1, since only then a large count needs no large box.
    """
    data = bytearray(path.read_bytes())
    table = data.index(box.encode()) + 4
    if box == "stsz":
        data[table + 4 : table + 8] = (1).to_bytes(4, "big")
    position = table + (12 if box == "stsc" else 8)
    data[position : position + 4] = samples.to_bytes(4, "big")
    path.write_bytes(data)
    return path


def _number(data: bytearray, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "big", signed=True)


def _add(data: bytearray, position: int, change: int) -> None:
    data[position : position + 4] = (_number(data, position) + change).to_bytes(
        4, "big", signed=True
    )


def truncate(path: Path, keep: float) -> Path:
    """Keep only the first part of a file (`keep` between 0 and 1), in place."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    return path


def damage(path: Path, at: float, length: int = 400, seed: int = 0) -> Path:
    """Overwrite `length` bytes at the fraction `at` of a file with noise, in place."""
    data = bytearray(path.read_bytes())
    start = int(len(data) * at)
    noise = np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8)
    data[start : start + length] = noise.tobytes()
    path.write_bytes(data)
    return path


def hole(path: Path, at: float, length: int = 2000) -> Path:
    """Zero `length` bytes at the fraction `at` of a file, in place, as a lost disk block would."""
    data = bytearray(path.read_bytes())
    start = int(len(data) * at)
    data[start : start + length] = bytes(length)
    path.write_bytes(data)
    return path


_SAME_BYTES = "cpu-independent=1"
"""Without it, x264 encodes the same pictures differently each time, and damage hits other parts."""


def _default_options(codec: str) -> dict[str, str]:
    return {
        "libx264": {"preset": "veryfast", "crf": "20", "x264-params": _SAME_BYTES},
        "libx265": {"preset": "ultrafast", "crf": "20", "x265-params": "log-level=none:pools=1"},
        "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "crf": "20", "b": "0"},
        "libsvtav1": {"preset": "12", "crf": "20", "svtav1-params": "lp=1"},
        "mpeg2video": {"b": "2000000"},
    }.get(codec, {})


def _add_audio(output: Any, frames: int, fps: Fraction) -> Any:
    sound = output.add_stream("aac", rate=16000)
    sound.layout = "mono"
    samples = int(frames / fps * 16000)
    for start in range(0, samples, 1024):
        wave = np.sin(np.arange(start, start + 1024) / 20).astype(np.float32)[None] * 0.1
        frame = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
        output.mux(sound.encode(frame))
    return sound


def _x264(parameters: str) -> dict[str, str]:
    return {"preset": "medium", "x264-params": f"{parameters}:{_SAME_BYTES}"}


ODD_VIDEOS: dict[str, Callable[[Path], Path]] = {
    "h264.mp4": lambda p: write_video(p, options=_x264("bframes=3"), audio=True),
    "open_gop.mp4": lambda p: write_video(p, options=_x264("open-gop=1:bframes=3")),
    "intra_refresh.mp4": lambda p: write_video(p, options=_x264("intra-refresh=1:keyint=12")),
    "one_keyframe.mp4": lambda p: write_video(p, gop=600),
    "interlaced.mp4": lambda p: write_video(p, options=_x264("interlaced=1:bframes=2")),
    "vfr.mp4": lambda p: write_video(
        p, pts=[i * 100 + i % 7 * 13 for i in range(60)], time_base=Fraction(1, 1000)
    ),
    "edit_list.mp4": lambda p: hide_first_frames(write_video(p), 15 * 1024),
    "edit_between_frames.mp4": lambda p: hide_first_frames(write_video(p), 15 * 1024 + 100),
    "rotated.mp4": lambda p: rotate_mp4(write_video(p), 90),
    "negative_offsets.mp4": lambda p: write_video(
        p, container_options={"movflags": "+negative_cts_offsets"}
    ),
    "fragmented.mp4": lambda p: write_video(
        p, container_options={"movflags": "+frag_keyframe+empty_moov"}
    ),
    "odd_size.mkv": lambda p: write_video(p, width=161, height=121, pixel_format="yuv444p"),
    "late_start.mkv": lambda p: write_video(p, pts=[i + 50 for i in range(60)]),
    "transport.ts": lambda p: write_video(p, options=_x264("bframes=3")),
    "no_timestamps.h264": write_video,
    "hevc.mp4": lambda p: write_video(
        p,
        codec="libx265",
        options={"preset": "medium", "x265-params": "log-level=none:pools=1:bframes=4"},
    ),
    "ten_bit.mp4": lambda p: write_video(p, codec="libx265", pixel_format="yuv420p10le"),
    "vp9.webm": lambda p: write_video(p, codec="libvpx-vp9"),
    "av1.mp4": lambda p: write_video(p, codec="libsvtav1"),
    "mpeg2.mpg": lambda p: write_video(
        p, codec="mpeg2video", fps=25, options={"bf": "2", "b": "2000000"}
    ),
    "mpeg4.avi": lambda p: write_video(p, codec="mpeg4", options={"bf": "2"}),
}
"""Builders of videos that are hard to decode, by file name."""
