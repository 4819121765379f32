"""The boxes of an mp4 file: its sample tables, edit list and encryption mark, read with numpy.

ISO/IEC 14496-12 defines their names and layouts. This module uses no libav and decodes nothing.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from videomme_pipeline.videos.files import stat_file
from videomme_pipeline.videos.packets import Flags, IndexSource, Integers, PacketIndex

_NORMAL_SPEED = 1 << 16


@dataclass(frozen=True, slots=True)
class Box:
    """A top-level box, whose content begins at `start`. `end` may be beyond the file's end."""

    kind: bytes
    start: int
    end: int


def read_moov(path: Path) -> PacketIndex | None:
    """The packet index by the sample tables of an mp4, equal to that of libav's demuxer.

    None for other containers, for fragmented or encrypted files, for several video tracks, and for
    an edit list that has several segments, starts between two frames or ends before the last frame.
    """
    try:
        boxes, moov = read_boxes(path)
        if moov is None or not any(box.kind == b"ftyp" for box in boxes[:2]):
            return None
        file_size = path.stat().st_size
        is_fragmented = any(kind == b"mvex" for kind, _ in _children(moov))
        tracks = _video_tracks(moov)
        if is_fragmented or problem_of(moov, file_size) or len(tracks) != 1:
            return None
        available_bytes = file_size if boxes[-1].end > file_size else None
        return _read_track(tracks[0], _timescale(_child(moov, b"mvhd")), available_bytes)
    except (OSError, struct.error, ValueError, IndexError, KeyError):
        return None  # libav decides whether such a file can be used


def read_boxes(path: Path) -> tuple[list[Box], memoryview | None]:
    """The top boxes of an mp4 up to a malformed one, and the content of `moov`. Raises OSError."""
    boxes: list[Box] = []
    size = stat_file(path).st_size
    with path.open("rb", buffering=0) as file:  # the boxes are far apart
        position = 0
        while position + 8 <= size:
            file.seek(position)
            length, kind = struct.unpack(">I4s", file.read(8))
            header = 8
            if length == 1:
                extended = file.read(8)
                if len(extended) < 8:
                    break
                length, header = struct.unpack(">Q", extended)[0], 16
            elif length == 0:
                length = size - position
            if length < header or not kind.isascii():
                break
            boxes.append(Box(kind, position + header, position + length))
            position += length
    moov = next((box for box in boxes if box.kind == b"moov"), None)
    if moov is None:
        return boxes, None
    with path.open("rb", buffering=8192) as file:  # Python 3.14 would read 128 KiB
        file.seek(moov.start)
        return boxes, memoryview(file.read(min(moov.end, size) - moov.start))


def problem_of(moov: memoryview, file_bytes: int) -> str | None:
    """The problem of a video track that is encrypted, or has more samples than the file bytes."""
    for track in _video_tracks(moov):
        tables = _sample_table_box(track)
        if bytes(_child(tables, b"stsd")[12:16]) == b"encv":  # ISO/IEC 23001-7
            return "the video track is encrypted (sample entry 'encv'); no key is known for it"
        for kind in (b"stsz", b"stts", b"ctts", b"stsc"):
            count = _declared_samples(kind, _child(tables, kind))
            if count > file_bytes:
                return (
                    f"an mp4 whose box '{kind.decode()}' declares {count:,} samples, "
                    f"more than the {file_bytes:,} bytes of the file"
                )
    return None


