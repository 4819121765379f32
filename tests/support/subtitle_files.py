"""Made-up subtitle files in the shape of Video-MME's, and the frames that they are aligned to."""

import random

import pysrt

from videomme_pipeline.subtitles.align import SampledFrames


def srt_file(length_seconds: int, draw: random.Random) -> bytes:
    """An SRT file with a cue every three seconds, in the format of YouTube's subtitles."""
    items = []
    for number, start in enumerate(range(0, length_seconds - 3, 3), 1):
        words = " ".join(draw.choices(("we", "open", "a", "red", "umbrella", "slowly"), k=8))
        text = f'<font color="white" size=".72c">{words}</font>'
        items.append(str(pysrt.SubRipItem(number, 1000 * start, 1000 * start + 2_900, text)))
    return "\n".join(items).encode()


def sampled_frames(length_seconds: int, count: int) -> SampledFrames:
    """`count` frames at the midpoints of equal parts of a video with 25 frames per second."""
    fps = 25.0
    total = int(length_seconds * fps)
    indices = tuple(
        min(total - 1, (2 * number + 1) * total // (2 * count)) for number in range(count)
    )
    return SampledFrames(
        seconds=tuple(index / fps for index in indices),
        indices=indices,
        fps=fps,
        video_end_seconds=float(length_seconds),
    )
