"""Realistic videos for measurements of decoding, identical in every run.

Video-MME has 900 videos of 1,018 s on average in about 100 GB. This is 0.9 Mbit/s over all picture
sizes, because the video site's compression has removed most camera noise. These clips are shots of
textured scenes with a moving camera, moving textured objects, and ripples like those of water,
leaves and light. x264 encodes them with its defaults (crf 23, scene cut detection, up to 3
B-frames), but with keyframes at most 5 s apart, as on the site.

The cost of decoding depends on how the bits are distributed, so `SPECTRUM` and the shots were
chosen to match real videos in bits per pixel of keyframes, reference pictures and other pictures
(both are listed in docs/performance.md; `facts` computes them for any H.264 mp4).

One minute is encoded per picture size. Longer clips repeat its packets.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from videomme_pipeline.videos.container import index_packets

DEFAULT_FOLDER = Path("/tmp/videomme-perf")
CLIP_VERSION = 4
"""Part of the file names, so that clips of another version are not used."""

KEYFRAME_SECONDS = 5
SPECTRUM = 1.6
"""Amplitudes fall as frequency ** -SPECTRUM: 1 for sharp photographs, more after a lens and a
site's own compression. It determines the size of keyframes."""

Plane = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The name, length and format of one clip."""

    name: str
    seconds: int
    width: int
    height: int
    fps: int


CLIPS = (
    Clip(name="60s_360p30", seconds=60, width=640, height=360, fps=30),
    Clip(name="60s_720p30", seconds=60, width=1280, height=720, fps=30),
    Clip(name="10min_720p30", seconds=600, width=1280, height=720, fps=30),
    Clip(name="40min_720p25", seconds=2400, width=1280, height=720, fps=25),
    Clip(name="60min_720p25", seconds=3600, width=1280, height=720, fps=25),
    Clip(name="60min_360p30", seconds=3600, width=640, height=360, fps=30),
    Clip(name="10min_1080p25", seconds=600, width=1920, height=1080, fps=25),
)
QUICK = CLIPS[:1]
ENCODED_FRAMES = 1800


def clip(name: str, folder: Path = DEFAULT_FOLDER) -> Path:
    """The path of a clip, which is built if necessary, or `name` if it is an existing video."""
    if Path(name).is_file():
        return Path(name)
    chosen = next(c for c in CLIPS if c.name == name)
    path = folder / f"{name}.v{CLIP_VERSION}.mp4"
    encoded = folder / f"encoded_{chosen.height}.v{CLIP_VERSION}.mp4"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{encoded}.lock"):  # several processes may want it, and it takes a minute
        if not encoded.exists():
            _encode(chosen.width, chosen.height, encoded)
        if not path.exists():
            _repeat(encoded, chosen, path)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Properties that determine the cost of decoding a clip.

    GOP lengths are in frames. Bits per pixel are means over the pictures of a kind: keyframes,
    other reference pictures, and pictures that no other depends on. None if there are none.
    """

    megabits_per_second: float
    mean_gop: float
    longest_gop: int
    non_reference_share: float
    keyframe_bits_per_pixel: float | None
    reference_bits_per_pixel: float | None
    non_reference_bits_per_pixel: float | None


