"""Draw smoke scripts as H.264 video, and write their subtitles (SRT lines, v2 words).

A scene is drawn once. Then only its moving shapes and the clock are updated in the same YUV
picture, so that an hour of video takes about a minute of CPU.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pysubs2.formats.subrip import SubripFormat

from videomme_pipeline.demo.smoke.scripts import Scene, Script
from videomme_pipeline.frames.encoding import Plane, planes_of

GOP_FRAMES = 250
ENCODER = {"preset": "ultrafast", "bf": "2", "crf": "27", "threads": "1"}
MOTION_SECONDS = 6.0
CUE_SECONDS = 3.5
GAP_SECONDS = 0.25

_PAINT = {
    "red": (214, 48, 49),
    "orange": (240, 140, 30),
    "yellow": (250, 218, 60),
    "green": (46, 160, 67),
    "blue": (38, 98, 217),
    "purple": (142, 68, 173),
    "white": (250, 250, 250),
    "black": (18, 18, 20),
}
_BACKDROPS = (
    ((171, 205, 219), (107, 146, 168)),
    ((222, 207, 182), (176, 152, 118)),
    ((190, 211, 184), (128, 160, 128)),
    ((214, 193, 209), (160, 134, 158)),
    ((199, 203, 214), (136, 143, 163)),
)
"""Colors at the top and at the bottom of a scene."""
_INK = (24, 30, 44)
_PAPER = (246, 244, 238)


def write_video(script: Script, path: Path, comment: str) -> None:
    """Draw and encode `script` to `path` (mp4, H.264, yuv420p), with `comment` in its metadata.

    The encoder uses one thread and fixed settings, so that equal libraries write equal bytes.
    """
    with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact"}) as output:
        output.metadata["comment"] = comment
        output.metadata["title"] = script.title
        stream: Any = output.add_stream("libx264", rate=script.frames_per_second)
        stream.width, stream.height, stream.pix_fmt = script.width, script.height, "yuv420p"
        stream.codec_context.gop_size = GOP_FRAMES
        stream.codec_context.thread_count = 1
        stream.options = ENCODER
        for number, frame in enumerate(_frames(script)):
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def subtitle_lines(script: Script) -> Iterator[tuple[float, float, str]]:
    """(start, end, text) of every cue, in seconds. A script without narration has none."""
    if not script.narrated:
        return
    for scene in script.scenes:
        length = scene.end_seconds - scene.start_seconds
        cues = max(len(scene.sentences), math.floor(length / CUE_SECONDS))
        for number in range(cues):
            start = scene.start_seconds + number * length / cues
            end = scene.start_seconds + (number + 1) * length / cues - GAP_SECONDS
            yield start, end, scene.sentences[number % len(scene.sentences)]


def srt(script: Script) -> str:
    """The subtitles as an SRT file, in every second script with font tags as in published files."""
    is_tagged = int(script.video_id) % 2 == 0
    blocks = []
    for number, (start, end, text) in enumerate(subtitle_lines(script), start=1):
        line = f'<font color="white" size=".72c">{text}</font>' if is_tagged else text
        first, last = (SubripFormat.ms_to_timestamp(round(1000 * time)) for time in (start, end))
        blocks.append(f"{number}\n{first} --> {last}\n{line}\n")
    return "\n".join(blocks)


def word_lines(script: Script) -> str:
    """The subtitles as a v2 word file: one JSON object per line."""
    lines = []
    for start, end, text in subtitle_lines(script):
        words = text.split()
        step = (end - start) / len(words)
        times = [round(start + number * step, 3) for number in range(len(words) + 1)]
        for word, (first, last) in zip(words, pairwise(times), strict=True):
            lines.append(json.dumps({"text": word, "start_time": first, "end_time": last}) + "\n")
    return "".join(lines)


def draw_scene(script: Script, scene: Scene) -> Image.Image:
    """The parts of a scene that do not move, as an RGB picture."""
    width, height = script.width, script.height
    picture = _backdrop(script, script.scenes.index(scene))
    pen = ImageDraw.Draw(picture)
    _text(pen, (width / 2, height * 0.11), scene.heading, height * 0.13)
    _text(pen, (width / 2, height * 0.225), script.title, height * 0.065)
    _draw_label(picture, scene.left_sign, 0.03, 0.32)
    _draw_label(picture, scene.right_sign, 0.97, 0.32)
    is_left, is_top = scene.corner.endswith("left"), scene.corner.startswith("The top")
    across, down = 0.03 if is_left else 0.97, 0.09 if is_top else 0.92
    _draw_label(picture, scene.code, across, down, is_dark=True)
    return picture


def draw_shapes(script: Script, scene: Scene) -> Image.Image:
    """The shapes of a scene side by side, as an RGBA picture of even size."""
    size = _even(script.height * 0.13)
    step, fine = _even(size * 1.2), 4
    width = step * (scene.count - 1) + size
    canvas = Image.new("RGBA", (fine * width, fine * size), (*_PAINT[scene.colour], 0))
    for number in range(scene.count):
        _draw_shape(ImageDraw.Draw(canvas), scene, fine * number * step, fine * size)
    return canvas.resize((width, size), Image.Resampling.LANCZOS)


def shape_offset(motion: str, seconds: float) -> tuple[float, float]:
    """Position of the shapes `seconds` after the start of their scene, as shares (0–1)."""
    phase = seconds / MOTION_SECONDS % 1.0
    wave = (1 - math.cos(2 * math.pi * phase)) / 2
    return {
        "They drift to the right": (phase, 0.5),
        "They drift to the left": (1 - phase, 0.5),
        "They climb upwards": (0.5, 1 - phase),
        "They sink downwards": (0.5, phase),
        "They bob up and down": (0.5, wave),
        "They sway side to side": (wave, 0.5),
        "They move in a circle": (wave, (1 + math.sin(2 * math.pi * phase)) / 2),
        "They do not move at all": (0.5, 0.5),
    }[motion]


@dataclass(frozen=True, slots=True)
class _Sprite:
    """A picture to draw over another one: YUV 4:2:0 planes with their opacities (0–1)."""

    planes: Sequence[Plane]
    opacities: tuple[NDArray[np.float32], ...]

    @property
    def width(self) -> int:
        return len(self.planes[0][0])

    @property
    def height(self) -> int:
        return len(self.planes[0])

    def blend(self, target: Sequence[Plane], x: float, y: float) -> None:
        """Draw it into `target` at the nearest even position to the left of `x` and above `y`."""
        for plane, picture, opacity in zip(target, self.planes, self.opacities, strict=True):
            shrink = 1 if plane is target[0] else 2
            rows, columns = picture.shape
            part = plane[_even(y) // shrink :, _even(x) // shrink :][:rows, :columns]
            part[:] = (part + (picture - part.astype(np.float32)) * opacity + 0.5).astype(np.uint8)


def _frames(script: Script) -> Iterator[av.VideoFrame]:
    """Yield the frames. All are the same object: encode each before asking for the next."""
    canvas = av.VideoFrame(script.width, script.height, "yuv420p")
    target = planes_of(canvas)
    rate = script.frames_per_second
    for scene in script.scenes:
        still = [plane.copy() for plane in planes_of(_yuv(draw_scene(script, scene)))]
        shapes = _sprite(draw_shapes(script, scene))
        for number in range(scene.start_seconds * rate, scene.end_seconds * rate):
            second, step = divmod(number, rate)
            if step == 0:
                clock = _clock(script.height, second)
                clock.blend(still, (script.width - clock.width) / 2, script.height * 0.87)
            for plane, background in zip(target, still, strict=True):
                plane[:] = background
            across, down = shape_offset(scene.motion, number / rate - scene.start_seconds)
            # The shapes move in the band between the signs and the clock.
            left = script.width * 0.03 + across * (script.width * 0.94 - shapes.width)
            top = script.height * 0.41 + down * (script.height * 0.41 - shapes.height)
            shapes.blend(target, left, top)
            yield canvas


@cache
def _clock(height: int, second: int) -> _Sprite:
    size = (_even(height * 0.26), _even(height * 0.1))
    picture = Image.new("RGBA", size, (*_PAPER, 255))
    clock = f"{second // 60:02d}:{second % 60:02d}"
    _text(ImageDraw.Draw(picture), (size[0] / 2, size[1] / 2), clock, height * 0.08)
    return _sprite(picture)


def _sprite(picture: Image.Image) -> _Sprite:
    opaque: NDArray[np.float32] = np.asarray(picture)[..., 3].astype(np.float32) / np.float32(255)
    rows, columns = opaque.shape
    halved = opaque.reshape(rows // 2, 2, columns // 2, 2).mean(axis=(1, 3), dtype=np.float32)
    planes = [plane.copy() for plane in planes_of(_yuv(picture.convert("RGB")))]
    return _Sprite(planes, (opaque, halved, halved))


def _yuv(picture: Image.Image) -> av.VideoFrame:
    return av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24").reformat(
        format="yuv420p"
    )


def _backdrop(script: Script, number: int) -> Image.Image:
    top, bottom = _BACKDROPS[(number + int(script.video_id)) % len(_BACKDROPS)]
    share = np.linspace(0, 1, script.height)[:, None]
    column = (1 - share) * np.array(top) + share * np.array(bottom)
    column[int(script.height * 0.84) :] *= 0.82
    pixels = np.repeat(column[:, None, :], script.width, axis=1).astype(np.uint8)
    return Image.fromarray(pixels)


def _draw_shape(pen: ImageDraw.ImageDraw, scene: Scene, x: int, size: int) -> None:
    paint, outline = _PAINT[scene.colour], _PAPER if scene.colour == "black" else _INK
    line = max(1, size // 24)
    box = (x + line, line, x + size - line, size - line)
    match scene.shape:
        case "circles":
            pen.ellipse(box, fill=paint, outline=outline, width=line)
        case "rings":
            pen.ellipse(box, outline=outline, width=size // 4)
            inner = line // 2
            within = (box[0] + inner, box[1] + inner, box[2] - inner, box[3] - inner)
            pen.ellipse(within, outline=paint, width=size // 4 - 2 * inner)
        case "squares":
            pen.rectangle(box, fill=paint, outline=outline, width=line)
        case _:
            middle, corners = size / 2, _OUTLINES[scene.shape]
            points = [(x + middle + size * a, middle + size * b) for a, b in corners]
            pen.polygon(points, fill=paint, outline=outline, width=line)


def _round_outline(radii: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    """Corners around the center from the top, with each of `radii` in turn as the distance."""
    angles = [2 * math.pi * number / len(radii) for number in range(len(radii))]
    corners = zip(radii, angles, strict=True)
    return tuple((radius * math.sin(a), -radius * math.cos(a)) for radius, a in corners)


_THIRD = 1 / 6
_OUTLINES: dict[str, tuple[tuple[float, float], ...]] = {
    "triangles": ((0, -0.46), (0.46, 0.42), (-0.46, 0.42)),
    "diamonds": ((0, -0.48), (0.34, 0), (0, 0.48), (-0.34, 0)),
    "stars": _round_outline((0.48, 0.2) * 5),
    "hexagons": _round_outline((0.47,) * 6),
    "crosses": (
        (-_THIRD, -0.46), (_THIRD, -0.46), (_THIRD, -_THIRD), (0.46, -_THIRD),
        (0.46, _THIRD), (_THIRD, _THIRD), (_THIRD, 0.46), (-_THIRD, 0.46),
        (-_THIRD, _THIRD), (-0.46, _THIRD), (-0.46, -_THIRD), (-_THIRD, -_THIRD),
    ),
}  # fmt: skip


def _draw_label(
    picture: Image.Image, text: str, across: float, down: float, *, is_dark: bool = False
) -> None:
    """Draw a word on a small plate.

    `across` and `down` are the middle of the plate's outer edge, as shares of the picture.
    """
    pen, size = ImageDraw.Draw(picture), picture.height * 0.075
    pad, y = size * 0.4, picture.height * down
    x = picture.width * across + (pad if across < 0.5 else -pad)
    anchor = "lm" if across < 0.5 else "rm"
    paper, ink = (_INK, _PAPER) if is_dark else (_PAPER, _INK)
    box = pen.textbbox((x, y), text, font=_font(size), anchor=anchor)
    plate = (box[0] - pad, y - size * 0.75, box[2] + pad, y + size * 0.75)
    pen.rounded_rectangle(plate, radius=size * 0.3, fill=paper, outline=_INK)
    pen.text((x, y), text, fill=ink, font=_font(size), anchor=anchor)


def _text(pen: ImageDraw.ImageDraw, where: tuple[float, float], text: str, size: float) -> None:
    pen.text(where, text, fill=_INK, font=_font(size), anchor="mm")


@cache
def _font(size: float) -> ImageFont.FreeTypeFont:
    """Pillow's own font, so that pictures do not depend on system fonts."""
    font = ImageFont.load_default(size=size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TypeError("Pillow was built without FreeType; install its wheel")
    return font


def _even(value: float) -> int:
    return max(0, int(value) // 2 * 2)
