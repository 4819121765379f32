"""Backends: a video, its packet index and frame numbers in; decoded frames out.

All give the frames that decoding the whole stream in order would give, or say that they cannot
(`can_read`). They run in one thread and hold one frame at a time: videos are spread over
processes by `frames.decode`. Pictures are drawn in `frames.jpeg`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videomme_pipeline.frames.plan import Stretch, plan, start_earlier
from videomme_pipeline.frames.sampling import Backend
from videomme_pipeline.videos.container import libav_errors, open_video
from videomme_pipeline.videos.packets import IndexSource, PacketIndex

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

SEEK_BACK_SECONDS = (0.0, 1.0, 10.0)
"""How much earlier to seek when a seek landed late (MPEG-TS); then from the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A frame as the decoder gave it; turned counter-clockwise by `rotation` it is upright."""

    number: int
    frame: "VideoFrame"
    rotation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A wanted frame that does not decode to the right picture, and what was found."""

    number: int
    reason: str


Reader = Callable[[Path, PacketIndex, Sequence[int]], Iterator[Decoded | Missing]]


def read(
    path: Path, index: PacketIndex, frames: Sequence[int], backend: Backend = Backend.PYAV
) -> Iterator[Decoded | Missing]:
    """Each of `frames` once, decoded or missing; nearly in order of time.

    Only a frame that took a second attempt comes later than its turn.

    Raises:
        VideoUnreadableError: when the file cannot be opened at all.
    """
    return _READERS[backend](path, index, frames)


def why_not(backend: Backend, path: Path, index: PacketIndex) -> str | None:
    """Why `backend` would not give the right frames of this video; None when it would.

    The faults were found by comparing each backend with a full sequential decode on files of
    every kind (`tests/frames/test_backends.py` keeps them in view).
    """
    if backend is Backend.PYAV:
        return None
    if find_spec(backend.value) is None:
        return f"{backend} is not installed"
    try:
        import_module(backend.value)
    except (ImportError, OSError, RuntimeError) as error:  # such as a missing FFmpeg
        return f"{backend} does not load: {str(error).splitlines()[0]}"
    if index.source is IndexSource.DECODE:
        return "its packets carry no usable timestamps"
    with open_video(path) as (container, stream):
        faults = _FAULTS[backend](container, stream, index)
        return next((said for said, found in faults if found), None)


Fault = tuple[str, bool]


def _faults_of_decord(
    container: "InputContainer", stream: "VideoStream", index: PacketIndex
) -> Iterator[Fault]:
    codec = stream.codec_context.name
    yield f"decord is exact on H.264 alone, and this is {codec}", codec != "h264"
    is_ts = container.format.name == "mpegts"
    yield "decord does not return from an MPEG transport stream", is_ts
    shifted = bool(index.is_hidden.any() or index.frame_pts[0] != 0)
    yield "decord does not apply its edit list or start time", shifted
    is_open = not _Feeder(container, stream, index).starts_with_idr()
    yield "decord decodes wrong pictures after keyframes that are no IDR (open GOP)", is_open


def _faults_of_torchcodec(
    container: "InputContainer", stream: "VideoStream", index: PacketIndex
) -> Iterator[Fault]:
    name = container.format.name
    is_other = "mp4" not in name and "matroska" not in name
    yield f"torchcodec is exact on mp4 and Matroska alone, and this is {name}", is_other
    is_h264 = stream.codec_context.name == "h264"
    is_open = is_h264 and not _Feeder(container, stream, index).starts_with_idr()
    yield "torchcodec decodes wrong pictures after keyframes that are no IDR", is_open


_FAULTS = {Backend.DECORD: _faults_of_decord, Backend.TORCHCODEC: _faults_of_torchcodec}


# PyAV, planned.


def read_planned(
    path: Path, index: PacketIndex, frames: Sequence[int]
) -> Iterator[Decoded | Missing]:
    """Decode no more than the plan says, and no picture that nothing depends on."""
    if index.source is IndexSource.DECODE:
        yield from _read_in_order(path, frames)
        return
    probes = index.source is not IndexSource.MOOV
    with open_video(path, probes=probes) as (container, stream):
        feeder = _Feeder(container, stream, index)
        for stretch in plan(index, frames):
            yield from _read_stretch(feeder, index, stretch)


