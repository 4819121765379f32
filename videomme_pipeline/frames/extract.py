"""Extraction of frames from videos to the cache, on workers.

Each worker extracts whole videos, the largest file first. The frames of several samplings are
extracted in one pass over the video, and each is decoded once. Cached frames are not decoded again.
"""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from videomme_pipeline.benchmarks.locate import VideoFile, VideoSource
from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.errors import DamagedFileError, VideoError, VideoUnreadableError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.frames import cache
from videomme_pipeline.frames.backends import (
    PYAV,
    DecodedFrame,
    Missing,
    decode_frames,
    refusal_reason,
)
from videomme_pipeline.frames.encoding import EncodedPicture, encode
from videomme_pipeline.frames.sampling import MAX_FRAMES, Choice, OnDamage, Sampling
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import LocalWorkers, Workers, run_tasks
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import RemoteFile
from videomme_pipeline.videos.container import VIDEO_LIMITS, index_packets
from videomme_pipeline.videos.files import local_video, size_of
from videomme_pipeline.videos.hash_cache import HashCache
from videomme_pipeline.videos.packets import PacketIndex, clip_of
from videomme_pipeline.videos.probe import video_hash


@dataclass(frozen=True, kw_only=True)
class FrameJob:
    """One video or clip, and the samplings to extract, whose frame counts depend on `duration`."""

    video_id: str
    path: VideoSource
    video_hash: str
    samplings: tuple[Sampling, ...]
    duration: Duration | None = None
    clip: Clip | None = None

    @cached_property
    def frame_sets(self) -> Mapping[str, Sampling]:
        """The samplings with the frame count of the video, by the fingerprint of their frames."""
        samplings = (sampling.for_duration(self.duration) for sampling in self.samplings)
        return {
            cache.frames_fingerprint(sampling, clip=self.clip): sampling for sampling in samplings
        }

    @property
    def file(self) -> VideoFile:
        """The path of a job whose file is local."""
        assert not isinstance(self.path, RemoteFile)
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameResult:
    """The frame sets of one video, the error that prevented others, and the CPU time of all."""

    job: FrameJob
    frame_sets: tuple[cache.StoredFrames, ...] = ()
    cpu_seconds: float = 0.0
    error: VideoError | None = None


def extract(
    jobs: Sequence[FrameJob],
    *,
    store: Store,
    workers: Workers | None = None,
    limits: TaskLimits = VIDEO_LIMITS,
) -> Generator[FrameResult]:
    """Extract the frames that are not in the cache, and yield each job's result when it is ready.

    A video that cannot be read, crashes its decoder or exceeds a limit yields a result with an
    error, and the others continue. Closing the iterator ends all tasks.
    """
    reused: dict[FrameJob, tuple[cache.StoredFrames, ...]] = {}
    for job in jobs:
        cached = {name: _cached(store, job.video_hash, name) for name in job.frame_sets}
        frame_sets = tuple(stored for stored in cached.values() if stored is not None)
        missing = tuple(job.frame_sets[name] for name, stored in cached.items() if stored is None)
        if missing:
            reused[replace(job, samplings=missing)] = frame_sets
        else:
            yield FrameResult(job=job, frame_sets=frame_sets)
    pending = sorted(reused, key=lambda job: size_of(job.path), reverse=True)
    task = partial(extract_here, store=store)
    for finished in run_tasks(task, pending, workers=workers or LocalWorkers(), limits=limits):
        job = finished.task
        result = finished.value or FrameResult(
            job=job, error=VideoError.from_child(job.video_id, job.path, finished.error)
        )
        yield replace(result, frame_sets=(*reused[job], *result.frame_sets))


