"""The plan decodes each needed packet once and starts at an early enough keyframe."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from videomme_pipeline.frames.plan import Span, plan, start_earlier
from videomme_pipeline.videos.packets import IndexSource, PacketIndex


def index_of(shown_at: list[int], keys: set[int]) -> PacketIndex:
    """Packets in decoding order that are shown at the given times; `keys` are positions."""
    count = len(shown_at)
    return PacketIndex(
        pts=np.array(shown_at, np.int64),
        dts=np.arange(count),
        size=np.full(count, 100),
        is_keyframe=np.array([i in keys for i in range(count)]),
        is_hidden=np.zeros(count, np.bool_),
        precedes_loss=np.zeros(count, np.bool_),
        time_base=Fraction(1, 10),
        last_duration=1,
        claimed_seconds=None,
        source=IndexSource.DEMUX,
    )


def ranges(index: PacketIndex, frames: list[int]) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in plan(index, frames)]


def test_frames_of_one_gop_share_its_packets() -> None:
    index = index_of(list(range(30)), {0, 10, 20})
    assert ranges(index, [13, 11, 17]) == [(10, 17)]


def test_gops_without_a_wanted_frame_are_skipped() -> None:
    index = index_of(list(range(30)), {0, 10, 20})
    assert ranges(index, [2, 25]) == [(0, 2), (20, 25)]


def test_keyframes_alone_cost_one_packet_each() -> None:
    index = index_of(list(range(30)), {0, 10, 20})
    assert ranges(index, [0, 10, 20]) == [(0, 0), (10, 10), (20, 20)]


def test_adjacent_packets_are_one_span() -> None:
    index = index_of(list(range(30)), {0, 10, 20})
    assert ranges(index, [9, 10]) == [(0, 10)]


def test_a_picture_shown_before_its_keyframe_needs_the_previous_keyframe() -> None:
    leading = index_of([0, 1, 2, 5, 3, 4, 6], {0, 3})
    assert ranges(leading, [3]) == [(0, 4)]
    assert ranges(leading, [5]) == [(3, 3)]


def test_a_span_at_the_first_packet_cannot_start_earlier() -> None:
    index = index_of(list(range(30)), {0, 10, 20})
    (span,) = plan(index, [25])
    earlier = start_earlier(index, span)
    assert earlier is not None
    assert earlier.first == 10
    first = start_earlier(index, earlier)
    assert first is not None
    assert first.first == 0
    assert start_earlier(index, first) is None


@given(st.data())
def test_every_wanted_frame_is_in_one_span_that_starts_at_a_keyframe(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 60))
    gop = data.draw(st.integers(1, 20))
    pts = []
    for start in range(0, count, 3):  # reordered as in streams with two B-frames
        group = list(range(start, min(start + 3, count)))
        pts += group[-1:] + group[:-1]
    index = index_of(pts, {i for i in range(count) if i % gop == 0})
    chosen = data.draw(st.lists(st.integers(0, count - 1), min_size=1))
    spans = plan(index, chosen)
    frames = [frame for span in spans for frame in span.frames]
    assert sorted(frames) == sorted(set(chosen))
    for earlier, later in pairwise(spans):
        assert earlier.last < later.first
    for span in spans:
        assert index.is_keyframe[span.first]
        assert all(span.first <= index.shown[frame] <= span.last for frame in span.frames)


def test_an_index_from_decoding_is_decoded_from_its_first_packet() -> None:
    """Its packets are not in the container's index, so nothing can be skipped."""
    index = replace(index_of(list(range(30)), {0, 10, 20}), source=IndexSource.DECODE)
    assert plan(index, [25, 12, 12]) == [Span(first=0, last=29, frames=(12, 25))]
    assert plan(index, []) == []


def test_a_span_ends_before_a_packet_that_is_not_needed() -> None:
    index = index_of(list(range(30)), {0, 10, 20})
    assert ranges(index, [8, 10]) == [(0, 8), (10, 10)]


def test_packets_before_the_first_keyframe_are_decoded_from_the_start() -> None:
    late = index_of(list(range(10)), {3})
    assert ranges(late, [2]) == [(0, 2)]
    assert ranges(late, [5]) == [(3, 5)]
    leading = index_of([5, 6, 7, 9, 8], {3})
    assert ranges(leading, [3]) == [(0, 4)]
    (span,) = plan(late, [5])
    assert start_earlier(late, span) == Span(first=0, last=5, frames=(5,))


def test_the_nearest_usable_keyframe_is_used() -> None:
    """Two keyframes follow the picture in order of time, and the third one is before it."""
    index = index_of([0, 1, 4, 5, 3], {1, 2, 3})
    assert ranges(index, [2]) == [(1, 4)]
    assert ranges(index_of([0, 1, 4, 3], {0, 1, 2}), [2]) == [(1, 3)]


def test_starting_earlier_keeps_the_end_and_the_frames() -> None:
    index = index_of(list(range(30)), {0, 10, 20})
    (span,) = plan(index, [25])
    assert start_earlier(index, span) == Span(first=10, last=25, frames=(25,))
