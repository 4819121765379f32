"""Made-up subtitle files in the shape of Video-MME's, and the frames of videos of any length."""

import random

from videomme_pipeline.subtitles.align import SampledFrames

WORDS = ("we", "open", "a", "red", "umbrella", "slowly")
_CUE_EVERY_SECONDS = 3
_CUE_MILLISECONDS = 2_900
_FPS = 25.0


def srt(length_seconds: int, draw: random.Random) -> bytes:
    """A subtitle file with a cue of eight words every three seconds, with YouTube's font tags."""
    cues = []
    starts = range(0, length_seconds - _CUE_EVERY_SECONDS, _CUE_EVERY_SECONDS)
    for number, start in enumerate(starts, 1):
        words = " ".join(draw.choices(WORDS, k=8))
        cues.append(
            f"{number}\n{_time(1_000 * start)} --> {_time(1_000 * start + _CUE_MILLISECONDS)}\n"
            f'<font color="white" size=".72c">{words}</font>\n'
        )
    return "\n".join(cues).encode()


def sampled(length_seconds: int, count: int) -> SampledFrames:
    """`count` frames at the middle of equal parts of a video with 25 frames per second."""
    total = int(length_seconds * _FPS)
    indices = tuple(
        min(total - 1, (2 * place + 1) * total // (2 * count)) for place in range(count)
    )
    return SampledFrames(
        seconds=tuple(index / _FPS for index in indices),
        indices=indices,
        fps=_FPS,
        video_end_seconds=float(length_seconds),
    )


def _time(milliseconds: int) -> str:
    seconds, milliseconds = divmod(milliseconds, 1_000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02},{milliseconds:03}"