def extract_here(job: FrameJob, *, store: Store) -> FrameResult:
    """Extract the frames of one video in this process, even if they are cached.

    The result of a video that cannot be used has an error. Raises StorageError.
    """
    started = time.process_time()
    with ExitStack() as stack:
        try:
            local = replace(job, path=stack.enter_context(local_video(job.path, job.video_id)))
            index = packet_index(store, local)
            selections = [_select(local, index, name) for name in local.frame_sets]
        except VideoError as error:
            return FrameResult(job=job, error=error)
        usable = [selection for selection in selections if selection.choice.count <= MAX_FRAMES]
        result = _publish(store, local, index, usable, _pictures(local, index, usable))
    for selection in selections:
        if selection not in usable:
            problem = (
                f"{selection.sampling.name} takes {selection.choice.count:,} frames, more than "
                f"{MAX_FRAMES:,}; choose a number of frames instead of `all`"
            )
            result = replace(result, error=result.error or VideoError(job.video_id, problem))
    return replace(result, job=job, cpu_seconds=time.process_time() - started)


def packet_index(store: Store, job: FrameJob) -> PacketIndex:
    """The packet index of the job's video or clip. The index of the whole file is stored.

    Raises VideoUnreadableError if the file has no usable video stream, or the clip no frame.
    """
    path = store.packets(job.video_hash)
    index = PacketIndex.load(path)
    if index is None:
        index = index_packets(job.file, job.video_id)
        index.save(path)
    return clip_of(index, job.clip, job.video_id, job.file)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Selection:
    """One sampling of one video: the frames to take, and the backend that decodes them."""

    sampling: Sampling
    choice: Choice
    requested: Mapping[int, float]
    """The time at which each frame of the choice was requested."""
    backend: str
    wrong_backend: str | None
    fingerprint: str


_Extracted = tuple[str, cache.Frame]
"""The fingerprint of a frame set, and a frame of the set."""


def _select(job: FrameJob, index: PacketIndex, name: str) -> _Selection:
    sampling = job.frame_sets[name]
    wrong_backend = refusal_reason(sampling.backend, job.file, index)
    choice = sampling.choose(index.times)
    return _Selection(
        sampling=sampling,
        choice=choice,
        requested=dict(zip(choice.frames, choice.requested_seconds, strict=True)),
        backend=PYAV if wrong_backend else sampling.backend,
        wrong_backend=wrong_backend,
        fingerprint=name,
    )


def _pictures(
    job: FrameJob, index: PacketIndex, selections: Sequence[_Selection]
) -> Iterator[_Extracted | Missing]:
    """The frames of all selections in order of time, each decoded once."""
    for backend in dict.fromkeys(selection.backend for selection in selections):
        group = [selection for selection in selections if selection.backend == backend]
        numbers = sorted(set[int]().union(*(selection.requested for selection in group)))
        decoded = decode_frames(job.file, index, numbers, backend)
        yield from _in_order(numbers, (_encode(item, index, group) for item in decoded))


def _encode(
    item: DecodedFrame | Missing, index: PacketIndex, selections: Sequence[_Selection]
) -> tuple[int, list[_Extracted | Missing]]:
    """Encode a frame for every selection that contains it, once per picture spec and size."""
    if isinstance(item, Missing):
        return item.number, [item]
    pictures: dict[object, EncodedPicture] = {}
    extracted: list[_Extracted | Missing] = []
    for selection in selections:
        if item.number not in selection.requested:
            continue
        spec, count = selection.sampling.picture, selection.choice.count
        key = spec, spec.size(item.frame.width, item.frame.height, count)
        if key not in pictures:
            pictures[key] = encode(item.frame, item.rotation, spec, count)
        frame = cache.Frame(
            requested_seconds=selection.requested[item.number],
            pts_seconds=float(index.seconds[item.number]),
            index=item.number,
            is_keyframe=bool(index.is_keyframe[index.shown[item.number]]),
            width=pictures[key].width,
            height=pictures[key].height,
            picture=pictures[key].data,
        )
        extracted.append((selection.fingerprint, frame))
    return item.number, extracted


def _in_order(
    numbers: Sequence[int], arriving: Iterable[tuple[int, list[_Extracted | Missing]]]
) -> Iterator[_Extracted | Missing]:
    """Yield the items in the order of `numbers`. Items with a second attempt arrive late."""
    early: dict[int, list[_Extracted | Missing]] = {}
    done = 0
    for number, items in arriving:
        early[number] = items
        while done < len(numbers) and numbers[done] in early:
            yield from early.pop(numbers[done])
            done += 1


