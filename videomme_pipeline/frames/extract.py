"""Extraction of frames from videos to the cache, on workers.

Each worker extracts whole videos. The videos that need the most decoding start first. If there are
fewer videos than cores of this machine, long videos are split at keyframes. The frames of several
samplings are extracted in one pass over the video, and each is decoded once. Cached frames are not
decoded again.
"""

import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.abc import MetaPathFinder
from itertools import chain
from pathlib import Path

from videomme_pipeline.benchmarks.locate import VideoFile, VideoSource
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import DamagedFileError, VideoError, VideoUnreadableError
from videomme_pipeline.fetch.release import Clip
from videomme_pipeline.frames.backends import (
    PYAV,
    DecodedFrame,
    Missing,
    decode_frames,
    refusal_reason,
)
from videomme_pipeline.frames.cache import (
    Frame,
    FrameWriter,
    StoredFrames,
    frames_fingerprint,
    read_frames,
    read_stored,
)
from videomme_pipeline.frames.encoding import EncodedPicture, encode
from videomme_pipeline.frames.plan import Span, packets_needed, plan, split_frames
from videomme_pipeline.frames.sampling import Choice, OnDamage, Sampling
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.tasks import LocalWorkers, TaskResult, Workers, run_tasks
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import RemoteFile
from videomme_pipeline.storage.publish import scratch_folder
from videomme_pipeline.videos.container import VIDEO_LIMITS, index_packets
from videomme_pipeline.videos.files import local_video
from videomme_pipeline.videos.packets import PacketIndex, clip_of

MIN_PACKETS_TO_SPLIT = 3_000
"""A video that needs fewer packets than this (a few seconds of work) is not split."""


@dataclass(frozen=True, kw_only=True)
class FrameJob:
    """One video and the samplings to extract from it, or from a clip of it.

    `duration` selects the frame counts of the samplings.
    """

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
        return {frames_fingerprint(sampling, clip=self.clip): sampling for sampling in samplings}

    @property
    def file(self) -> VideoFile:
        """The local file. `_fetched` yields a job that has one."""
        assert not isinstance(self.path, RemoteFile)
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameResult:
    """The frame sets of one video, and the error that prevented others.

    `cpu_seconds` includes reading, decoding, encoding and writing.
    """

    job: FrameJob
    frame_sets: tuple[StoredFrames, ...] = ()
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
    workers = workers or LocalWorkers()
    pending: list[FrameJob] = []
    reused: dict[FrameJob, tuple[StoredFrames, ...]] = {}
    for job in jobs:
        cached = {name: _cached(store, job.video_hash, name) for name in job.frame_sets}
        frame_sets = tuple(stored for stored in cached.values() if stored is not None)
        missing = tuple(job.frame_sets[name] for name, stored in cached.items() if stored is None)
        todo = replace(job, samplings=missing)
        if todo.samplings:
            pending.append(todo)
            reused[todo] = frame_sets
        else:
            yield FrameResult(job=job, frame_sets=frame_sets)
    if len(pending) > 1:
        pending.sort(key=lambda job: _decoded_bytes(job, store), reverse=True)
    # Only this machine can read the scratch folder with the parts of a split video.
    processes = workers.count if isinstance(workers, LocalWorkers) else 1
    with scratch_folder(store.local("frames")) as scratch:
        tasks = _tasks(pending, store, processes, scratch)
        results = run_tasks(partial(_run, store), tasks, workers=workers, limits=limits)
        for result in _gather(results, store):
            yield replace(result, frame_sets=(*reused[result.job], *result.frame_sets))


def extract_here(job: FrameJob, *, store: Store) -> FrameResult:
    """Extract the frames of one video in this process, even if they are cached.

    The result of a video that cannot be used has an error.

    Raises:
        StorageError: if the data folder cannot be written.
    """
    started = time.process_time()
    with ExitStack() as stack:
        try:
            local = stack.enter_context(_fetched(job))
            index = packet_index(store, local)
            selections = _selections(local, index)
        except VideoError as error:
            return FrameResult(job=job, error=error)
        result = _publish(store, local, index, selections, _pictures(local, index, selections))
    return replace(result, job=job, cpu_seconds=time.process_time() - started)


def packet_index(store: Store, job: FrameJob) -> PacketIndex:
    """The packet index of the job's video or clip. The index of the whole file is stored.

    Raises:
        VideoUnreadableError: if the file has no video stream that can be opened, or the clip is
            outside of the video.
    """
    path = store.packets(job.video_hash)
    index = PacketIndex.load(path)
    if index is None:
        index = index_packets(job.file, job.video_id)
        index.save(path)
    return clip_of(index, job.clip, job.video_id, job.file)


