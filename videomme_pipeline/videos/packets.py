"""The packet index of a video: the time of each compressed picture, and which are keyframes.

`videos.container` builds it, once per video content. `frames.sampling` chooses frames from it.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from upath import UPath

from videomme_pipeline.benchmarks.locate import VideoFile
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.storage.tables import logging_damage

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

INDEX_VERSION = 2
ROUNDED_SECONDS = 0.002
"""The most by which rounded times change the length of a video."""
SAME_INSTANT = 1e-6
"""Times closer than this many seconds count as equal, since they are rounded to floats."""
_COLUMNS = ("pts", "dts", "size", "is_keyframe", "is_hidden", "precedes_loss")


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


@dataclass(frozen=True, slots=True, eq=False)
class FrameTimes:
    """The facts about a video by which samplings choose. See `PacketIndex`."""

    seconds: Floats
    keyframes: Integers
    duration_seconds: float

    @property
    def average_fps(self) -> float:
        """Mean number of frames per second: n or n / 1.001 with a whole n, if the times allow it.

        Times in a file are rounded, to milliseconds in Matroska, so their mean is not exact.
        """
        count, seconds = len(self.seconds), self.duration_seconds
        mean = count / seconds if seconds else 1.0
        stated = (rate for rate in (round(mean), round(mean * 1.001) / 1.001) if rate)
        return next((r for r in stated if abs(count / r - seconds) < ROUNDED_SECONDS), mean)


@dataclass(frozen=True, kw_only=True, eq=False)
class PacketIndex:
    """Every complete packet of one video stream, in decoding order, and its frames.

    A *frame* is a shown packet. Frames are numbered from 0 in the order of their pts. `pts` and
    `dts` are in units of `time_base`. Hidden packets precede the start of an edit, or are outside
    of the clip: other pictures need them, but they are never shown. A packet `precedes_loss` if the
    container is damaged directly after it, so that it may be truncated and others may be missing.
    `claimed_seconds` is the length according to the container, which a truncated file does not
    have. `frames_before` is the number of frames that the file shows before a clip begins.
    """

    pts: Integers
    dts: Integers
    size: Integers
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

        The first frame is the one on screen at its start. A clip outside of the video has none.
        """
        if clip is None:
            return self
        started = np.searchsorted(self.seconds, clip.start_seconds + SAME_INSTANT, "right")
        first, last = max(int(started) - 1, 0), self.frame_count
        if clip.end_seconds is not None:
            last = int(np.searchsorted(self.seconds, clip.end_seconds - SAME_INSTANT, "left"))
        if clip.start_seconds >= self.duration_seconds:
            last = 0
        is_hidden = np.ones_like(self.is_hidden)
        is_hidden[self.shown[first:last]] = False
        last_duration, claimed = self.last_duration, self.claimed_seconds
        if claimed is not None:
            claimed -= clip.start_seconds
        if last < self.frame_count:
            claimed = None
            if last:
                last_duration = int(self.frame_pts[last] - self.frame_pts[last - 1])
        return replace(
            self,
            is_hidden=is_hidden,
            last_duration=last_duration,
            claimed_seconds=claimed,
            frames_before=first,
        )

    @cached_property
    def shown(self) -> Integers:
        """Positions (in decoding order) of the packets that are shown, in order of pts."""
        positions = np.flatnonzero(~self.is_hidden)
        return positions[np.argsort(self.pts[positions], kind="stable")]

    @cached_property
    def frame_pts(self) -> Integers:
        """The pts of each frame in units of `time_base`, ascending."""
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
    def times(self) -> FrameTimes:
        return FrameTimes(self.seconds, self.keyframes, self.duration_seconds)

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
    def missing_seconds(self) -> float:
        """Claimed seconds that the file does not contain, or 0 for a complete file.

        Less than a second, or less than two percent, counts as rounding by the muxer.
        """
        missing = (self.claimed_seconds or 0.0) - self.duration_seconds
        return missing if missing > max(1.0, 0.02 * (self.claimed_seconds or 0.0)) else 0.0

    @property
    def timing(self) -> Timing:
        """The facts about the frames that are stored with the video."""
        count, seconds = self.frame_count, self.duration_seconds
        return Timing(
            duration_seconds=seconds,
            missing_seconds=self.missing_seconds,
            frame_count=count,
            average_fps=count / seconds if seconds else 0.0,
            keyframe_count=len(self.keyframes),
            start_seconds=float(self.frame_pts[0] * self.time_base) if count else 0.0,
            time_base=str(self.time_base),
            index_source=self.source.value,
        )

    def save(self, path: UPath) -> None:
        """Publish the index as Parquet at `path` (`Store.packets`)."""
        metadata = {
            "version": str(INDEX_VERSION),
            "time_base": str(self.time_base),
            "last_duration": str(self.last_duration),
            "claimed_seconds": "" if self.claimed_seconds is None else repr(self.claimed_seconds),
            "source": self.source.value,
        }
        table = pa.table({name: getattr(self, name) for name in _COLUMNS})
        publish(path, parquet.encode(table.replace_schema_metadata(metadata)))

    @classmethod
    def load(cls, path: UPath) -> "PacketIndex | None":
        """The stored index of this version, or None without one. A damaged file is set aside."""
        with suppress(FileNotFoundError), logging_damage(path):
            table = parquet.read_table(path)
            facts = parquet.metadata_of(table)
            if facts.get("version") != str(INDEX_VERSION):
                return None
            arrays: dict[str, Any] = {name: table.column(name).to_numpy() for name in _COLUMNS}
            claimed = facts["claimed_seconds"]
            return cls(
                **arrays,
                time_base=Fraction(facts["time_base"]),
                last_duration=int(facts["last_duration"]),
                claimed_seconds=float(claimed) if claimed else None,
                source=IndexSource(facts["source"]),
            )
        return None


def clip_of(index: PacketIndex, clip: Clip | None, video_id: str, path: VideoFile) -> PacketIndex:
    """`index`, cut to `clip` unless it is None. Raises VideoUnreadableError if no frame is left."""
    clipped = index.within(clip)
    if clip is not None and not clipped.frame_count:
        raise VideoUnreadableError(
            video_id,
            f"{path}: {clip} contains no frame of this video of {index.duration_seconds:.1f} s; "
            "correct the bounds in the annotations",
        )
    return clipped