def _declared_samples(kind: bytes, table: memoryview) -> int:
    """The number of samples that a table declares for its track, or `stsc` for one chunk."""
    words = np.frombuffer(table[: len(table) // 4 * 4], ">u4").astype(np.int64)
    if len(words) < 3:
        return 0
    if kind == b"stsz":
        return int(words[2])
    entries = int(words[1])
    if kind == b"stsc":
        return int(words[2 : 2 + 3 * entries][1::3].max(initial=0))
    return int(words[2 : 2 + 2 * entries : 2].sum())


def track_end_seconds(path: Path) -> float | None:
    """End (s) of the only video track by its header and edit list, or None if unknown."""
    _, moov = read_boxes(path)
    tracks = [] if moov is None else _video_tracks(moov)
    if moov is None or len(tracks) != 1:
        return None
    header = _child(tracks[0], b"tkhd")
    (units,) = struct.unpack_from(">Q" if header[0] == 1 else ">I", header, 28 if header[0] else 20)
    return float(units / _timescale(_child(moov, b"mvhd"))) if units else None


def _children(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    position = 0
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if length < 8:
            return
        yield kind, data[position + 8 : position + length]
        position += length


def _child(data: memoryview, *path: bytes) -> memoryview:
    for kind in path:
        data = next((body for name, body in _children(data) if name == kind), memoryview(b""))
    return data


def _video_tracks(moov: memoryview) -> list[memoryview]:
    return [
        body
        for kind, body in _children(moov)
        if kind == b"trak" and bytes(_child(body, b"mdia", b"hdlr")[8:12]) == b"vide"
    ]


def _sample_table_box(track: memoryview) -> memoryview:
    return _child(track, b"mdia", b"minf", b"stbl")


def _read_track(
    track: memoryview, movie_timescale: int, available_bytes: int | None
) -> PacketIndex:
    """The packet index of one track. `available_bytes` is the size of a truncated file."""
    timescale = _timescale(_child(track, b"mdia", b"mdhd"))
    tables = _sample_table_box(track)
    sizes = _sample_sizes(_child(tables, b"stsz"))
    count = len(sizes)
    durations = _runs(_child(tables, b"stts"), count)
    offsets = _runs(_child(tables, b"ctts"), count, missing=0)
    if not count:
        raise ValueError("no sample")
    delay, media_start, segment = _edit(_child(track, b"edts", b"elst"))
    decode_time = np.cumsum(durations) - durations
    cts = decode_time + offsets
    if media_start not in cts:
        raise ValueError("an edit that starts between two frames")
    if segment and cts.max() >= media_start + segment * timescale // movie_timescale:
        raise ValueError("an edit that ends before the last frame")
    is_keyframe = _keyframes(_child(tables, b"stss"), count)
    start = delay * timescale // movie_timescale - media_start
    earlier = np.flatnonzero(is_keyframe & (cts <= media_start))
    first = int(earlier[-1]) if len(earlier) else 0
    kept = np.arange(count) >= first
    if available_bytes is not None:
        kept &= _sample_ends(tables, sizes) <= available_bytes
    if not kept.any():
        raise ValueError("no whole sample")
    shown_cts = cts[first:][cts[first:] >= media_start]
    last = int(np.argmax(np.where(kept & (cts >= media_start), cts, -1)))
    claimed = int(shown_cts.max()) - int(shown_cts.min()) + int(durations[last])
    return PacketIndex(
        pts=cts[kept] + start,
        dts=(decode_time + min(0, int(offsets.min())))[kept] + start,
        size=sizes[kept],
        is_keyframe=is_keyframe[kept],
        is_hidden=(cts < media_start)[kept],
        precedes_loss=np.zeros(np.count_nonzero(kept), np.bool_),
        time_base=Fraction(1, timescale),
        last_duration=int(durations[last]),
        claimed_seconds=claimed / timescale,
        source=IndexSource.MOOV,
    )


def _timescale(header: memoryview) -> int:
    """The units per second that an `mvhd` or `mdhd` box declares."""
    (scale,) = struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)
    if not scale:
        raise ValueError("a timescale of 0")
    return int(scale)


def _sample_sizes(stsz: memoryview) -> Integers:
    common_size, count = struct.unpack_from(">II", stsz, 4)
    if common_size:
        return np.full(count, common_size, np.int64)
    return np.frombuffer(stsz, ">u4", count, 12).astype(np.int64)


def _entries(table: memoryview, columns: int = 1, kind: str = ">u4") -> Integers:
    """The entries of a table that begins with their number, as an array [entry, column]."""
    (count,) = struct.unpack_from(">I", table, 4)
    return np.frombuffer(table, kind, count * columns, 8).astype(np.int64).reshape(-1, columns)


def _runs(table: memoryview, count: int, missing: int | None = None) -> Integers:
    """A run-length table (`stts`, `ctts`) as one value per sample, signed as in libav."""
    if not len(table) and missing is not None:
        return np.full(count, missing, np.int64)
    pairs = _entries(table, 2, ">i4")
    if pairs[:, 0].sum() != count:
        raise ValueError("tables of different lengths")
    return np.repeat(pairs[:, 1], pairs[:, 0])


def _keyframes(stss: memoryview, count: int) -> Flags:
    """One flag per sample: True for a sync sample. Without the box, all samples are."""
    if not len(stss):
        return np.ones(count, np.bool_)
    flags = np.zeros(count, np.bool_)
    flags[_entries(stss) - 1] = True
    return flags


def _edit(elst: memoryview) -> tuple[int, int, int]:
    """Empty time before the track (movie units), start (media units), length (movie units)."""
    if not len(elst):
        return 0, 0, 0
    (count,) = struct.unpack_from(">I", elst, 4)
    units = ">i8" if elst[0] == 1 else ">i4"
    layout = [("length", units), ("start", units), ("speed", ">u4")]
    edits = np.frombuffer(elst, layout, count, 8).tolist()
    if any(speed != _NORMAL_SPEED for _, _, speed in edits):
        raise ValueError("an edit at another speed")
    delay = edits.pop(0)[0] if edits and edits[0][1] == -1 else 0
    if len(edits) != 1 or edits[0][1] < 0:
        raise ValueError("an edit list of several segments")
    length, start, _ = edits[0]
    return delay, start, length


def _sample_ends(tables: memoryview, sizes: Integers) -> Integers:
    """The position in the file (bytes) at which each sample ends."""
    co64 = _child(tables, b"co64")
    starts = _entries(co64, kind=">u8") if len(co64) else _entries(_child(tables, b"stco"))
    chunk_starts, chunks = starts[:, 0], len(starts)
    runs = _entries(_child(tables, b"stsc"), 3)
    lengths = np.diff(np.append(runs[:, 0], chunks + 1))
    per_chunk = np.repeat(runs[:, 1], lengths)
    chunk_ends = np.cumsum(per_chunk)
    if len(per_chunk) != chunks or per_chunk.sum() < len(sizes):
        raise ValueError("the chunk table and the sample table disagree")
    chunk_of = np.searchsorted(chunk_ends, np.arange(len(sizes)), side="right")
    total = np.cumsum(sizes)
    firsts = chunk_ends - per_chunk
    bytes_before_chunk = (total - sizes)[np.minimum(firsts, len(sizes) - 1)]
    return np.asarray(chunk_starts[chunk_of] + total - bytes_before_chunk[chunk_of])
