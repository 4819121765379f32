"""Facts about a video file: its content hash and the properties of its streams."""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from blake3 import blake3
from upath import UPath

from videomme_pipeline.benchmarks.locate import FrameFolder, MediaFile, VideoSource
from videomme_pipeline.errors import VideoError, VideoUnreadableError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.fingerprint import canonical_json
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import LocalWorkers, TaskResult, Workers, run_tasks
from videomme_pipeline.storage.copies import on_local_disk
from videomme_pipeline.storage.objects import FileState, RemoteFile
from videomme_pipeline.videos.container import VIDEO_LIMITS, index_packets, open_video
from videomme_pipeline.videos.files import local_video, stat_file, unreadable
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.packets import PacketIndex, Timing, clip_of

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

HASHED_PART_BYTES = 4 << 20
"""Size of the parts in which a file is read. Mapping a file is no faster, and a mapped file that
is cut short meanwhile ends the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """The facts about the video stream of a file."""

    codec: str
    """Name of the codec, as libav calls it."""
    width: int
    """Width of a shown picture in pixels, after rotation."""
    height: int
    """Height of a shown picture in pixels, after rotation."""
    rotation_degrees: int
    """Counter-clockwise rotation of the stored pictures before they are shown."""
    sample_aspect_ratio: float
    """Width of a pixel divided by its height."""
    pixel_format: str
    """Pixel format, as libav calls it."""
    color_space: str
    """Color space, as libav calls it, or "unspecified"."""
    color_range: str
    """Color range, as libav calls it, or "unspecified"."""
    interlaced: bool
    """True if the pictures are interlaced."""

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    @classmethod
    def of(cls, stream: "VideoStream", frame: "VideoFrame") -> "StreamFacts":
        """The facts of a stream, and of the first frame that was decoded from it."""
        is_turned = frame.rotation % 180 != 0
        return cls(
            codec=stream.codec_context.codec.canonical_name,
            width=frame.height if is_turned else frame.width,
            height=frame.width if is_turned else frame.height,
            rotation_degrees=frame.rotation,
            sample_aspect_ratio=float(stream.sample_aspect_ratio or 1),
            pixel_format=frame.format.name,
            color_space=_COLOR_SPACES.get(int(frame.colorspace), str(int(frame.colorspace))),
            color_range=_COLOR_RANGES.get(int(frame.color_range), "unspecified"),
            interlaced=frame.interlaced_frame,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """One video of a benchmark and the facts about its file."""

    benchmark: str
    """Name of the benchmark."""
    video_id: str
    """The dataset's id of the video (three digits in Video-MME)."""
    path: str
    """Path of the file, or of the folder of pictures, when it was probed."""
    content_hash: str
    """BLAKE3 of the file's bytes."""
    bytes: int
    """Size of the file."""
    container: str
    """Format of the file, as libav calls it."""
    stream: StreamFacts
    """Facts about the video stream."""
    timing: Timing
    """Times of the frames of the clip, or of the whole video if the annotations name no clip."""
    has_audio: bool
    """True if the file has a stream with sound."""
    subtitle_path: str | None = None
    """Path of the subtitle file, or None."""
    subtitle_hash: str | None = None
    """BLAKE3 of the subtitle file, or None."""


def content_hash(path: VideoSource, hashes: HashCache | None = None) -> str:
    """BLAKE3 of the bytes of `path` as 64 hexadecimal digits, computed on all cores.

    A folder of pictures is hashed by the names and hashes of the pictures, and the frame rate. A
    file in `hashes` is not read again. Raises OSError if a file cannot be read.
    """
    if isinstance(path, FrameFolder):
        pictures = [(item.name, content_hash(item, hashes)) for item in path.pictures]
        return blake3(canonical_json([path.frames_per_second, pictures]).encode()).hexdigest()
    state = _state(path)
    cached = None if hashes is None else hashes.get(path, state)
    if cached is not None:
        return cached
    value = _blake3(path)
    if hashes is not None:
        hashes.put(path, state, value)
    return value


def known_hash(path: VideoSource, hashes: HashCache) -> str | None:
    """The content hash of a file that was hashed before, or None. Nothing else is read.

    A file that has changed since is read again. Raises OSError if a file cannot be read.
    """
    return content_hash(path, hashes) if all(map(hashes.knows, _files(path))) else None


def _files(path: VideoSource) -> Sequence[MediaFile]:
    return path.pictures if isinstance(path, FrameFolder) else (path,)


def video_hash(path: VideoSource, video_id: str, hashes: HashCache | None = None) -> str:
    """The content hash of a video, or VideoUnreadableError if it cannot be read."""
    try:
        return content_hash(path, hashes)
    except OSError as error:
        raise unreadable(video_id, path, error) from error