# One video, in one pass.


@contextmanager
def _fetched(job: FrameJob) -> Iterator[FrameJob]:
    """Yield the job with a local file, which is kept during the block."""
    with local_video(job.path, job.video_id) as file:
        yield replace(job, path=file)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Selection:
    """One sampling of one video: the frames to take, and the backend that decodes them."""

    sampling: Sampling
    choice: Choice
    backend: str
    wrong_backend: str | None
    fingerprint: str


_Extracted = tuple[str, Frame]
"""The fingerprint of a frame set, and a frame of the set."""


def _selections(job: FrameJob, index: PacketIndex) -> list[_Selection]:
    selections: list[_Selection] = []
    for name, sampling in job.frame_sets.items():
        wrong_backend = refusal_reason(sampling.backend, job.file, index)
        selections.append(
            _Selection(
                sampling=sampling,
                choice=sampling.choose(index.times),
                backend=PYAV if wrong_backend else sampling.backend,
                wrong_backend=wrong_backend,
                fingerprint=name,
            )
        )
    return selections


def _pictures(
    job: FrameJob,
    index: PacketIndex,
    selections: Sequence[_Selection],
    only: Iterable[int] | None = None,
) -> Iterator[_Extracted | Missing]:
    """The frames of all selections in order of time, each decoded once.

    With `only`, frames with other numbers are left out.
    """
    for backend in dict.fromkeys(selection.backend for selection in selections):
        group = [selection for selection in selections if selection.backend == backend]
        requested = [
            dict(zip(selection.choice.frames, selection.choice.requested_seconds, strict=True))
            for selection in group
        ]
        chosen = set[int]().union(*requested)
        numbers = sorted(chosen if only is None else chosen & set(only))
        requests = list(zip(group, requested, strict=True))
        decoded = decode_frames(job.file, index, numbers, backend)
        yield from _in_order(numbers, (_encode(item, index, requests) for item in decoded))


