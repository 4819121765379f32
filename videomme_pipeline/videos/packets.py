"""The packet index of a video: when each compressed picture is shown, and where decoding can start.

Read once per video content and kept; nothing is decoded for it, except for streams that carry
no usable timestamps. For an mp4 the index comes straight from the sample tables of its `moov`
box (ISO/IEC 14496-12), which takes milliseconds for an hour; every other container is demuxed
once with all other streams discarded. Which pictures to take is said in `frames.sampling`.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from upath import UPath

from videomme_pipeline.errors import StorageError, VideoUnreadableError
from videomme_pipeline.store import publish, read_table

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

INDEX_VERSION = 2


class IndexSource(StrEnum):
    """What the timestamps were read from."""

    MOOV = "moov"
    DEMUX = "demux"
    DECODE = "decode"
    """Packets carry no usable timestamps: the stream was decoded from end to end, and can only
    be decoded that way."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PacketIndex:
    """Every packet of one video stream, in decoding order, and the shown frames they give.

    `pts` and `dts` are in units of `time_base`. Hidden packets are decoded for the sake of
    others but never shown (before the start of an edit). A packet `precedes_loss` when the
    container is damaged right after it: it may be cut, and others may be missing. A *frame* is
    a shown packet; frames are numbered from 0 in the order of their pts. `claimed_seconds` is
    how long the container says the stream is; `whole` packets alone are in the index, so that a
    file that was cut off shows as a difference between the two. `last_duration` is that of the
    last frame.
    """

    pts: Integers
    dts: Integers
    sizes: Integers
    is_keyframe: Flags
    is_hidden: Flags
    precedes_loss: Flags
    time_base: Fraction
    last_duration: int
    claimed_seconds: float | None
    source: IndexSource

    @cached_property
    def shown(self) -> Integers:
        """Positions (in decoding order) of the packets that are shown, in order of pts."""
        positions = np.flatnonzero(~self.is_hidden)
        return positions[np.argsort(self.pts[positions], kind="stable")]

    @cached_property
    def frame_pts(self) -> Integers:
        """The pts of each frame."""
        return self.pts[self.shown]

    @cached_property
    def seconds(self) -> Floats:
        """When each frame is shown, in seconds from the first shown frame."""
        if not self.frame_count:
            return np.empty(0)
        return np.asarray((self.frame_pts - self.frame_pts[0]) * float(self.time_base))

    @cached_property
    def keyframes(self) -> Integers:
        """The numbers of the frames that are keyframes."""
        return np.flatnonzero(self.is_keyframe[self.shown])

    @property
    def frame_count(self) -> int:
        return len(self.shown)

    @property
    def duration_seconds(self) -> float:
        """From the first shown frame to the end of the last one that the file holds whole."""
        if not self.frame_count:
            return 0.0
        return float(self.seconds[-1] + self.last_duration * float(self.time_base))

    @property
    def average_fps(self) -> float:
        return self.frame_count / self.duration_seconds if self.duration_seconds else 0.0

    @property
    def start_seconds(self) -> float:
        """The container's time of the first shown frame."""
        return float(self.frame_pts[0] * self.time_base) if self.frame_count else 0.0

    @property
    def missing_seconds(self) -> float:
        """How much of what the container claims is not in the file; 0 for a whole file.

        Less than a second, or less than two percent, is how muxers round.
        """
        missing = (self.claimed_seconds or 0.0) - self.duration_seconds
        return missing if missing > max(1.0, 0.02 * (self.claimed_seconds or 0.0)) else 0.0

    def save(self, path: UPath) -> None:
        """Publish the index as Parquet at `path` (`Store.packets`)."""
        columns = {
            "pts": self.pts,
            "dts": self.dts,
            "size": self.sizes,
            "is_keyframe": self.is_keyframe,
            "is_hidden": self.is_hidden,
            "precedes_loss": self.precedes_loss,
        }
        metadata = {
            "version": str(INDEX_VERSION),
            "time_base": str(self.time_base),
            "last_duration": str(self.last_duration),
            "claimed_seconds": "" if self.claimed_seconds is None else repr(self.claimed_seconds),
            "source": self.source.value,
        }
        table = pa.table(columns).replace_schema_metadata(metadata)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        publish(path, sink.getvalue().to_pybytes())

    @classmethod
    def load(cls, path: UPath) -> "PacketIndex | None":
        """The index that `save` stored; None when there is none, or it is of another version.

        Raises:
            StorageError: when the file is damaged.
        """
        try:
            table = read_table(path)
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowInvalid) as error:
            raise StorageError(
                f"{path}: not a packet index ({error}); delete the file, it is made again"
            ) from error
        said = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        if said.get("version") != str(INDEX_VERSION):
            return None
        return cls(
            pts=table.column("pts").to_numpy(),
            dts=table.column("dts").to_numpy(),
            sizes=table.column("size").to_numpy(),
            is_keyframe=table.column("is_keyframe").to_numpy(),
            is_hidden=table.column("is_hidden").to_numpy(),
            precedes_loss=table.column("precedes_loss").to_numpy(),
            time_base=Fraction(said["time_base"]),
            last_duration=int(said["last_duration"]),
            claimed_seconds=float(said["claimed_seconds"]) if said["claimed_seconds"] else None,
            source=IndexSource(said["source"]),
        )