def _read_stretch(
    feeder: "_Feeder", index: PacketIndex, stretch: Stretch
) -> Iterator[Decoded | Missing]:
    """The frames of a stretch; those that do not come, from a keyframe earlier once more.

    A stream that refreshes its picture bit by bit (no real keyframes) needs that.
    """
    missing = set(stretch.frames)
    for decoded in feeder.decode(stretch):
        missing.discard(decoded.number)
        yield decoded
    attempt: Stretch | None = stretch
    while missing and not feeder.damage and (attempt := start_earlier(index, attempt or stretch)):
        last = max(int(index.shown[number]) for number in missing)
        attempt = Stretch(first=attempt.first, last=last, frames=tuple(sorted(missing)))
        for decoded in feeder.decode(attempt):
            missing.discard(decoded.number)
            yield decoded
    reason = feeder.damage or "the decoder gives no picture for it"
    yield from (Missing(number=number, reason=reason) for number in sorted(missing))


class _Feeder:
    """One open video and its decoder: where it stands, and what damage the last stretch showed."""

    def __init__(
        self, container: "InputContainer", stream: "VideoStream", index: PacketIndex
    ) -> None:
        self._container, self._stream, self._index = container, stream, index
        self._codec = stream.codec_context
        self._by_pts = np.argsort(index.pts, kind="stable")
        self._sorted_pts = index.pts[self._by_pts]
        self._packets: Iterator[Packet[VideoStream]] = container.demux(stream)
        self._next = 0
        self._is_trusting = self._codec.codec.canonical_name in _TRUSTING
        self._codec.options = _DECODER_OPTIONS.get(self._codec.codec.canonical_name, {})
        self.damage: str | None = None

    def decode(self, stretch: Stretch) -> Iterator[Decoded]:
        """The wanted frames of `stretch` that come out sound.

        A picture is held back until those that it may depend on have come out too, since a
        decoder tells of a damaged picture only then.
        """
        index, damage = self._index, _Damage(self._index)
        numbers = {int(index.frame_pts[number]): number for number in stretch.frames}
        decode_all = index.is_keyframe[stretch.first : stretch.last + 1].copy()
        decode_all[index.shown[list(stretch.frames)] - stretch.first] = True
        highest = np.maximum.accumulate(index.pts[stretch.first : stretch.last + 1])
        held: list[tuple[int, int, VideoFrame]] = []
        self._codec.flush_buffers()
        for position, packet in self._feed(stretch.first, stretch.last):
            if packet is not None:
                if index.precedes_loss[position]:
                    damage.found(position, "a part of the container that cannot be read")
                needed = decode_all[position - stretch.first]
                self._codec.skip_frame = "DEFAULT" if needed else "NONREF"
            frames = self._send(position, packet, damage)
            for frame in frames:
                place = self._position(frame.pts)
                if place is None or frame.pts is None:
                    continue
                if frame.is_corrupt:
                    damage.found(place, "a picture that its decoder calls corrupt")
                if frame.pts in numbers:
                    held.append((place, int(highest[place - stretch.first]), frame))
                while held and held[0][1] <= frame.pts:
                    yield from self._sound(held.pop(0), numbers, damage)
        for item in held:
            yield from self._sound(item, numbers, damage)
        self._codec.skip_frame = "DEFAULT"
        self.damage = damage.first

    def starts_with_idr(self) -> bool:
        """Whether the second keyframe of an H.264 stream is an IDR picture (or there is none)."""
        keys = np.flatnonzero(self._index.is_keyframe)
        if len(keys) < 2:
            return True
        packet = next(p for _, p in self._feed(int(keys[1]), int(keys[1])) if p is not None)
        return _IDR in _nal_types(bytes(packet), bool(self._codec.extradata))

    def _send(
        self, position: int, packet: "Packet[VideoStream] | None", damage: "_Damage"
    ) -> "list[VideoFrame]":
        """What comes out for a packet, or at the end for None; trouble goes to `damage`."""
        import av  # noqa: PLC0415

        if packet is not None and packet.is_corrupt:
            damage.found(position, "a packet that its container calls corrupt")
        if packet is not None and self._is_trusting and _HOLE in bytes(packet):
            damage.found(position, "a packet with a hole in it (zero bytes)")
        listening: AbstractContextManager[list[Any]] = (
            libav_errors() if self._is_trusting else nullcontext([])
        )
        with listening as errors:
            try:
                frames = list(self._codec.decode(packet))
            except av.FFmpegError as error:
                damage.found(position, f"a packet that does not decode ({error.strerror})")
                return []
        if errors:
            damage.found(position, f"a packet that does not decode ({errors[0][2].strip()})")
        return frames

    def _sound(
        self, item: "tuple[int, int, VideoFrame]", numbers: Mapping[int, int], damage: "_Damage"
    ) -> Iterator[Decoded]:
        position, _, frame = item
        if frame.pts is not None and not damage.touches(position):
            yield Decoded(
                number=numbers[frame.pts], frame=frame, rotation=round(frame.rotation / 90) * 90
            )

    def _feed(self, first: int, last: int) -> "Iterator[tuple[int, Packet[VideoStream] | None]]":
        """The packets `first` … `last` with their positions, then None: the end."""
        for position, packet in self._from(first):
            yield position, packet
            if position >= last:
                break
        yield last, None

    def _from(self, first: int) -> "Iterator[tuple[int, Packet[VideoStream]]]":
        """Packets from `first` on, by reading on where the file stands or by seeking.

        A seek that lands late is tried again from earlier; what comes before `first` is skipped.
        """
        if self._next == first:
            yield from self._here()
            return
        for earlier in (*SEEK_BACK_SECONDS, None):
            self._seek(first, earlier)
            packets = self._here()
            found = next((item for item in packets if item[0] >= first), None)
            if found is not None and (found[0] == first or earlier is None):
                yield found
                yield from packets
                return

    def _here(self) -> "Iterator[tuple[int, Packet[VideoStream]]]":
        """Packets from where the file stands; ends where nothing more can be read."""
        import av  # noqa: PLC0415

        while True:
            try:
                packet = next(self._packets)
            except (StopIteration, av.FFmpegError):
                return
            position = self._position(packet.pts)
            if position is not None:
                self._next = position + 1
                yield position, packet

    def _seek(self, first: int, earlier_seconds: float | None) -> None:
        """So that the packet `first`, a keyframe, comes next, where the container allows it."""
        if earlier_seconds is None:
            target = int(self._index.dts[0])
        else:
            target = self._seek_target(first) - round(earlier_seconds / self._index.time_base)
        self._container.seek(target, stream=self._stream, backward=True)
        self._packets = self._container.demux(self._stream)

    def _seek_target(self, first: int) -> int:
        """What to ask libav for, by what each of its containers compares it with."""
        index, container = self._index, self._container.format.name
        if "mp4" in container:
            # The last keyframe decoded by then, or the one before if that is shown later.
            following = np.flatnonzero(index.is_keyframe[first + 1 :])
            return int(index.dts[first + 1 + following[0]] - 1 if len(following) else index.dts[-1])
        if container == "mpeg":
            # The first packets behind a seek carry the timestamps of others.
            return int(index.pts[first]) - round(1 / index.time_base)
        return int(index.pts[first])

    def _position(self, pts: int | None) -> int | None:
        """The position in decoding order of the packet with this pts."""
        if pts is None:
            return None
        place = int(self._sorted_pts.searchsorted(pts))
        if place == len(self._sorted_pts) or self._sorted_pts[place] != pts:
            return None
        return int(self._by_pts[place])


