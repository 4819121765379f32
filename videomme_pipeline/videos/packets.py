"""The packet index of a video: the time of each compressed picture, and which are keyframes.

The index is built once per video content and stored. Only streams without usable timestamps are
decoded for it. For an mp4 the index is read from the sample tables, which takes milliseconds for an
hour of video. Any other container is demuxed once. `frames.sampling` chooses frames from the index.
"""

import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from upath import UPath

from videomme_pipeline.benchmarks.locate import FrameFolder, VideoFile
from videomme_pipeline.errors import DamagedFileError, VideoUnreadableError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.storage.tables import setting_aside
from videomme_pipeline.videos.container import (
    claimed_seconds,
    complete_packets,
    open_video,
    readable_packets,
)
from videomme_pipeline.videos.mp4 import Flags, Integers, read_sample_tables

Floats = NDArray[np.float64]

INDEX_VERSION = 2
SAME_INSTANT = 1e-6
"""Times closer than this many seconds count as equal."""
_log = logging.getLogger(__name__)


class IndexSource(StrEnum):
    """Source of the timestamps."""

    MOOV = "moov"
    DEMUX = "demux"
    DECODE = "decode"
    """The packets have no usable timestamps. The whole stream was decoded in order, and its frames
    can only be read in this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times and numbers of the shown frames of a video."""

    duration_seconds: float
    """Time from the first shown frame to the end of the last one."""
    missing_seconds: float
    """Additional time that the container of a truncated file claims."""
    frame_count: int
    """Number of shown frames."""
    average_fps: float
    """Mean number of shown frames per second."""
    keyframe_count: int
    """Number of shown keyframes."""
    start_seconds: float
    """Time of the first shown frame in the container."""
    time_base: str
    """Unit of the times in the container, in seconds."""
    index_source: str
    """Source of the packet index."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PacketIndex:
    """Every complete packet of one video stream, in decoding order, and its frames.

    A *frame* is a shown packet. Frames are numbered from 0 in the order of their pts. `pts` and
    `dts` are in units of `time_base`. Hidden packets precede the start of an edit, or are outside
    of the clip: other pictures need them, but they are never shown. A packet `precedes_loss` if the
    container is damaged directly after it, so that it may be truncated and others may be missing.
    `claimed_seconds` is the length of the stream according to the container. In a truncated file
    `claimed_seconds` exceeds `duration_seconds`. `last_duration` is the duration of the last frame.
    `frames_before` is the number of frames that the file shows before a clip begins.
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
    frames_before: int = 0

    def within(self, clip: Clip | None) -> "PacketIndex":
        """The index of a clip of this video, whose frames and times count from its own start.

        The first frame of a clip is the one on screen at its start. A clip outside of the video has
        no frames.
        """
        if clip is None:
            return self
        first = int(np.searchsorted(self.seconds, clip.start_seconds + SAME_INSTANT, "right")) - 1
        last = self.frame_count
        if clip.end_seconds is not None:
            last = int(np.searchsorted(self.seconds, clip.end_seconds - SAME_INSTANT, "left"))
        if clip.start_seconds >= self.duration_seconds:
            last = 0
        is_hidden = np.ones_like(self.is_hidden)
        is_hidden[self.shown[max(first, 0) : last]] = False
        ends_early = last < self.frame_count
        return replace(
            self,
            is_hidden=is_hidden,
            last_duration=(
                int(self.frame_pts[last] - self.frame_pts[last - 1])
                if ends_early and last
                else self.last_duration
            ),
            claimed_seconds=None if ends_early else self._claimed_from(clip.start_seconds),
            frames_before=max(first, 0),
        )

    def _claimed_from(self, start_seconds: float) -> float | None:
        return None if self.claimed_seconds is None else self.claimed_seconds - start_seconds

    @cached_property
    def shown(self) -> Integers:
        """Positions (in decoding order) of the packets that are shown, in order of pts."""
        positions = np.flatnonzero(~self.is_hidden)
        return positions[np.argsort(self.pts[positions], kind="stable")]

    @cached_property
    def frame_pts(self) -> Integers:
        """The pts of each frame, ascending."""
        return self.pts[self.shown]

    @cached_property
    def seconds(self) -> Floats:
        """The time of each frame in seconds from the first shown frame."""
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
        """Seconds from the first shown frame to the end of the last complete frame."""
        if not self.frame_count:
            return 0.0
        return float(self.seconds[-1] + self.last_duration * float(self.time_base))

    @property
    def average_fps(self) -> float:
        return self.frame_count / self.duration_seconds if self.duration_seconds else 0.0

    @property
    def start_seconds(self) -> float:
        """Time of the first shown frame in the container."""
        return float(self.frame_pts[0] * self.time_base) if self.frame_count else 0.0

    @property
    def missing_seconds(self) -> float:
        """Claimed seconds that the file does not contain, or 0 for a complete file.

        Less than a second, or less than two percent, counts as rounding by the muxer.
        """
        missing = (self.claimed_seconds or 0.0) - self.duration_seconds
        return missing if missing > max(1.0, 0.02 * (self.claimed_seconds or 0.0)) else 0.0

    @property
    def timing(self) -> Timing:
        """The facts about the frames that are stored with the video."""
        return Timing(
            duration_seconds=self.duration_seconds,
            missing_seconds=self.missing_seconds,
            frame_count=self.frame_count,
            average_fps=self.average_fps,
            keyframe_count=len(self.keyframes),
            start_seconds=self.start_seconds,
            time_base=str(self.time_base),
            index_source=self.source.value,
        )

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
        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        publish(path, parquet.encode(table.replace_schema_metadata(metadata)))

    @classmethod
    def load(cls, path: UPath) -> "PacketIndex | None":
        """The index that `save` stored, or None if there is none that can be used.

        A file of another version is ignored. A damaged file is set aside.
        """
        try:
            with setting_aside(path):
                return cls._of(parquet.read_table(path))
        except FileNotFoundError:
            return None
        except DamagedFileError as error:
            _log.warning("%s", error)
            return None

    @classmethod
    def _of(cls, table: pa.Table) -> "PacketIndex | None":
        """The index in a stored table, or None if it has another version."""
        facts = parquet.metadata_of(table)
        if facts.get("version") != str(INDEX_VERSION):
            return None
        return cls(
            pts=table.column("pts").to_numpy(),
            dts=table.column("dts").to_numpy(),
            sizes=table.column("size").to_numpy(),
            is_keyframe=table.column("is_keyframe").to_numpy(),
            is_hidden=table.column("is_hidden").to_numpy(),
            precedes_loss=table.column("precedes_loss").to_numpy(),
            time_base=Fraction(facts["time_base"]),
            last_duration=int(facts["last_duration"]),
            claimed_seconds=float(facts["claimed_seconds"]) if facts["claimed_seconds"] else None,
            source=IndexSource(facts["source"]),
        )


