"""The default backend, PyAV: it decodes only the packets that the chosen frames depend on."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.frames.backends import Backend, DecodedFrame, Missing
from videomme_pipeline.frames.plan import Span, plan, start_earlier
from videomme_pipeline.videos.container import (
    libav_errors,
    open_video,
    readable_frames,
    readable_packets,
)
from videomme_pipeline.videos.packets import IndexSource, PacketIndex

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

SEEK_BACK_SECONDS = (0.0, 1.0, 10.0)
"""Seconds to seek before the needed packet. The next value is used if a seek ends too late, as in
MPEG-TS, and after the last value the start of the file."""


class PyAVBackend(Backend):
    """Decode by plan: no packet and no picture that no chosen frame depends on."""

    package = "av"

    def decode(
        self, path: VideoFile, index: PacketIndex, frames: Sequence[int]
    ) -> Iterator[DecodedFrame | Missing]:
        if index.source is IndexSource.DECODE:
            yield from _decode_in_order(path, frames, index.frames_before)
            return
        probes = index.source is not IndexSource.MOOV
        with open_video(path, probes=probes) as (container, stream):
            decoder = _Decoder(container, stream, index)
            for span in plan(index, frames):
                yield from _decode_span(decoder, index, span)


def starts_with_idr(container: "InputContainer", stream: "VideoStream", index: PacketIndex) -> bool:
    """True if the second keyframe of an H.264 stream is an IDR picture or does not exist."""
    keys = np.flatnonzero(index.is_keyframe)
    if len(keys) < 2:
        return True
    packet = _Decoder(container, stream, index).packet(int(keys[1]))
    return _IDR in _nal_types(bytes(packet), bool(stream.codec_context.extradata))


def _decode_span(
    decoder: "_Decoder", index: PacketIndex, span: Span
) -> Iterator[DecodedFrame | Missing]:
    """Yield the frames of a span, from an earlier keyframe if the decoder omits some.

    Decoders omit frames in streams that refresh pictures gradually, without real keyframes.
    """
    missing, attempt = set(span.frames), span
    while True:
        for decoded in decoder.decode(attempt):
            missing.discard(decoded.number)
            yield decoded
        earlier = start_earlier(index, attempt)
        if not missing or decoder.damage or earlier is None:
            break
        last = max(int(index.shown[number]) for number in missing)
        attempt = Span(first=earlier.first, last=last, frames=tuple(sorted(missing)))
    reason = decoder.damage or "the decoder returns no picture for it"
    yield from (Missing(number=number, reason=reason) for number in sorted(missing))


class _Decoder:
    """An open video: its position, its decoder, and the damage found in the last span."""

    def __init__(
        self, container: "InputContainer", stream: "VideoStream", index: PacketIndex
    ) -> None:
        self._container, self._stream, self._index = container, stream, index
        self._codec = stream.codec_context
        self._by_pts = np.argsort(index.pts, kind="stable")
        self._sorted_pts = index.pts[self._by_pts]
        self._packets: Iterator[Packet[VideoStream]] = readable_packets(container, stream)
        self._next = 0
        self._is_lenient = self._codec.codec.canonical_name in _LENIENT
        self._codec.options = _DECODER_OPTIONS.get(self._codec.codec.canonical_name, {})
        self.damage: str | None = None

    def decode(self, span: Span) -> Iterator[DecodedFrame]:
        """Yield the undamaged chosen frames of `span`.

        A picture is yielded only after all pictures that it may depend on, since the decoder
        reports their damage only when it returns them.
        """
        index, damage = self._index, _Damage(self._index)
        numbers = {int(index.frame_pts[number]): number for number in span.frames}
        decode_all = index.is_keyframe[span.first : span.last + 1].copy()
        decode_all[index.shown[list(span.frames)] - span.first] = True
        highest = np.maximum.accumulate(index.pts[span.first : span.last + 1])
        waiting: list[tuple[int, int, DecodedFrame]] = []
        self._codec.flush_buffers()
        for position, packet in self._feed(span.first, span.last):
            if packet is not None:
                needed = decode_all[position - span.first]
                self._codec.skip_frame = "DEFAULT" if needed else "NONREF"
            for frame in self._send(position, packet, damage):
                shown_at = self._position(frame.pts)
                if shown_at is None or frame.pts is None:
                    continue
                if frame.is_corrupt:
                    damage.add(shown_at, "a picture that its decoder marks as corrupt")
                if frame.pts in numbers:
                    turn = round(frame.rotation / 90) * 90
                    decoded = DecodedFrame(number=numbers[frame.pts], frame=frame, rotation=turn)
                    waiting.append((shown_at, int(highest[shown_at - span.first]), decoded))
                while waiting and waiting[0][1] <= frame.pts:
                    waited_at, _, picture = waiting.pop(0)
                    if not damage.affects(waited_at):
                        yield picture
        yield from (picture for at, _, picture in waiting if not damage.affects(at))
        self._codec.skip_frame = "DEFAULT"
        self.damage = damage.first

    def packet(self, position: int) -> "Packet[VideoStream]":
        return next(self._from(position))[1]

    def _send(
        self, position: int, packet: "Packet[VideoStream] | None", damage: "_Damage"
    ) -> "list[VideoFrame]":
        """Decode a packet (None at the end), and add problems to `damage`."""
        import av  # noqa: PLC0415

        if packet is not None:
            if self._index.precedes_loss[position]:
                damage.add(position, "an unreadable part of the container")
            if packet.is_corrupt:
                damage.add(position, "a packet that its container marks as corrupt")
            if self._is_lenient and _HOLE in bytes(packet):
                damage.add(position, "a packet with a hole in it (zero bytes)")
        error_log: AbstractContextManager[list[Any]] = (
            libav_errors() if self._is_lenient else nullcontext([])
        )
        with error_log as errors:
            try:
                frames = list(self._codec.decode(packet))
            except av.FFmpegError as error:
                damage.add(position, f"a packet that does not decode ({error.strerror})")
                return []
        if errors:
            damage.add(position, f"a packet that does not decode ({errors[0][2].strip()})")
        return frames

    def _feed(self, first: int, last: int) -> "Iterator[tuple[int, Packet[VideoStream] | None]]":
        """The packets `first` … `last` with their positions, then None for the end."""
        for position, packet in self._from(first):
            yield position, packet
            if position >= last:
                break
        yield last, None

    def _from(self, first: int) -> "Iterator[tuple[int, Packet[VideoStream]]]":
        """The packets from `first` on. Seek unless `first` is the next packet.

        If a seek ends after `first`, seek to an earlier time. Packets before `first` are skipped.
        """
        if self._next == first:
            yield from self._remaining()
            return
        target = self._seek_target(first)
        earlier = [target - round(seconds / self._index.time_base) for seconds in SEEK_BACK_SECONDS]
        for timestamp in (*earlier, None):
            start_of_file = int(self._index.dts[0])
            self._container.seek(
                start_of_file if timestamp is None else timestamp,
                stream=self._stream,
                backward=True,
            )
            self._packets = readable_packets(self._container, self._stream)
            packets = self._remaining()
            start = next((item for item in packets if item[0] >= first), None)
            if start is not None and (start[0] == first or timestamp is None):
                yield start
                yield from packets
                return

    def _remaining(self) -> "Iterator[tuple[int, Packet[VideoStream]]]":
        """The packets from the current position to the end of the readable part of the file."""
        for packet in self._packets:
            position = self._position(packet.pts)
            if position is not None:
                self._next = position + 1
                yield position, packet

    def _seek_target(self, first: int) -> int:
        """The timestamp to seek to. libav interprets timestamps differently for each container."""
        index, container = self._index, self._container.format.name
        if "mp4" in container:
            # libav seeks to the last keyframe whose dts is not later than the target, or to the
            # keyframe before if its pts is later.
            following = np.flatnonzero(index.is_keyframe[first + 1 :])
            return int(index.dts[first + 1 + following[0]] - 1 if len(following) else index.dts[-1])
        if container == "mpeg":
            # The first packets after a seek have the timestamps of other packets.
            return int(index.pts[first]) - round(1 / index.time_base)
        return int(index.pts[first])

    def _position(self, pts: int | None) -> int | None:
        """The position in decoding order of the packet with this pts, or None if there is none."""
        if pts is None:
            return None
        rank = int(self._sorted_pts.searchsorted(pts))
        if rank == len(self._sorted_pts) or self._sorted_pts[rank] != pts:
            return None
        return int(self._by_pts[rank])


class _Damage:
    """The packets of a span that may decode to a wrong picture.

    After a problem, these are all up to the next keyframe, and those that are shown before it.
    """

    def __init__(self, index: PacketIndex) -> None:
        self._index = index
        self._positions: list[int] = []
        self.first: str | None = None

    def add(self, position: int, problem: str) -> None:
        if self.first is None:
            since = self._index.pts[position] - self._index.frame_pts[0]
            self.first = f"{problem} at {float(since * self._index.time_base):.3f} s"
        self._positions.append(position)

    def affects(self, position: int) -> bool:
        index = self._index
        earlier = [damaged for damaged in self._positions if damaged <= position]
        if not earlier:
            return False
        since = slice(max(earlier) + 1, position + 1)
        shown_before = index.pts[since] <= index.pts[position]
        return not np.any(index.is_keyframe[since] & shown_before)


def _decode_in_order(
    path: VideoFile, frames: Sequence[int], frames_before: int
) -> Iterator[DecodedFrame | Missing]:
    """Decode from the first packet and count the frames, as its packet index was built."""
    pending, last = set(frames), max(frames, default=-1)
    with open_video(path) as (container, stream):
        for number, frame in enumerate(readable_frames(container, stream), -frames_before):
            if number > last:
                break
            if number not in pending:
                continue
            pending.discard(number)
            if frame.is_corrupt:
                yield Missing(number=number, reason="its decoder marks it as corrupt")
            else:
                yield DecodedFrame(number=number, frame=frame, rotation=frame.rotation)
    reason = "the decoder returns no picture for it"
    yield from (Missing(number=left, reason=reason) for left in sorted(pending))


_LENIENT = {"hevc", "vp9", "av1"}
"""Codecs whose decoders return most damaged pictures without marking them.

Their damage is detected by libav's log, by the checksums that HEVC may contain, and by runs of
zeros. Random changes of VP9, and of HEVC without checksums, are not detected.
"""

_DECODER_OPTIONS = {
    "h264": {"strict": "strict"},  # reorder by the standard; the default is a guess
    "hevc": {"err_detect": "crccheck+explode"},
}

_HOLE = bytes(32)
"""Coded data never contains this many zeros, but a failed download or disk block does."""

_IDR = 5


def _nal_types(data: bytes, has_extradata: bool) -> set[int]:
    """The NAL unit types in an H.264 packet, with lengths (mp4, mkv) or start codes."""
    if data[:3] == b"\0\0\1" or data[:4] == b"\0\0\0\1" or not has_extradata:
        return {part[0] & 31 for part in data.split(b"\0\0\1")[1:] if part}
    types, offset = set(), 0
    while offset + 5 <= len(data):
        types.add(data[offset + 4] & 31)
        offset += 4 + int.from_bytes(data[offset : offset + 4], "big")
    return types