class _Damage:
    """Which packets of a stretch may give a wrong picture.

    From the first trouble on, every picture is suspect up to the next keyframe that decodes,
    and those that are shown before that keyframe although decoded after it.
    """

    def __init__(self, index: PacketIndex) -> None:
        self._index = index
        self._found: list[int] = []
        self.first: str | None = None

    def found(self, position: int, what: str) -> None:
        if self.first is None:
            since = self._index.pts[position] - self._index.frame_pts[0]
            self.first = f"{what} at {float(since * self._index.time_base):.3f} s"
        self._found.append(position)

    def touches(self, position: int) -> bool:
        return any(
            trouble <= position and not self._is_clean_between(trouble, position)
            for trouble in self._found
        )

    def _is_clean_between(self, trouble: int, position: int) -> bool:
        keys = trouble + 1 + np.flatnonzero(self._index.is_keyframe[trouble + 1 : position + 1])
        return bool(np.any(self._index.pts[keys] <= self._index.pts[position]))


def _read_in_order(path: Path, frames: Sequence[int]) -> Iterator[Decoded | Missing]:
    """Decode from the first packet and count, as the index of such a stream was made."""
    import av  # noqa: PLC0415

    wanted, last = set(frames), max(frames, default=-1)
    number = 0
    with open_video(path) as (container, stream):
        for packet in container.demux(stream):
            try:
                decoded = packet.decode()
            except av.FFmpegError:
                continue
            for frame in decoded:
                if number in wanted:
                    wanted.discard(number)
                    if frame.is_corrupt:
                        yield Missing(number=number, reason="its decoder calls it corrupt")
                    else:
                        yield Decoded(number=number, frame=frame, rotation=frame.rotation)
                number += 1
            if number > last:
                break
    reason = "the decoder gives no picture for it"
    yield from (Missing(number=left, reason=reason) for left in sorted(wanted))


