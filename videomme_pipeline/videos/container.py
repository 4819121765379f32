"""Opening a video file with libav: its video stream, its packet index, and reasons for failures.

The packet index of an mp4 is read from its sample tables, which takes milliseconds for an hour of
video. Any other container is demuxed once. Only streams without usable timestamps are decoded.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videomme_pipeline.benchmarks.locate import FrameFolder, VideoFile
from videomme_pipeline.errors import VideoUnreadableError
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.videos import mp4
from videomme_pipeline.videos.files import stat_file, unreadable
from videomme_pipeline.videos.packets import IndexSource, PacketIndex

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

VIDEO_LIMITS = TaskLimits(seconds=900.0, memory_bytes=4 << 30)
"""Limits of the child process of one video."""

_WITHOUT_PROBES: dict[str, Any] = {
    "options": {"probesize": "4096"},  # bytes
    "stream_options": [{"skip_frame": "all"}] * 16,  # streams beyond these are probed anyway
}


@contextmanager
def open_video(
    path: VideoFile, video_id: str | None = None, *, probes: bool = True
) -> "Iterator[tuple[InputContainer, VideoStream]]":
    """Open a video: the container and its best video stream, with all other streams discarded.

    The decoder runs in one thread. With `probes=False`, libav decodes nothing to find the
    properties of a stream, which saves tens of milliseconds. An mp4 has them in its header. Raises
    VideoUnreadableError, which names the format if it is known, if the file cannot be opened.
    """
    import av  # noqa: PLC0415

    name = video_id or path.stem
    url, options = str(path), {} if probes else _WITHOUT_PROBES
    try:
        if not isinstance(path, FrameFolder):
            problem = diagnose(path)
        elif path.pictures:
            problem, (url, options) = None, _image_sequence(path)
        else:
            problem = "no picture in this folder"
    except OSError as error:
        raise unreadable(name, path, error) from error
    if problem:
        raise VideoUnreadableError(name, f"{path}: {problem}; replace it with the video itself")
    try:
        container = av.open(url, metadata_errors="replace", **options)
    except (av.FFmpegError, OSError) as error:
        raise VideoUnreadableError(
            name, f"{path}: no video that can be opened ({error.strerror}); get it again"
        ) from error
    with container:
        yield container, _video_stream(container, path, name)


def _image_sequence(folder: FrameFolder) -> tuple[str, dict[str, Any]]:
    """The pattern of a folder's pictures and the options with which libav reads them."""
    escaped = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(folder.path))
    options = {"pattern_type": "glob", "framerate": str(folder.frames_per_second)}
    pattern = f"{escaped}/*{folder.pictures[0].suffix}"
    return pattern, {"format": "image2", "options": options}


def _video_stream(container: "InputContainer", path: VideoFile, video_id: str) -> "VideoStream":
    from av.stream import Discard  # noqa: PLC0415

    stream: Any = container.streams.best("video")
    if stream is None:
        kinds = ", ".join(sorted({other.type for other in container.streams}))
        raise VideoUnreadableError(
            video_id,
            f"{path}: no video stream in it, only {kinds or 'nothing'}; "
            "replace it with the video itself",
        )
    if stream.codec_context is None:
        raise VideoUnreadableError(
            video_id, f"{path}: libav has no decoder for its video stream; convert it to H.264"
        )
    for other in container.streams:
        if other.index != stream.index:
            other.discard = Discard.all
    stream.codec_context.thread_count = 1
    stream.codec_context.thread_type = "NONE"
    return stream  # type: ignore[no-any-return]


def diagnose(path: Path) -> str | None:
    """Why a file is not a usable video, by its first bytes and boxes, or None. Raises OSError."""
    size = stat_file(path).st_size
    if size == 0:
        return "the file is empty (0 bytes)"
    with path.open("rb", buffering=512) as file:  # Python 3.14 would read 128 KiB
        head = file.read(512)
    for magic, kind in _OTHER_FORMATS.items():
        if head.lstrip().lower().startswith(magic):
            return f"not a video but {kind}"
    if head[4:8] != b"ftyp":
        return None
    boxes, moov = mp4.read_boxes(path)
    if moov is None:
        end = max((box.end for box in boxes), default=0)
        cut = f": {size:,} of at least {end:,} bytes are there" if end > size else ""
        return f"an mp4 without its table of contents (no 'moov' box), cut off{cut}"
    return mp4.problem_of(moov, size)


_OTHER_FORMATS = {
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
    b"#extm3u": "a list of other files",
    b"ffconcat": "a list of other files",
}


def index_packets(path: VideoFile, video_id: str | None = None) -> PacketIndex:
    """The packet index of the video stream in `path`, by the fastest method that is exact.

    Raises:
        VideoUnreadableError: if the file has no video stream that can be opened.
    """
    if isinstance(path, FrameFolder):
        return demux_packets(path, video_id)
    return mp4.read_moov(path) or demux_packets(path, video_id)


