"""The plan: which packets to decode for the chosen frames, computed from the packet index.

A compressed picture depends on earlier ones, back to a keyframe. For each chosen frame, the plan
starts at the last keyframe that is not shown later than the frame. All chosen frames with the same
keyframe are decoded together, in decoding order.
"""

from collections.abc import Iterable, Sequence
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

    @property
    def packet_count(self) -> int:
        return self.last - self.first + 1


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
        previous = spans[-1] if spans else None
        if previous is not None and first <= previous.last + 1:
            spans[-1] = Span(
                first=previous.first,
                last=max(previous.last, position),
                frames=(*previous.frames, number),
            )
        else:
            spans.append(Span(first=first, last=position, frames=(number,)))
    return spans


def start_earlier(index: PacketIndex, span: Span) -> Span | None:
    """The same span from one keyframe earlier, or None if it starts at the first packet."""
    if span.first == 0:
        return None
    keys = np.flatnonzero(index.is_keyframe[: span.first])
    first = int(keys[-1]) if len(keys) else 0
    return Span(first=first, last=span.last, frames=span.frames)


def packets_needed(spans: Iterable[Span]) -> int:
    """The number of packets that a plan feeds to the decoder."""
    return sum(span.packet_count for span in spans)


def split_frames(spans: Sequence[Span], parts: int) -> list[tuple[int, ...]]:
    """The frames of a plan in at most `parts` parts that need about as many packets each."""
    total = packets_needed(spans)
    split: list[list[int]] = [[] for _ in range(parts)]
    packets_before = 0
    for span in spans:
        middle = packets_before + span.packet_count / 2
        split[min(parts - 1, int(middle * parts / total))].extend(span.frames)
        packets_before += span.packet_count
    return [tuple(frames) for frames in split if frames]


def _key_before(index: PacketIndex, keys: Integers, position: int) -> int:
    """Position of the keyframe to start from for the packet at `position`.

    `keys` are the positions of all keyframes in decoding order, ascending.
    """
    key = int(np.searchsorted(keys, position, side="right")) - 1
    while key >= 0 and index.pts[keys[key]] > index.pts[position]:
        key -= 1
    return int(keys[key]) if key >= 0 else 0