_TRUSTING = {"hevc", "vp9", "av1"}
"""Codecs whose decoders give most damaged pictures as sound.

What shows damage all the same: libav's log, the checksums that HEVC may carry, and zeros. Noise
amid the data of a picture stays unseen in VP9 and in HEVC without checksums: there, any bits
mean some picture.
"""

_DECODER_OPTIONS = {
    "h264": {"strict": "strict"},  # reorder as the standard says, rather than by a guess
    "hevc": {"err_detect": "crccheck+explode"},
}

_HOLE = bytes(32)
"""So many zeros never stand in coded data, but where a download or a disk left a hole."""

_IDR = 5


def _nal_types(data: bytes, has_extradata: bool) -> set[int]:
    """The NAL unit types in an H.264 packet, with lengths (mp4, mkv) or start codes."""
    if data[:3] == b"\0\0\1" or data[:4] == b"\0\0\0\1" or not has_extradata:
        return {part[0] & 31 for part in data.split(b"\0\0\1")[1:] if part}
    types, place = set(), 0
    while place + 5 <= len(data):
        types.add(data[place + 4] & 31)
        place += 4 + int.from_bytes(data[place : place + 4], "big")
    return types


# decord.


def read_decord(
    path: Path,
    index: PacketIndex,  # noqa: ARG001
    frames: Sequence[int],
) -> Iterator[Decoded | Missing]:
    """One frame at a time: a batch would hold all of them in memory. It turns them upright itself.

    decord 0.6 counts frames as the index does where `why_not` lets it; it keeps reading ahead,
    so it should run in a child process with a time limit (`frames.decode` does).
    """
    import av  # noqa: PLC0415
    import decord  # noqa: PLC0415

    reader = decord.VideoReader(str(path), num_threads=1)
    for number in frames:
        if number >= len(reader):
            yield Missing(number=number, reason=f"decord counts {len(reader)} frames")
            continue
        try:
            picture = reader[number].asnumpy()
        except decord.DECORDError as error:
            yield Missing(number=number, reason=f"decord: {str(error).splitlines()[0]}")
            continue
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        yield Decoded(number=number, frame=frame, rotation=0)


# torchcodec.


def read_torchcodec(
    path: Path,
    index: PacketIndex,  # noqa: ARG001
    frames: Sequence[int],
) -> Iterator[Decoded | Missing]:
    """By exact seeking; it turns the picture upright itself."""
    import av  # noqa: PLC0415
    from torchcodec.decoders import VideoDecoder  # noqa: PLC0415

    decoder = VideoDecoder(
        str(path), seek_mode="exact", num_ffmpeg_threads=1, dimension_order="NHWC"
    )
    for number in frames:
        try:
            picture = decoder.get_frame_at(number).data.numpy()
        except (RuntimeError, IndexError) as error:
            yield Missing(number=number, reason=f"torchcodec: {str(error).splitlines()[0]}")
            continue
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        yield Decoded(number=number, frame=frame, rotation=0)


_READERS: dict[Backend, Reader] = {
    Backend.PYAV: read_planned,
    Backend.DECORD: read_decord,
    Backend.TORCHCODEC: read_torchcodec,
}