def demux_packets(path: VideoFile, video_id: str | None = None) -> PacketIndex:
    """The index from all packets of the file. Raises VideoUnreadableError."""
    with open_video(path, video_id) as (container, stream):
        rows = [
            (p.pts, p.dts, p.size, p.is_keyframe, p.is_discard, p.duration or 0, precedes_loss)
            for p, precedes_loss in _complete_packets(container, stream)
        ]
        shown = [(pts, duration) for pts, *_, hidden, duration, _ in rows if not hidden]
        time_base = stream.time_base or Fraction(1, 90_000)
        first_pts = min((pts for pts, _ in shown if pts is not None), default=0)
        claimed = _claimed_seconds(path, stream, first_pts)
    if not shown:
        problem = f"{len(rows)} packets, and its edit list hides all of them"
        raise VideoUnreadableError(
            video_id or path.stem,
            f"{path}: the video stream has {problem if rows else 'no whole packet'}; get it again",
        )
    distinct = {pts for pts, _ in shown}
    if None in distinct or len(distinct) != len(shown):
        return _decode_packets(path, video_id, claimed)
    packet_pts, packet_dts, sizes, is_keyframe, is_hidden, _, precedes_loss = zip(
        *rows, strict=True
    )
    dts = [p if d is None else d for p, d in zip(packet_pts, packet_dts, strict=True)]
    return PacketIndex(
        pts=np.array([d if p is None else p for p, d in zip(packet_pts, dts, strict=True)]),
        dts=np.array(dts),
        size=np.array(sizes),
        is_keyframe=np.array(is_keyframe),
        is_hidden=np.array(is_hidden),
        precedes_loss=np.array(precedes_loss),
        time_base=time_base,
        last_duration=_last_duration(shown),
        claimed_seconds=claimed,
        source=IndexSource.DEMUX,
    )


def _decode_packets(path: VideoFile, video_id: str | None, claimed: float | None) -> PacketIndex:
    """The index of a stream without usable timestamps, from its decoded frames.

    A frame without a time follows the previous frame at the stream's frame rate.
    """
    pts: list[int] = []
    keys: list[bool] = []
    with open_video(path, video_id) as (container, stream):
        time_base = stream.time_base or Fraction(1, 90_000)
        rate = stream.average_rate or stream.guessed_rate or Fraction(25)
        step = max(1, round(1 / (rate * time_base)))
        for frame in readable_frames(container, stream):
            is_usable = frame.pts is not None and (not pts or frame.pts > pts[-1])
            pts.append(frame.pts if is_usable else (pts[-1] + step if pts else 0))
            keys.append(bool(frame.key_frame))
    times, never = np.array(pts, np.int64), np.zeros(len(pts), np.bool_)
    return PacketIndex(
        pts=times,
        dts=times,
        size=np.zeros_like(times),
        is_keyframe=np.array(keys, np.bool_),
        is_hidden=never,
        precedes_loss=never,
        time_base=time_base,
        last_duration=step,
        claimed_seconds=claimed,
        source=IndexSource.DECODE,
    )


def _last_duration(shown: list[tuple[int, int]]) -> int:
    """The duration of the last shown frame, or if it has none, the time since the frame before."""
    ordered = sorted(shown)
    last_pts, duration = ordered[-1]
    return duration or last_pts - ordered[max(len(ordered) - 2, 0)][0]


def readable_packets(container: "InputContainer", stream: "VideoStream") -> Iterator[Any]:
    """Every packet of the stream up to its end or to the first unreadable part of the file."""
    import av  # noqa: PLC0415

    with suppress(av.FFmpegError):
        yield from container.demux(stream)


def readable_frames(container: "InputContainer", stream: "VideoStream") -> Iterator[Any]:
    """Every frame of the stream that decodes, in order, up to the first unreadable part."""
    import av  # noqa: PLC0415

    for packet in readable_packets(container, stream):
        with suppress(av.FFmpegError):
            yield from packet.decode()


def _complete_packets(
    container: "InputContainer", stream: "VideoStream"
) -> Iterator[tuple[Any, bool]]:
    """The complete packets, each with True if the container is damaged directly after it."""
    previous, is_damaged = None, False
    with libav_errors() as errors:
        for packet in readable_packets(container, stream):
            is_damaged = is_damaged or packet.is_corrupt or bool(errors)
            errors.clear()
            if packet.size and not packet.is_corrupt:
                if previous is not None:
                    yield previous, is_damaged
                previous, is_damaged = packet, False
        if previous is not None:
            yield previous, is_damaged or bool(errors)


@contextmanager
def libav_errors() -> Iterator[list[Any]]:
    """Collect the errors that libav logs in this thread without raising them.

    Only the log shows that a demuxer resynchronized, or a decoder continued with a wrong picture.
    """
    import av.logging  # noqa: PLC0415

    level, skips_repeated = av.logging.get_level(), av.logging.get_skip_repeated()
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as errors:
            yield errors
    finally:
        av.logging.set_level(level)
        av.logging.set_skip_repeated(skips_repeated)


def _claimed_seconds(path: VideoFile, stream: "VideoStream", first_pts: int) -> float | None:
    """Length of the video stream according to the container, or None if it has no such value.

    mp4 and Matroska files store the end time of the stream, so its start time is subtracted.
    """
    time_base = stream.time_base
    if time_base is None:
        return None
    tag = next((v for k, v in stream.metadata.items() if k.upper().startswith("DURATION")), "")
    end = None if isinstance(path, FrameFolder) else mp4.track_end_seconds(path)
    if end is None:
        with suppress(ValueError):  # no tag, or none in the form `HH:MM:SS.sss`
            hours, minutes, seconds = tag.split(":")
            end = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if end is not None:
        return end - float(first_pts * time_base)
    is_mp4 = "mp4" in stream.container.format.name
    return float(stream.duration * time_base) if stream.duration and not is_mp4 else None