def _publish(
    store: Store,
    job: FrameJob,
    index: PacketIndex,
    selections: Sequence[_Selection],
    items: Iterable[_Extracted | Missing],
) -> FrameResult:
    """Store the frames as they arrive, and publish each frame set that has no fatal damage."""
    missing: dict[int, Missing] = {}
    frame_sets: list[cache.StoredFrames] = []
    errors: list[VideoError] = []
    with ExitStack() as stack:
        writers = {
            selection.fingerprint: stack.enter_context(
                cache.FrameWriter(store, job.video_hash, selection.sampling, job.clip)
            )
            for selection in selections
        }
        for item in items:
            if isinstance(item, Missing):
                missing[item.number] = item
            else:
                fingerprint, frame = item
                writers[fingerprint].add(frame)
        for selection in selections:
            choice, writer = selection.choice, writers[selection.fingerprint]
            lost = [missing[number] for number in choice.frames if number in missing]
            damage = _damage(index, choice, lost)
            fails = bool(damage) and selection.sampling.on_damage is OnDamage.FAIL
            if not writer.shown or fails:
                errors.append(_error(job, choice, damage))
                continue
            stored = writer.publish(
                choice,
                missing_seconds=[float(index.seconds[item.number]) for item in lost],
                damage=damage,
                decoded_by=selection.backend,
            )
            frame_sets.append(replace(stored, wrong_backend=selection.wrong_backend))
    return FrameResult(job=job, frame_sets=tuple(frame_sets), error=errors[0] if errors else None)


def _error(job: FrameJob, choice: Choice, damage: str | None) -> VideoError:
    if not choice.count and choice.by_question:
        question, reason = next(iter(choice.by_question.items()))
        return VideoError(job.video_id, f"question {question}: {reason}")
    problem = damage or "the sampling selects none of its frames"
    advice = "get the file again, or set `on_damage: use_what_decodes`"
    return VideoUnreadableError(job.video_id, f"{job.path}: {problem}; {advice}")


def _damage(index: PacketIndex, choice: Choice, lost: Sequence[Missing]) -> str | None:
    """Description of a missing end of the file and of lost frames of the choice, or None."""
    sentences = []
    if index.missing_seconds:
        sentences.append(
            f"the file is cut off: decoded {index.duration_seconds:.0f} of "
            f"{index.claimed_seconds:.0f} s; last good frame {index.seconds[-1]:.1f} s"
        )
    if lost:
        before = [n for n in choice.frames if n < lost[0].number]
        last = f"; last good frame {index.seconds[before[-1]]:.1f} s" if before else ""
        sentences.append(
            f"decoded {choice.count - len(lost)} of {choice.count} frames{last}; the first that "
            f"fails is at {index.seconds[lost[0].number]:.1f} s ({lost[0].reason})"
        )
    return "; ".join(sentences) or None


def show_frames(
    video: VideoSource,
    sampling: Sampling,
    output: Path,
    *,
    store: Store,
    question: Question | None = None,
) -> cache.FrameSet:
    """Write the contact sheet of `video` under `sampling` to `output` (.jpg, .png …).

    A `question` determines clip and frame count. Frames are read from the cache or stored there, as
    in an evaluation. Raises VideoError if the video cannot be used.
    """
    with HashCache(store.hashes) as hashes:
        content = video_hash(video, video.stem, hashes)
    job = FrameJob(
        video_id=video.stem,
        path=video,
        video_hash=content,
        samplings=(sampling,),
        duration=question.duration if question else None,
        clip=question.footage.clip if question else None,
    )
    for result in extract([job], store=store):
        if result.error is not None:
            raise result.error
    frames = cache.read_frames(store, content, *job.frame_sets)
    output.parent.mkdir(parents=True, exist_ok=True)
    frames.contact_sheet().save(output)
    return frames


def _cached(store: Store, video_hash: str, fingerprint: str) -> cache.StoredFrames | None:
    """The cached frame set of a video, or None if there is none or any byte of it is damaged."""
    try:
        cache.read_frames(store, video_hash, fingerprint)
        return replace(cache.read_stored(store, video_hash, fingerprint), reused=True)
    except (FileNotFoundError, DamagedFileError):
        return None
