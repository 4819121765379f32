"""The frames of one video under one sampling, and the files that keep them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture: when it was wanted, when it is really shown, and its encoded bytes.

    Times are in seconds from the first shown frame. `index` counts shown frames from 0.
    """

    requested_seconds: float
    pts_seconds: float
    index: int
    is_keyframe: bool
    width: int
    height: int
    picture: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSet:
    """All frames of one video under one sampling, in time order."""

    video_hash: str
    fingerprint: str
    media_type: str
    frames: tuple[Frame, ...]