def index_packets(path: Path, video_id: str | None = None) -> PacketIndex:
    """The packet index of the video stream in `path`, by the cheapest way that is exact.

    Raises:
        VideoUnreadableError: when the file holds no video stream that can be opened.
    """
    return read_moov(path) or demux_packets(path, video_id)


def demux_packets(path: Path, video_id: str | None = None) -> PacketIndex:
    """The packet index by reading every packet of the file.

    Raises:
        VideoUnreadableError: when the file holds no video stream that can be opened.
    """
    with open_video(path, video_id) as (container, stream):
        rows = [
            (p.pts, p.dts, p.size, p.is_keyframe, p.is_discard, p.duration or 0, precedes_loss)
            for p, precedes_loss in _whole_packets(container, stream)
        ]
        time_base = stream.time_base or Fraction(1, 90_000)
        shown_pts = (row[0] for row in rows if not row[4] and row[0] is not None)
        claimed = _claimed_seconds(path, stream, min(shown_pts, default=0))
    if not rows:
        raise VideoUnreadableError(
            video_id or path.stem, f"{path}: the video stream holds no whole packet; get it again"
        )
    pts = [row[0] for row in rows if not row[4]]
    if None in pts or len(set(pts)) != len(pts):
        return _decode_packets(path, video_id, claimed)
    dts = [row[0] if row[1] is None else row[1] for row in rows]
    shown = [(row[0], row[5]) for row in rows if not row[4]]
    return PacketIndex(
        pts=np.array(
            [row[0] if row[0] is not None else d for row, d in zip(rows, dts, strict=True)]
        ),
        dts=np.array(dts),
        sizes=np.array([row[2] for row in rows]),
        is_keyframe=np.array([row[3] for row in rows]),
        is_hidden=np.array([row[4] for row in rows]),
        precedes_loss=np.array([row[6] for row in rows]),
        time_base=time_base,
        last_duration=_last_duration(shown),
        claimed_seconds=claimed,
        source=IndexSource.DEMUX,
    )


