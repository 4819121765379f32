"""The plan: which packets to decode for the chosen frames, computed from the packet index.

A compressed picture depends on earlier ones, back to a keyframe. For each chosen frame, the plan
starts at the last keyframe that is not shown later, once for all frames with the same keyframe.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from videomme_pipeline.videos.packets import IndexSource, Integers, PacketIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Packets to feed without a seek: positions `first` … `last` in decoding order, inclusive.

    `first` is a keyframe. `frames` are the numbers of the chosen frames among the packets.
    """

    first: int
    last: int
    frames: tuple[int, ...]


def plan(index: PacketIndex, frames: Iterable[int]) -> list[Span]:
    """The spans that contain `frames`, in decoding order, without overlap.

    The keyframe of a frame is the last one that is neither decoded nor shown after the frame. A
    picture that is decoded after a keyframe but shown before it (open GOP, HEVC leading pictures)
    depends on the previous keyframe.
    """
    numbers = np.array(sorted(set(frames)), np.int64)
    if not len(numbers):
        return []
    if index.source is IndexSource.DECODE:
        return [Span(first=0, last=len(index.pts) - 1, frames=tuple(numbers.tolist()))]
    keys = np.flatnonzero(index.is_keyframe)
    positions = index.shown[numbers].tolist()
    firsts = [_key_before(index, keys, position) for position in positions]
    spans: list[Span] = []
    for first, position, number in sorted(zip(firsts, positions, numbers.tolist(), strict=True)):
        if spans and first <= spans[-1].last + 1:
            previous = spans.pop()
            frames = (*previous.frames, number)
            last = max(previous.last, position)
            spans.append(Span(first=previous.first, last=last, frames=frames))
        else:
            spans.append(Span(first=first, last=position, frames=(number,)))
    return spans


def start_earlier(index: PacketIndex, span: Span) -> Span | None:
    """The same span from one keyframe earlier, or None if it starts at the first packet."""
    if span.first == 0:
        return None
    keys = np.flatnonzero(index.is_keyframe[: span.first])
    return Span(first=int(keys[-1]) if len(keys) else 0, last=span.last, frames=span.frames)


def _key_before(index: PacketIndex, keys: Integers, position: int) -> int:
    """Position of the keyframe, one of `keys`, to start from for the packet at `position`."""
    key = int(np.searchsorted(keys, position, side="right")) - 1
    while key >= 0 and index.pts[keys[key]] > index.pts[position]:
        key -= 1
    return int(keys[key]) if key >= 0 else 0
