"""The videos that decoding is measured on: made once, kept in a folder, the same each time.

Mixed content (hard cuts, pans, noise, still slides), x264 with its own choice of keyframes (at
most 250 frames apart), so that they fall as in real files. One minute is encoded per picture
size; longer clips repeat it packet by packet, since encoding is not what is measured.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

DEFAULT_FOLDER = Path("/tmp/videomme-perf")
LUMA_NOISE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One video of the recipe."""

    name: str
    seconds: int
    width: int
    height: int
    fps: int


CLIPS = (
    Clip(name="60s_720p30", seconds=60, width=1280, height=720, fps=30),
    Clip(name="10min_720p30", seconds=600, width=1280, height=720, fps=30),
    Clip(name="40min_720p25", seconds=2400, width=1280, height=720, fps=25),
    Clip(name="60min_720p25", seconds=3600, width=1280, height=720, fps=25),
    Clip(name="60min_360p30", seconds=3600, width=640, height=360, fps=30),
    Clip(name="10min_1080p25", seconds=600, width=1920, height=1080, fps=25),
)
QUICK = CLIPS[:1]
ENCODED_FRAMES = 1800
PRESETS = {360: "medium", 720: "medium", 1080: "veryfast"}


def clip(name: str, folder: Path = DEFAULT_FOLDER) -> Path:
    """The path of a clip, made first when it is not there."""
    wanted = next(c for c in CLIPS if c.name == name)
    path = folder / f"{name}.mp4"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        encoded = folder / f"encoded_{wanted.height}.mp4"
        if not encoded.exists():
            _encode(wanted.width, wanted.height, encoded)
        _repeat(encoded, wanted, path)
    return path


def _encode(width: int, height: int, path: Path) -> None:
    partial = path.with_suffix(".partial.mp4")
    with av.open(str(partial), "w") as output:
        stream: Any = output.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"preset": PRESETS[height], "crf": "23", "bf": "3", "refs": "3"}
        for picture in _pictures(width, height, ENCODED_FRAMES):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        output.mux(stream.encode(None))
    partial.rename(path)


def _repeat(encoded: Path, wanted: Clip, path: Path) -> None:
    """The packets of `encoded`, shown at the clip's frame rate, until the clip is full."""
    partial = path.with_suffix(".partial.mp4")
    with av.open(str(partial), "w") as output, av.open(str(encoded)) as source:
        first = source.streams.video[0]
        stream = output.add_stream_from_template(first)
        per_frame = int(1 / (Fraction(30) * (first.time_base or 1)))
        time_base = Fraction(1, wanted.fps * per_frame)
        packets = [(p.pts, p.dts, bytes(p), p.is_keyframe) for p in source.demux(first) if p.size]
        for turn in range(wanted.seconds * wanted.fps // ENCODED_FRAMES):
            offset = turn * ENCODED_FRAMES * per_frame
            for pts, dts, data, is_keyframe in packets:
                packet = av.Packet(data)
                packet.pts, packet.dts = (pts or 0) + offset, (dts or 0) + offset
                packet.time_base, packet.stream = time_base, stream
                packet.is_keyframe = is_keyframe
                output.mux(packet)
    partial.rename(path)


def _pictures(width: int, height: int, count: int) -> Iterator[NDArray[np.uint8]]:
    """YUV 4:2:0 pictures: scenes of 2 to 12 seconds that pan, stand still, or flicker."""
    random = np.random.default_rng(7)
    noise = random.integers(-LUMA_NOISE, LUMA_NOISE + 1, (height * 2, width * 2)).astype(np.int16)
    number = 0
    while number < count:
        length = int(random.integers(60, 360))
        kind = random.choice(["pan", "still", "move"], p=[0.35, 0.25, 0.4])
        scene = _scene(random, width * 2, height * 2)
        chroma = random.integers(90, 166, (2, height // 4 + 1, width // 4 + 1)).astype(np.uint8)
        colours = chroma.repeat(2, 1).repeat(2, 2)[:, : height // 2, : width // 2]
        for step in range(min(length, count - number)):
            x = step * 2 % width if kind == "pan" else 0
            y = step % height if kind == "pan" else 0
            luma = scene[y : y + height, x : x + width].copy()
            if kind == "move":
                left = step * 5 % (width - 200)
                luma[height // 3 : height // 3 + 160, left : left + 160] = 200
            if kind != "still":
                dy, dx = random.integers(0, height), random.integers(0, width)
                luma += noise[dy : dy + height, dx : dx + width]
            picture = np.empty((height * 3 // 2, width), np.uint8)
            picture[:height] = np.clip(luma, 16, 235)
            picture[height:] = colours.reshape(height // 2, width)
            yield picture
        number += length


def _scene(random: np.random.Generator, width: int, height: int) -> NDArray[np.int16]:
    """A picture with large shapes, edges and texture."""
    coarse = random.integers(30, 220, (height // 40 + 1, width // 40 + 1)).astype(np.int16)
    scene = coarse.repeat(40, 0).repeat(40, 1)[:height, :width]
    y, x = np.mgrid[0:height, 0:width]
    return np.asarray(scene + (12 * np.sin(x / 7.0) * np.cos(y / 9.0)).astype(np.int16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--quick", action="store_true", help="only the 60-second clip")
    arguments = parser.parse_args()
    for wanted in QUICK if arguments.quick else CLIPS:
        path = clip(wanted.name, arguments.folder)
        print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