class open_video:  # noqa: N801 - reads as a function in a `with`
    """`with open_video(path) as (container, stream)`: the best video stream, all others off.

    `probes=False` does without the megabytes that libav reads, and the pictures that it decodes
    (tens of milliseconds), to learn of a stream: for an mp4 whose packet index is at hand its
    header says enough.

    Raises:
        VideoUnreadableError: naming what the file is instead, when it is no video.
    """

    def __init__(
        self, path: Path, video_id: str | None = None, threads: int = 1, *, probes: bool = True
    ) -> None:
        self._path, self._video_id, self._threads = path, video_id or path.stem, threads
        self._options: dict[str, Any] = {} if probes else _WITHOUT_PROBES

    def __enter__(self) -> "tuple[InputContainer, VideoStream]":
        import av  # noqa: PLC0415

        try:
            self._container = av.open(str(self._path), metadata_errors="replace", **self._options)
        except FileNotFoundError as error:
            raise VideoUnreadableError(self._video_id, f"{self._path}: no such file") from error
        except (av.FFmpegError, OSError) as error:
            raise VideoUnreadableError(
                self._video_id,
                f"{self._path}: {what_is_wrong(self._path)} ({error.strerror}); get it again",
            ) from error
        try:
            stream = self._video_stream()
        except BaseException:
            self._container.close()
            raise
        return self._container, stream

    def __exit__(self, *_: object) -> None:
        self._container.close()

    def _video_stream(self) -> "VideoStream":
        from av.stream import Discard  # noqa: PLC0415

        found = what_is_wrong(self._path, otherwise="")
        stream = self._container.streams.best("video")
        if found or stream is None:
            kinds = ", ".join(sorted({other.type for other in self._container.streams}))
            message = found or f"no video stream in it, only {kinds or 'nothing'}"
            raise VideoUnreadableError(
                self._video_id, f"{self._path}: {message}; replace it with the video itself"
            )
        video: Any = stream
        for other in self._container.streams:
            if other.index != video.index:
                other.discard = Discard.all
        video.codec_context.thread_count = self._threads
        if self._threads == 1:
            video.codec_context.thread_type = "NONE"
        return video  # type: ignore[no-any-return]


_WITHOUT_PROBES = {
    "options": {"probesize": "4096"},  # bytes
    "stream_options": [{"skip_frame": "all"}] * 16,  # further streams are probed all the same
}


def what_is_wrong(path: Path, otherwise: str = "no video that can be opened") -> str:
    """What a file is that cannot be used as a video, from its first bytes and its boxes."""
    size = path.stat().st_size
    if size == 0:
        return "the file is empty (0 bytes)"
    with path.open("rb") as file:
        head = file.read(512)
    for magic, kind in _NOT_VIDEOS.items():
        if head.lstrip().lower().startswith(magic):
            return f"not a video but {kind}"
    if head[4:8] != b"ftyp":
        return otherwise
    boxes = list(_top_boxes(path))
    kinds = [box.kind for box in boxes]
    if b"moov" not in kinds:
        end = max((box.end for box in boxes), default=0)
        cut = f": {size:,} of at least {end:,} bytes are there" if end > size else ""
        return f"an mp4 without its table of contents (no 'moov' box), cut off{cut}"
    return _encryption(path, boxes) or otherwise


_NOT_VIDEOS = {
    b"<!doctype html": "an HTML page",
    b"<html": "an HTML page",
    b"<?xml": "an XML document",
    b"{": "a JSON or text document",
    b"pk\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"%pdf": "a PDF document",
    b"\xff\xd8\xff": "a JPEG picture",
    b"\x89png": "a PNG picture",
    b"version https://git-lfs": "a Git LFS pointer",
}


# mp4: the sample tables of the `moov` box, read with numpy.


def read_moov(path: Path) -> PacketIndex | None:
    """The index of an mp4 from its sample tables; None when they do not tell all.

    They do not for other containers, fragmented files, several video tracks, and edit lists
    with several segments, a start between two frames or an end before the last one. Equal to
    what libav's demuxer reports, edit list applied.
    """
    try:
        boxes = list(_top_boxes(path))
        moov = next((box for box in boxes if box.kind == b"moov"), None)
        if moov is None or not any(box.kind == b"ftyp" for box in boxes[:2]):
            return None
        with path.open("rb") as file:
            file.seek(moov.start)
            data = file.read(moov.end - moov.start)
        size = path.stat().st_size
        return _read_tracks(memoryview(data), size if boxes[-1].end > size else None)
    except (struct.error, ValueError, IndexError, KeyError):
        return None  # libav decides what can be made of it


@dataclass(frozen=True, slots=True)
class _Box:
    kind: bytes
    start: int
    end: int


