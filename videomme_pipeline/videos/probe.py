"""Facts about a video file: its content hash and the properties of its streams.

`benchmarks.locate` finds the file of a video, `videos.packets` builds its packet index, and
`frames.sampling` chooses frames.
"""

import mmap
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from blake3 import blake3

from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.videos.container import open_video
from videomme_pipeline.videos.packets import PacketIndex, index_packets

__all__ = ["HashCache", "PacketIndex", "Video", "content_hash", "probe_video"]

MAPPED_PART_BYTES = 16 << 20
"""Size of the parts in which a file is mapped. This is as fast as mapping the whole file, and
uses less memory, since mapped pages count as memory in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """One video of a benchmark and the facts about its file.

    `content_hash` is the BLAKE3 of the file's bytes. `width` and `height` are those of the shown
    pictures, after a counter-clockwise turn by `rotation_degrees`. `duration_seconds` is the time
    from the first shown frame to the end of the last one. `missing_seconds` is the additional time
    that the container of a truncated file claims. `start_seconds` is the time of the first shown
    frame in the container. Color names are libav's, or "unspecified" if the stream has none.
    `index_source` is the source of the packet index.
    """

    benchmark: str
    video_id: str
    path: str
    content_hash: str
    bytes: int
    container: str
    codec: str
    width: int
    height: int
    rotation_degrees: int
    sample_aspect_ratio: float
    pixel_format: str
    color_space: str
    color_range: str
    interlaced: bool
    duration_seconds: float
    missing_seconds: float
    frame_count: int
    average_fps: float
    keyframe_count: int
    start_seconds: float
    time_base: str
    index_source: str
    has_audio: bool
    subtitle_path: str | None = None
    subtitle_hash: str | None = None


class HashCache:
    """Content hashes by path, size, mtime and inode, in one SQLite file.

    A change that preserves all four is detected only by `content_hash(…, verify=True)` or after
    `clear`.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute(
            "create table if not exists hashes (path text primary key, bytes integer, "
            "mtime_ns integer, inode integer, hash text) without rowid"
        )

    def __enter__(self) -> "HashCache":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def clear(self) -> None:
        """Delete all hashes, so that every file is hashed again."""
        with self._connection:
            self._connection.execute("delete from hashes")

    def get(self, path: Path, stat: os.stat_result) -> str | None:
        row = self._connection.execute(
            "select hash from hashes where (path, bytes, mtime_ns, inode) = (?, ?, ?, ?)",
            (str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino),
        ).fetchone()
        return str(row[0]) if row else None

    def put(self, path: Path, stat: os.stat_result, value: str) -> None:
        with self._connection:
            self._connection.execute(
                "insert or replace into hashes values (?, ?, ?, ?, ?)",
                (str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino, value),
            )


def content_hash(path: Path, hashes: HashCache | None = None, *, verify: bool = False) -> str:
    """BLAKE3 of the bytes of `path` as 64 hexadecimal digits.

    The file is memory-mapped and hashed on all cores. A file in `hashes` is not read again
    unless `verify` is set.

    Raises:
        FileNotFoundError: if there is no such file.
    """
    path = path.absolute()
    stat = path.stat()
    known = None if verify or hashes is None else hashes.get(path, stat)
    if known is not None:
        return known
    value = _blake3(path, stat.st_size)
    if hashes is not None:
        hashes.put(path, stat, value)
    return value


def _blake3(path: Path, size: int) -> str:
    hasher = blake3(max_threads=blake3.AUTO)
    with path.open("rb") as file:
        for start in range(0, size, MAPPED_PART_BYTES):
            length = min(MAPPED_PART_BYTES, size - start)
            with mmap.mmap(file.fileno(), length, offset=start, access=mmap.ACCESS_READ) as part:
                hasher.update(part)
    return hasher.hexdigest()


def probe_video(
    path: Path,
    *,
    benchmark: str,
    video_id: str,
    subtitle_path: Path | None = None,
    hashes: HashCache | None = None,
) -> tuple[Video, PacketIndex]:
    """The facts of the video in `path`, and its packet index.

    One picture is decoded, because rotation and pixel format are not certain without it.

    Raises:
        VideoUnreadableError: if the first picture of the file cannot be decoded.
    """
    import av  # noqa: PLC0415 - libav is loaded only when a video is opened

    video_hash = _hash_of_video(path, video_id, hashes)
    index = index_packets(path, video_id)
    with open_video(path, video_id) as (container, stream):
        try:
            frame = next(container.decode(stream))
        except (StopIteration, av.FFmpegError) as error:
            raise VideoUnreadableError(
                video_id,
                f"{path}: {stream.codec_context.name} stream of {index.frame_count} frames, "
                f"of which the first does not decode ({error}); get the file again",
            ) from error
        is_turned = frame.rotation % 180 != 0
        video = Video(
            benchmark=benchmark,
            video_id=video_id,
            path=str(path),
            content_hash=video_hash,
            bytes=path.stat().st_size,
            container=container.format.name,
            codec=stream.codec_context.codec.canonical_name,
            width=frame.height if is_turned else frame.width,
            height=frame.width if is_turned else frame.height,
            rotation_degrees=frame.rotation,
            sample_aspect_ratio=float(stream.sample_aspect_ratio or 1),
            pixel_format=frame.format.name,
            color_space=_COLOR_SPACES.get(int(frame.colorspace), str(int(frame.colorspace))),
            color_range=_COLOR_RANGES.get(int(frame.color_range), "unspecified"),
            interlaced=frame.interlaced_frame,
            duration_seconds=index.duration_seconds,
            missing_seconds=index.missing_seconds,
            frame_count=index.frame_count,
            average_fps=index.average_fps,
            keyframe_count=len(index.keyframes),
            start_seconds=index.start_seconds,
            time_base=str(index.time_base),
            index_source=index.source.value,
            has_audio=any(other.type == "audio" for other in container.streams),
            subtitle_path=str(subtitle_path) if subtitle_path else None,
            subtitle_hash=content_hash(subtitle_path, hashes) if subtitle_path else None,
        )
    return video, index


def _hash_of_video(path: Path, video_id: str, hashes: HashCache | None) -> str:
    try:
        return content_hash(path, hashes)
    except FileNotFoundError as error:
        raise VideoUnreadableError(video_id, f"{path}: no such file") from error


_COLOR_SPACES = {
    0: "rgb",
    1: "bt709",
    2: "unspecified",
    5: "bt470bg",
    6: "smpte170m",
    9: "bt2020nc",
}
_COLOR_RANGES = {1: "limited", 2: "full"}
