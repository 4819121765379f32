"""Which packets to decode for the wanted frames: pure maths on the packet index.

A compressed picture needs others before it, back to a keyframe. The plan takes, for each wanted
frame, the last keyframe shown no later than it, and decodes from there in decoding order, once
for all wanted frames that share that keyframe. How packets are fed belongs to `frames.readers`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from videomme_pipeline.videos.mp4 import Integers
from videomme_pipeline.videos.packets import IndexSource, PacketIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Packets to feed in one go: positions `first` … `last` in decoding order, both included.

    `first` is a keyframe; `frames` are the numbers of the wanted frames that come out.
    """

    first: int
    last: int
    frames: tuple[int, ...]

    @property
    def packet_count(self) -> int:
        return self.last - self.first + 1


def plan(index: PacketIndex, frames: Iterable[int]) -> list[Stretch]:
    """The stretches that give `frames`, in decoding order, none overlapping another.

    The keyframe is the last one *shown* no later than the wanted frame, among those decoded no
    later: a picture that is decoded after a keyframe but shown before it (open GOP, HEVC
    leading pictures) needs the keyframe before.
    """
    wanted = np.array(sorted(set(frames)), np.int64)
    if not len(wanted):
        return []
    if index.source is IndexSource.DECODE:
        return [Stretch(first=0, last=len(index.pts) - 1, frames=tuple(wanted.tolist()))]
    keys = np.flatnonzero(index.is_keyframe)
    positions = index.shown[wanted].tolist()
    firsts = [_key_before(index, keys, position) for position in positions]
    stretches: list[Stretch] = []
    for first, position, number in sorted(zip(firsts, positions, wanted.tolist(), strict=True)):
        before = stretches[-1] if stretches else None
        if before is not None and first <= before.last + 1:
            stretches[-1] = Stretch(
                first=before.first,
                last=max(before.last, position),
                frames=(*before.frames, number),
            )
        else:
            stretches.append(Stretch(first=first, last=position, frames=(number,)))
    return stretches


def start_earlier(index: PacketIndex, stretch: Stretch) -> Stretch | None:
    """The same stretch from one keyframe earlier, None when it starts at the first packet."""
    if stretch.first == 0:
        return None
    keys = np.flatnonzero(index.is_keyframe[: stretch.first])
    first = int(keys[-1]) if len(keys) else 0
    return Stretch(first=first, last=stretch.last, frames=stretch.frames)


def packets_needed(stretches: Iterable[Stretch]) -> int:
    """How many packets a plan feeds to the decoder."""
    return sum(stretch.packet_count for stretch in stretches)


def share_out(stretches: Sequence[Stretch], parts: int) -> list[tuple[int, ...]]:
    """The frames of a plan in at most `parts` runs that need about as many packets each."""
    total = packets_needed(stretches)
    shares: list[list[int]] = [[] for _ in range(parts)]
    before = 0
    for stretch in stretches:
        middle = before + stretch.packet_count / 2
        shares[min(parts - 1, int(middle * parts / total))].extend(stretch.frames)
        before += stretch.packet_count
    return [tuple(share) for share in shares if share]


def _key_before(index: PacketIndex, keys: Integers, position: int) -> int:
    """The position of the keyframe to start from for the packet at `position`."""
    place = int(np.searchsorted(keys, position, side="right")) - 1
    while place >= 0 and index.pts[keys[place]] > index.pts[position]:
        place -= 1
    return int(keys[place]) if place >= 0 else 0
