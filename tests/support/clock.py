"""The facts about made-up videos, for samplings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Clock:
    """The facts about a video that a sampling needs."""

    seconds: NDArray[np.float64]
    keyframes: NDArray[np.int64]
    duration_seconds: float

    @classmethod
    def steady(cls, frames: int, fps: float, gop: int = 30) -> "Clock":
        return cls(np.arange(frames) / fps, np.arange(0, frames, gop), frames / fps)