def _encode(
    item: DecodedFrame | Missing,
    index: PacketIndex,
    requests: Sequence[tuple[_Selection, dict[int, float]]],
) -> tuple[int, list[_Extracted | Missing]]:
    """Encode a frame for every selection that contains it, once per picture spec and size.

    `requests` are the selections with the requested time of each of their frames.
    """
    if isinstance(item, Missing):
        return item.number, [item]
    pictures: dict[object, EncodedPicture] = {}
    extracted: list[_Extracted | Missing] = []
    for selection, requested in requests:
        if item.number not in requested:
            continue
        spec, count = selection.sampling.picture, selection.choice.count
        key = spec, spec.size(item.frame.width, item.frame.height, count)
        if key not in pictures:
            pictures[key] = encode(item.frame, item.rotation, spec, count)
        frame = Frame(
            requested_seconds=requested[item.number],
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
    frame_sets: list[StoredFrames] = []
    errors: list[VideoError] = []
    with ExitStack() as stack:
        writers = {
            selection.fingerprint: stack.enter_context(
                FrameWriter(store, job.video_hash, selection.sampling, job.clip)
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
            if writer.frame_count == 0 or fails:
                problem = damage or "the sampling selects none of its frames"
                advice = "get the file again, or set `on_damage: use_what_decodes`"
                error: VideoError = VideoUnreadableError(
                    job.video_id, f"{job.path}: {problem}; {advice}"
                )
                if not choice.count and choice.by_question:
                    question, reason = next(iter(choice.by_question.items()))
                    error = VideoError(job.video_id, f"question {question}: {reason}")
                errors.append(error)
                continue
            stored = writer.publish(
                choice,
                missing_seconds=[float(index.seconds[item.number]) for item in lost],
                damage=damage,
                decoded_by=selection.backend,
            )
            frame_sets.append(replace(stored, wrong_backend=selection.wrong_backend))
    return FrameResult(job=job, frame_sets=tuple(frame_sets), error=errors[0] if errors else None)


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


# Many videos, in child processes.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """A whole video, or with `frames` a part of it whose pictures are written to `file`."""

    job: FrameJob
    frames: tuple[int, ...] | None = None
    file: Path | None = None
    parts: int = 1


def _tasks(jobs: Sequence[FrameJob], store: Store, workers: int, scratch: Path) -> list[_Task]:
    """One task per video, or several per long video if there are fewer videos than workers."""
    tasks: list[_Task] = []
    for number, job in enumerate(jobs):
        parts = _split(job, store, workers // len(jobs))
        if len(parts) < 2:
            tasks.append(_Task(job=job))
            continue
        tasks.extend(
            _Task(job=job, frames=frames, file=scratch / f"{number}-{part:03}", parts=len(parts))
            for part, frames in enumerate(parts)
        )
    return tasks


def _decoded_bytes(job: FrameJob, store: Store) -> int:
    """The size of the packets to decode, or of the file if its packet index is not stored."""
    index = _stored_index(job, store)
    if index is None:
        return _size(job.path)
    return sum(int(index.sizes[span.first : span.last + 1].sum()) for span in _spans(job, index))


def _stored_index(job: FrameJob, store: Store) -> PacketIndex | None:
    """The packet index of the job's video or clip, or None if no index of the file is stored."""
    index = PacketIndex.load(store.packets(job.video_hash))
    return None if index is None else index.within(job.clip)


def _spans(job: FrameJob, index: PacketIndex) -> list[Span]:
    """The packets that all samplings of a job need."""
    choices = [sampling.choose(index.times) for sampling in job.frame_sets.values()]
    return plan(index, chain.from_iterable(choice.frames for choice in choices))


def _split(job: FrameJob, store: Store, parts: int) -> list[tuple[int, ...]]:
    """The chosen frames of a video in parts, or an empty list if it should not be split.

    Only a video whose packet index is stored is split, since this process opens no video.
    """
    index = _stored_index(job, store) if parts > 1 else None
    if index is None:
        return []
    spans = _spans(job, index)
    if packets_needed(spans) < MIN_PACKETS_TO_SPLIT:
        return []
    return split_frames(spans, parts)


def _run(store: Store, task: _Task) -> FrameResult:
    """Run a task in a child process."""
    block_pandas()
    if task.frames is None or task.file is None:
        return extract_here(task.job, store=store)
    started = time.process_time()
    with _fetched(task.job) as job, task.file.open("wb") as file:
        index = packet_index(store, job)
        for item in _pictures(job, index, _selections(job, index), task.frames):
            pickle.dump(item, file, pickle.HIGHEST_PROTOCOL)
    return FrameResult(job=task.job, cpu_seconds=time.process_time() - started)


def block_pandas() -> None:
    """Prevent pyarrow from importing pandas with the first array that it builds.

    A process that needs no pandas saves 60 MB and a third of a second.
    """
    if _PANDAS_BLOCKER not in sys.meta_path:
        sys.meta_path.insert(0, _PANDAS_BLOCKER)


class _PandasBlocker(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


_PANDAS_BLOCKER = _PandasBlocker()


def _gather(
    results: Iterable[TaskResult[_Task, FrameResult]], store: Store
) -> Iterator[FrameResult]:
    """Yield a result per job. The result of a split video follows its last part."""
    split: dict[FrameJob, list[tuple[Path, FrameResult]]] = defaultdict(list)
    for finished in results:
        task, job = finished.task, finished.task.job
        result = finished.value or FrameResult(
            job=job, error=VideoError.from_child(job.video_id, job.path, finished.error)
        )
        if task.file is None:
            yield result
            continue
        split[job].append((task.file, result))
        if len(split[job]) == task.parts:
            yield _join(split.pop(job), job, store)


def _join(parts: Sequence[tuple[Path, FrameResult]], job: FrameJob, store: Store) -> FrameResult:
    """Publish the frames of a video from the files of its parts."""
    files, errors = sorted(file for file, _ in parts), [part.error for _, part in parts]
    result = FrameResult(job=job, error=next(filter(None, errors), None))
    if result.error is None:
        with _fetched(job) as local:
            index = packet_index(store, local)
            items = chain.from_iterable(map(_unpickle, files))
            result = _publish(store, local, index, _selections(local, index), items)
    for file in files:
        file.unlink(missing_ok=True)
    return replace(result, job=job, cpu_seconds=sum(part.cpu_seconds for _, part in parts))


def _unpickle(file: Path) -> Iterator[_Extracted | Missing]:
    with file.open("rb") as source:
        while True:
            try:
                yield pickle.load(source)
            except EOFError:
                return


def _cached(store: Store, video_hash: str, fingerprint: str) -> StoredFrames | None:
    """The cached frame set of a video, or None if there is none or any byte of it is damaged."""
    try:
        read_frames(store, video_hash, fingerprint)
        return replace(read_stored(store, video_hash, fingerprint), reused=True)
    except (FileNotFoundError, DamagedFileError):
        return None


def _size(path: VideoSource) -> int:
    """The size of a file, or 0 if there is none. The task of the video reports a missing file."""
    if isinstance(path, RemoteFile):
        return path.state.bytes
    return path.stat().st_size if isinstance(path, Path) and path.exists() else 0