def _state(path: MediaFile) -> FileState:
    return path.state if isinstance(path, RemoteFile) else FileState.of(stat_file(path))


def _blake3(path: MediaFile) -> str:
    hasher = blake3(max_threads=blake3.AUTO)
    part = memoryview(bytearray(HASHED_PART_BYTES))
    with on_local_disk(path) as local, local.open("rb", buffering=0) as file:
        while size := file.readinto(part):
            hasher.update(part[:size])
    return hasher.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeJob:
    """A video to probe, with the facts about its subtitle file, if it has one.

    Only `clip` of the file is used, unless it is None. `index_file` is for the packet index.
    """

    benchmark: str
    video_id: str
    path: VideoSource
    content_hash: str
    clip: Clip | None = None
    subtitle_path: MediaFile | None = None
    subtitle_hash: str | None = None
    index_file: UPath | None = None


ProbeResult = TaskResult[ProbeJob, Video]


def probe_videos(
    jobs: Sequence[ProbeJob], *, workers: Workers | None = None, limits: TaskLimits = VIDEO_LIMITS
) -> Generator[ProbeResult]:
    """Probe videos on `workers`, and yield each job's result when it is ready.

    The result of a video that cannot be read, crashes libav or exceeds a limit has a `VideoError`.
    Closing the iterator ends all tasks.
    """
    for result in run_tasks(_probe, jobs, workers=workers or LocalWorkers(), limits=limits):
        job, error = result.task, result.error
        if error is not None:
            error = VideoError.from_child(job.video_id, job.path, error)
        yield replace(result, error=error)


def hash_and_probe(
    jobs: Sequence[ProbeJob],
    workers: Workers,
    hashes: HashCache,
    index_file: Callable[[str], UPath],
) -> Generator[ProbeResult]:
    """Probe the files that are not in `hashes`, one per task, and add their hashes to it.

    `index_file` returns the path of a packet index by the hash of its video. A file that cannot be
    read or probed is left out, since `probe_videos` reports it.
    """
    unknown: dict[ProbeJob, tuple[MediaFile, FileState]] = {}
    for job in jobs:
        if not isinstance(job.path, FrameFolder):
            with suppress(OSError):
                state = _state(job.path)
                if hashes.get(job.path, state) is None:
                    unknown[job] = job.path, state
    task = partial(_hash_and_probe, index_file)
    for result in run_tasks(task, list(unknown), workers=workers, limits=VIDEO_LIMITS):
        if result.value is not None:
            hashes.put(*unknown[result.task], result.value.content_hash)
            yield replace(result, task=_hashed(result.task, result.value.content_hash, index_file))


def _hash_and_probe(index_file: Callable[[str], UPath], job: ProbeJob) -> Video:
    return _probe(_hashed(job, content_hash(job.path), index_file))


def _hashed(job: ProbeJob, content: str, index_file: Callable[[str], UPath]) -> ProbeJob:
    return replace(job, content_hash=content, index_file=index_file(content))


def _probe(job: ProbeJob) -> Video:
    video, index = probe_video(job)
    if job.index_file is not None:
        index.save(job.index_file)
    return video


def probe_video(job: ProbeJob) -> tuple[Video, PacketIndex]:
    """The facts of a video, and the packet index of its file, in this process.

    One picture is decoded, because rotation and pixel format are not certain without it. Raises
    VideoUnreadableError if it does not decode, or the clip is outside of the video.
    """
    import av  # noqa: PLC0415 - libav is loaded only when a video is opened

    video_id = job.video_id
    with local_video(job.path, video_id) as path, open_video(path, video_id) as (container, stream):
        whole = index_packets(path, video_id)
        index = clip_of(whole, job.clip, video_id, path)
        try:
            frame = next(container.decode(stream))
        except (StopIteration, av.FFmpegError) as error:
            reason = str(error) or "no packet contains a picture"
            raise VideoUnreadableError(
                video_id,
                f"{path}: {stream.codec_context.name} stream of {index.frame_count} frames, "
                f"of which the first does not decode ({reason}); get the file again",
            ) from error
        video = Video(
            benchmark=job.benchmark,
            video_id=video_id,
            path=str(job.path),
            content_hash=job.content_hash,
            bytes=sum(_state(file).bytes for file in _files(path)),
            container=container.format.name,
            stream=StreamFacts.of(stream, frame),
            timing=index.timing,
            has_audio=any(other.type == "audio" for other in container.streams),
            subtitle_path=str(job.subtitle_path) if job.subtitle_path else None,
            subtitle_hash=job.subtitle_hash,
        )
    return video, whole


_COLOR_SPACES = {
    **{0: "rgb", 1: "bt709", 2: "unspecified"},
    **{5: "bt470bg", 6: "smpte170m", 9: "bt2020nc"},
}
_COLOR_RANGES = {1: "limited", 2: "full"}
