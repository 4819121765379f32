"""The facts about made-up videos, for samplings."""

import numpy as np

from videomme_pipeline.videos.packets import FrameTimes


def steady(frames: int, fps: float, gop: int = 30) -> FrameTimes:
    """The times of `frames` frames at a constant rate, with a keyframe every `gop` frames."""
    return FrameTimes(np.arange(frames) / fps, np.arange(0, frames, gop), frames / fps)