def facts(path: Path) -> Facts:
    """The facts of an H.264 clip in an mp4."""
    index = index_packets(path)
    gops = np.diff(np.append(np.flatnonzero(index.is_keyframe), len(index.pts)))
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        bits_per_pixel = index.size * 8 / (stream.width * stream.height)
        unused = np.array([_is_non_reference(bytes(p)) for p in container.demux(stream) if p.size])
    others = ~index.is_keyframe & ~unused
    return Facts(
        megabits_per_second=float(index.size.sum()) * 8 / index.duration_seconds / 1e6,
        mean_gop=float(gops.mean()),
        longest_gop=int(gops.max()),
        non_reference_share=float(unused.mean()),
        keyframe_bits_per_pixel=_mean(bits_per_pixel[index.is_keyframe]),
        reference_bits_per_pixel=_mean(bits_per_pixel[others]),
        non_reference_bits_per_pixel=_mean(bits_per_pixel[unused]),
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None


def _is_non_reference(data: bytes) -> bool:
    """True if no other picture depends on this one: `nal_ref_idc` 0 (ITU-T H.264, 7.4.1)."""
    position = 0
    while position + 5 <= len(data):
        header = data[position + 4]
        if header & 31 in (1, 5):
            return header >> 5 & 3 == 0
        position += 4 + int.from_bytes(data[position : position + 4], "big")
    return False


def _encode(width: int, height: int, path: Path) -> None:
    partial = path.with_suffix(f".{os.getpid()}.mp4")
    with av.open(str(partial), "w") as output:
        stream: Any = output.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size = KEYFRAME_SECONDS * 30
        for picture in _pictures(width, height, ENCODED_FRAMES):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        output.mux(stream.encode(None))
    partial.rename(path)


def _repeat(encoded: Path, chosen: Clip, path: Path) -> None:
    """Write the packets of `encoded` at the clip's frame rate, repeated to the clip's length."""
    partial = path.with_suffix(f".{os.getpid()}.mp4")
    with av.open(str(partial), "w") as output, av.open(str(encoded)) as source:
        first = source.streams.video[0]
        stream = output.add_stream_from_template(first)
        per_frame = int(1 / (Fraction(30) * (first.time_base or 1)))
        time_base = Fraction(1, chosen.fps * per_frame)
        packets = [(p.pts, p.dts, bytes(p), p.is_keyframe) for p in source.demux(first) if p.size]
        for turn in range(chosen.seconds * chosen.fps // ENCODED_FRAMES):
            offset = turn * ENCODED_FRAMES * per_frame
            for pts, dts, data, is_keyframe in packets:
                packet = av.Packet(data)
                packet.pts, packet.dts = (pts or 0) + offset, (dts or 0) + offset
                packet.time_base, packet.stream = time_base, stream
                packet.is_keyframe = is_keyframe
                output.mux(packet)
    partial.rename(path)


# The pictures.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """The motion in a shot. Lengths are fractions of the picture's height, per frame.

    `share` is the fraction of shots of this kind; `shake` is the movement of a hand-held camera;
    `ripple` is the strength, in levels of luma, of the pattern that drifts over the scene.
    """

    share: float
    pan: float = 0.0
    zoom: float = 0.0
    shake: float = 0.0
    objects: int = 0
    speed: float = 0.0
    ripple: float = 8.0
    noise: float = 0.8


SHOTS = (
    Shot(share=0.35, shake=0.0004, objects=2, speed=0.002, ripple=6),  # a person talks
    Shot(share=0.20, pan=0.003, objects=1, speed=0.004),  # the camera follows
    Shot(share=0.15, zoom=0.0008, shake=0.0002),
    Shot(share=0.15, pan=0.008, shake=0.001, objects=3, speed=0.012, ripple=12),  # sport
    Shot(share=0.15, ripple=0, noise=0),  # a slide
)
DRIFT = 0.008
"""Movement of a ripple per frame, as a fraction of the picture's height."""


def _pictures(width: int, height: int, count: int) -> Iterator[NDArray[np.uint8]]:
    """YUV 4:2:0 pictures of shots of 2 to 12 seconds with hard cuts between them."""
    random = np.random.default_rng(7)
    number = 0
    while number < count:
        length = min(int(random.integers(60, 360)), count - number)
        shot = SHOTS[random.choice(len(SHOTS), p=[shot.share for shot in SHOTS])]
        yield from _film(random, shot, width, height, length)
        number += length


def _film(
    random: np.random.Generator, shot: Shot, width: int, height: int, length: int
) -> Iterator[NDArray[np.uint8]]:
    scene = _texture(random, width * 2, height * 2, contrast=45)
    objects = [_Object(random, shot.speed, width, height) for _ in range(shot.objects)]
    grain = np.rint(random.normal(0, shot.noise, (height * 2, width * 2))).astype(np.int16)
    ripple = np.rint(_pink(random, width * 2, height * 2) * shot.ripple).astype(np.int16)
    angle, drift = random.uniform(0, 2 * np.pi, 2)
    x, y = width / 2, height / 2
    for step in range(length):
        dx, dy = random.normal(0, shot.shake * height, 2)
        x += shot.pan * height * np.cos(angle) + dx
        y += shot.pan * height * np.sin(angle) * 0.3 + dy
        scale = 1 - shot.zoom * step
        left, top = _reflect(x, width), _reflect(y, height)
        seen = [
            plane.transform(
                (width // part, height // part),
                Image.Transform.AFFINE,
                (scale, 0, left / part, 0, scale, top / part),
                Image.Resampling.BILINEAR,
            )
            for plane, part in zip(scene, (1, 2, 2), strict=True)
        ]
        for item in objects:
            item.draw(seen, step)
        down, right = random.integers(0, height), random.integers(0, width)
        luma = np.asarray(seen[0]) + grain[down : down + height, right : right + width]
        row = int(_reflect(height * (0.5 + DRIFT * step * np.sin(drift)), height))
        column = int(_reflect(width / 2 + height * DRIFT * step * np.cos(drift), width))
        luma += ripple[row : row + height, column : column + width]
        picture = np.empty((height * 3 // 2, width), np.uint8)
        picture[:height] = np.clip(luma, 16, 235)
        picture[height:] = np.stack([np.asarray(plane) for plane in seen[1:]]).reshape(-1, width)
        yield picture


class _Object:
    """A textured disc that oscillates on its own path."""

    def __init__(self, random: np.random.Generator, speed: float, width: int, height: int) -> None:
        size = int(height * random.uniform(0.2, 0.5)) // 2 * 2
        self._planes = _texture(random, size, size, contrast=55)
        self._masks = [Image.new("L", plane.size) for plane in self._planes]
        for mask in self._masks:
            ImageDraw.Draw(mask).ellipse((0, 0, mask.width - 1, mask.height - 1), fill=255)
        self._centre = random.uniform(0.2, 0.8, 2) * (width - size, height - size)
        self._reach = random.uniform(0.05, 0.2, 2) * (width, height)
        self._turn = speed * height / self._reach.mean()
        self._phase = random.uniform(0, 2 * np.pi, 2)

    def draw(self, picture: list[Image.Image], step: int) -> None:
        x, y = self._centre + self._reach * np.sin(self._turn * step + self._phase)
        for part, plane, texture, mask in zip(
            (1, 2, 2), picture, self._planes, self._masks, strict=True
        ):
            plane.paste(texture, (round(x / 2) * 2 // part, round(y / 2) * 2 // part), mask)


def _texture(
    random: np.random.Generator, width: int, height: int, contrast: float
) -> list[Image.Image]:
    """A random cloud-like texture: luma at full size, both chromas at half size."""
    planes = [_pink(random, width, height) * contrast + random.uniform(90, 160)]
    planes += [_pink(random, width // 2, height // 2) * 12 + 128 for _ in range(2)]
    return [Image.fromarray(np.clip(plane, 16, 235).astype(np.uint8)) for plane in planes]


def _pink(random: np.random.Generator, width: int, height: int) -> Plane:
    """A field of mean 0 and deviation 1 with the spectrum of `SPECTRUM`."""
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    frequency = np.hypot(fy, fx)
    frequency[0, 0] = np.inf
    white = np.fft.rfft2(random.normal(size=(height, width)))
    field = np.fft.irfft2(white / frequency**SPECTRUM, (height, width))
    return np.asarray(field / field.std(), np.float32)


def _reflect(position: float, span: int) -> float:
    """`place` reflected at the ends of 0 … `span`."""
    return span - abs(position % (2 * span) - span)