def index_packets(path: VideoFile, video_id: str | None = None) -> PacketIndex:
    """The packet index of the video stream in `path`, by the fastest method that is exact.

    Raises:
        VideoUnreadableError: if the file has no video stream that can be opened.
    """
    if isinstance(path, FrameFolder):
        return demux_packets(path, video_id)
    return read_moov(path) or demux_packets(path, video_id)


def clip_of(index: PacketIndex, clip: Clip | None, video_id: str, path: VideoFile) -> PacketIndex:
    """The index of a clip of a video, or of all of it.

    Raises:
        VideoUnreadableError: if the clip is outside of the video.
    """
    clipped = index.within(clip)
    if clip is not None and not clipped.frame_count:
        raise VideoUnreadableError(
            video_id,
            f"{path}: {clip} contains no frame of this video of {index.duration_seconds:.1f} s; "
            "correct the bounds in the annotations",
        )
    return clipped


def read_moov(path: Path) -> PacketIndex | None:
    """The index from the sample tables of an mp4, or None if they are not sufficient."""
    tables = read_sample_tables(path)
    if tables is None:
        return None
    return PacketIndex(
        pts=tables.pts,
        dts=tables.dts,
        sizes=tables.sizes,
        is_keyframe=tables.is_keyframe,
        is_hidden=tables.is_hidden,
        precedes_loss=np.zeros(len(tables.pts), np.bool_),
        time_base=tables.time_base,
        last_duration=tables.last_duration,
        claimed_seconds=tables.claimed_seconds,
        source=IndexSource.MOOV,
    )


def demux_packets(path: VideoFile, video_id: str | None = None) -> PacketIndex:
    """The index from all packets of the file.

    Raises:
        VideoUnreadableError: if the file has no video stream that can be opened.
    """
    with open_video(path, video_id) as (container, stream):
        rows = [
            (p.pts, p.dts, p.size, p.is_keyframe, p.is_discard, p.duration or 0, precedes_loss)
            for p, precedes_loss in complete_packets(container, stream)
        ]
        time_base = stream.time_base or Fraction(1, 90_000)
        shown_pts = (row[0] for row in rows if not row[4] and row[0] is not None)
        claimed = claimed_seconds(path, stream, min(shown_pts, default=0))
    if not rows:
        raise VideoUnreadableError(
            video_id or path.stem, f"{path}: the video stream has no whole packet; get it again"
        )
    if all(row[4] for row in rows):
        raise VideoUnreadableError(
            video_id or path.stem,
            f"{path}: the video stream has {len(rows)} packets, and its edit list hides all of "
            "them; get it again",
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


def _decode_packets(path: VideoFile, video_id: str | None, claimed: float | None) -> PacketIndex:
    """Decode a stream without usable timestamps, number its frames and return the index.

    A frame without a time follows the previous frame at the stream's frame rate.
    """
    import av  # noqa: PLC0415

    pts: list[int] = []
    keys: list[bool] = []
    with open_video(path, video_id) as (container, stream):
        time_base = stream.time_base or Fraction(1, 90_000)
        rate = stream.average_rate or stream.guessed_rate or Fraction(25)
        step = max(1, round(1 / (rate * time_base)))
        for packet in readable_packets(container, stream):
            try:
                decoded = packet.decode()
            except av.FFmpegError:
                continue
            for frame in decoded:
                is_usable = frame.pts is not None and (not pts or frame.pts > pts[-1])
                pts.append(frame.pts if is_usable else (pts[-1] + step if pts else 0))
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


def _last_duration(shown: list[tuple[int, int]]) -> int:
    """The duration of the last shown frame, or if it has none, the time since the frame before."""
    ordered = sorted(shown)
    if ordered[-1][1]:
        return ordered[-1][1]
    return ordered[-1][0] - ordered[-2][0] if len(ordered) > 1 else 0