def _top_boxes(path: Path) -> Iterator[_Box]:
    """The outermost boxes of an mp4; `end` may lie beyond the file's own end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        place = 0
        while place + 8 <= size:
            file.seek(place)
            length, kind = struct.unpack(">I4s", file.read(8))
            header = 8
            if length == 1:
                extended = file.read(8)
                if len(extended) < 8:
                    return
                length, header = struct.unpack(">Q", extended)[0], 16
            elif length == 0:
                length = size - place
            if length < header or not kind.isascii():
                return
            yield _Box(kind, place + header, place + length)
            place += length


def _children(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    place = 0
    while place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        if length < 8:
            return
        yield kind, data[place + 8 : place + length]
        place += length


def _child(data: memoryview, *path: bytes) -> memoryview:
    for kind in path:
        data = next((body for name, body in _children(data) if name == kind), memoryview(b""))
    return data


def _read_tracks(moov: memoryview, cut_at: int | None) -> PacketIndex | None:
    if any(kind == b"mvex" for kind, _ in _children(moov)):
        return None
    tracks = _video_tracks(moov)
    if len(tracks) != 1:
        return None
    return _read_track(tracks[0], _timescale(_child(moov, b"mvhd")), cut_at)


def _video_tracks(moov: memoryview) -> list[memoryview]:
    return [
        body
        for kind, body in _children(moov)
        if kind == b"trak" and bytes(_child(body, b"mdia", b"hdlr")[8:12]) == b"vide"
    ]


def _read_track(track: memoryview, movie_timescale: int, cut_at: int | None) -> PacketIndex:
    """The index of one track; ValueError where the tables do not tell all.

    `cut_at` is the size of a file that is shorter than its boxes say.
    """
    timescale = _timescale(_child(track, b"mdia", b"mdhd"))
    tables = _child(track, b"mdia", b"minf", b"stbl")
    if _is_encrypted(tables):
        raise ValueError("encrypted")
    sizes = _sample_sizes(_child(tables, b"stsz"))
    count = len(sizes)
    durations = _runs(_child(tables, b"stts"), count)
    offsets = _runs(_child(tables, b"ctts"), count, missing=0)
    if not count or len(durations) != count or len(offsets) != count:
        raise ValueError("tables of different lengths")
    delay, media_start, segment = _edit(_child(track, b"edts", b"elst"))
    decode_time = np.cumsum(durations) - durations
    cts = decode_time + offsets
    if media_start not in cts:
        raise ValueError("an edit that starts between two frames")
    if segment and cts.max() >= media_start + segment * timescale // movie_timescale:
        raise ValueError("an edit that ends before the last frame")
    keyframe = _keyframes(_child(tables, b"stss"), count)
    start = delay * timescale // movie_timescale - media_start
    earlier = np.flatnonzero(keyframe & (cts <= media_start))
    first = int(earlier[-1]) if len(earlier) else 0
    kept = np.arange(count) >= first
    if cut_at is not None:
        kept &= _packet_ends(tables, sizes) <= cut_at
    if not kept.any():
        raise ValueError("no whole packet")
    shown_cts = cts[first:][cts[first:] >= media_start]
    last = int(np.argmax(np.where(kept & (cts >= media_start), cts, -1)))
    full = (int(shown_cts.max()) - int(shown_cts.min()) + int(durations[last])) / timescale
    return PacketIndex(
        pts=cts[kept] + start,
        dts=(decode_time + min(0, int(offsets.min())))[kept] + start,
        sizes=sizes[kept],
        is_keyframe=keyframe[kept],
        is_hidden=(cts < media_start)[kept],
        precedes_loss=np.zeros(np.count_nonzero(kept), np.bool_),
        time_base=Fraction(1, timescale),
        last_duration=int(durations[last]),
        claimed_seconds=full,
        source=IndexSource.MOOV,
    )


def _timescale(header: memoryview) -> int:
    """The units per second that an `mvhd` or `mdhd` box declares."""
    (scale,) = struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)
    if not scale:
        raise ValueError("a timescale of 0")
    return int(scale)


def _sample_sizes(stsz: memoryview) -> Integers:
    same, count = struct.unpack_from(">II", stsz, 4)
    if same:
        return np.full(count, same, np.int64)
    return np.frombuffer(stsz, ">u4", count, 12).astype(np.int64)


def _runs(table: memoryview, count: int, missing: int | None = None) -> Integers:
    """A run-length table (`stts`, `ctts`) as one value per sample.

    Values of `ctts` are read as signed whatever its version says, as libav does.
    """
    if not len(table) and missing is not None:
        return np.full(count, missing, np.int64)
    (entries,) = struct.unpack_from(">I", table, 4)
    pairs = np.frombuffer(table, ">i4", entries * 2, 8).astype(np.int64).reshape(-1, 2)
    if entries == count and (pairs[:, 0] == 1).all():
        return pairs[:, 1]
    return np.repeat(pairs[:, 1], pairs[:, 0])


def _keyframes(stss: memoryview, count: int) -> Flags:
    """Which samples are sync samples; without the box, all are."""
    if not len(stss):
        return np.ones(count, np.bool_)
    (entries,) = struct.unpack_from(">I", stss, 4)
    flags = np.zeros(count, np.bool_)
    flags[np.frombuffer(stss, ">u4", entries, 8).astype(np.int64) - 1] = True
    return flags


def _edit(elst: memoryview) -> tuple[int, int, int]:
    """Empty time before the track (movie units), start in the media, length (movie units).

    ValueError when the list says more than that.
    """
    if not len(elst):
        return 0, 0, 0
    wide = elst[0] == 1
    (count,) = struct.unpack_from(">I", elst, 4)
    form, width = (">qqHH", 20) if wide else (">iiHH", 12)
    entries = []
    for place in range(count):
        length, media_time, rate, fraction = struct.unpack_from(form, elst, 8 + place * width)
        if (rate, fraction) != (1, 0):
            raise ValueError("an edit at another speed")
        entries.append((length, media_time))
    delay = 0
    if entries and entries[0][1] == -1:
        delay = entries.pop(0)[0]
    if len(entries) != 1 or entries[0][1] < 0:
        raise ValueError("an edit list of several segments")
    return delay, entries[0][1], entries[0][0]


def _packet_ends(tables: memoryview, sizes: Integers) -> Integers:
    """Where in the file each sample ends."""
    stco, co64 = _child(tables, b"stco"), _child(tables, b"co64")
    if len(co64):
        (chunks,) = struct.unpack_from(">I", co64, 4)
        chunk_starts = np.frombuffer(co64, ">u8", chunks, 8).astype(np.int64)
    else:
        (chunks,) = struct.unpack_from(">I", stco, 4)
        chunk_starts = np.frombuffer(stco, ">u4", chunks, 8).astype(np.int64)
    stsc = _child(tables, b"stsc")
    (entries,) = struct.unpack_from(">I", stsc, 4)
    runs = np.frombuffer(stsc, ">u4", entries * 3, 8).astype(np.int64).reshape(-1, 3)
    lengths = np.diff(np.append(runs[:, 0], chunks + 1))
    per_chunk = np.repeat(runs[:, 1], lengths)
    chunk_of = np.repeat(np.arange(chunks), per_chunk)[: len(sizes)]
    if len(chunk_of) != len(sizes):
        raise ValueError("chunks and samples do not agree")
    total = np.cumsum(sizes)
    firsts = np.concatenate(([0], np.cumsum(per_chunk)[:-1]))
    before = (total - sizes)[np.minimum(firsts, len(sizes) - 1)]
    return np.asarray(chunk_starts[chunk_of] + total - before[chunk_of])


def _encryption(path: Path, boxes: list[_Box]) -> str | None:
    """Says so when the video track of an mp4 is encrypted (ISO/IEC 23001-7)."""
    moov = next(box for box in boxes if box.kind == b"moov")
    with path.open("rb") as file:
        file.seek(moov.start)
        data = memoryview(file.read(moov.end - moov.start))
    tables = [_child(track, b"mdia", b"minf", b"stbl") for track in _video_tracks(data)]
    if any(map(_is_encrypted, tables)):
        return "the video track is encrypted (sample entry 'encv'); no key is known for it"
    return None


def _is_encrypted(tables: memoryview) -> bool:
    return bytes(_child(tables, b"stsd")[12:16]) == b"encv"


# Every other container.


def _packets(container: "InputContainer", stream: "VideoStream") -> Iterator[Any]:
    """Every packet of the stream up to the end, or up to where the file cannot be read on."""
    import av  # noqa: PLC0415

    demuxed = container.demux(stream)
    while True:
        try:
            packet = next(demuxed)
        except (StopIteration, av.FFmpegError):
            return
        yield packet


def _whole_packets(
    container: "InputContainer", stream: "VideoStream"
) -> Iterator[tuple[Any, bool]]:
    """The packets that are whole, each with whether something is lost right after it."""
    before, lost = None, False
    with libav_errors() as errors:
        for packet in _packets(container, stream):
            lost = lost or packet.is_corrupt or bool(errors)
            errors.clear()
            if packet.size and not packet.is_corrupt:
                if before is not None:
                    yield before, lost
                before, lost = packet, False
        if before is not None:
            yield before, lost or bool(errors)


@contextmanager
def libav_errors() -> Iterator[list[Any]]:
    """What libav calls an error in this thread meanwhile, beside what it raises.

    Some of its readers resynchronize, and some decoders go on with a wrong picture, and only
    the log tells.
    """
    import av.logging  # noqa: PLC0415

    level, once = av.logging.get_level(), av.logging.get_skip_repeated()
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as errors:
            yield errors
    finally:
        av.logging.set_level(level)
        av.logging.set_skip_repeated(once)


def _decode_packets(path: Path, video_id: str | None, claimed: float | None) -> PacketIndex:
    """The index of a stream without usable timestamps: decode it all, number what comes out.

    A frame that has no time of its own takes the next one at the stream's frame rate.
    """
    import av  # noqa: PLC0415

    pts: list[int] = []
    keys: list[bool] = []
    with open_video(path, video_id) as (container, stream):
        time_base = stream.time_base or Fraction(1, 90_000)
        rate = stream.average_rate or stream.guessed_rate or Fraction(25)
        step = max(1, round(1 / (rate * time_base)))
        for packet in _packets(container, stream):
            try:
                decoded = packet.decode()
            except av.FFmpegError:
                continue
            for frame in decoded:
                known = frame.pts is not None and (not pts or frame.pts > pts[-1])
                pts.append(frame.pts if known else (pts[-1] + step if pts else 0))
                keys.append(bool(frame.key_frame))
    times = np.array(pts, np.int64)
    return PacketIndex(
        pts=times,
        dts=times,
        sizes=np.zeros(len(times), np.int64),
        is_keyframe=np.array(keys, np.bool_),
        is_hidden=np.zeros(len(times), np.bool_),
        precedes_loss=np.zeros(len(times), np.bool_),
        time_base=time_base,
        last_duration=step,
        claimed_seconds=claimed,
        source=IndexSource.DECODE,
    )


def _claimed_seconds(path: Path, stream: "VideoStream", first_pts: int) -> float | None:
    """How long the container says this very stream is shown; None when it does not say.

    The length of the whole file is no help: a sound track may go on after the pictures. An mp4
    and Matroska say when the stream ends, so its start is taken off.
    """
    time_base = stream.time_base
    if time_base is None:
        return None
    tag = next((v for k, v in stream.metadata.items() if k.upper().startswith("DURATION")), None)
    end = _track_end_seconds(path)
    if end is None and tag is not None:
        end = _clock_seconds(tag)
    if end is not None:
        return end - float(first_pts * time_base)
    is_mp4 = "mp4" in stream.container.format.name
    return float(stream.duration * time_base) if stream.duration and not is_mp4 else None


def _track_end_seconds(path: Path) -> float | None:
    """When the header of an mp4's only video track says it ends, edit list applied."""
    moov = next((box for box in _top_boxes(path) if box.kind == b"moov"), None)
    if moov is None:
        return None
    with path.open("rb") as file:
        file.seek(moov.start)
        data = memoryview(file.read(moov.end - moov.start))
    tracks = _video_tracks(data)
    if len(tracks) != 1:
        return None
    header = _child(tracks[0], b"tkhd")
    (units,) = struct.unpack_from(">Q" if header[0] == 1 else ">I", header, 28 if header[0] else 20)
    return float(units / _timescale(_child(data, b"mvhd"))) if units else None


def _clock_seconds(text: str) -> float | None:
    """Seconds of `HH:MM:SS.sss`."""
    try:
        hours, minutes, seconds = text.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError:
        return None


def _last_duration(shown: list[tuple[int, int]]) -> int:
    """The duration of the last shown frame, or the gap before it when none is given."""
    ordered = sorted(shown)
    if ordered[-1][1]:
        return ordered[-1][1]
    return ordered[-1][0] - ordered[-2][0] if len(ordered) > 1 else 0
