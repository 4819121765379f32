"""Videos to cached frames: each wanted picture is decoded once, in child processes.

One child per core takes whole videos, the largest first; when fewer videos than cores are left,
a long one is shared out by runs of keyframes. Several samplings of a video are read in one
pass. What is in the cache already is not decoded again. Which packets are fed is said in
`frames.plan`, how in `frames.readers`.
"""

import os
import pickle
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.abc import MetaPathFinder
from itertools import chain
from pathlib import Path

from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import FrameCacheError, VideoError, VideoUnreadableError
from videomme_pipeline.frames.backends import Decoded, Missing, read, why_not
from videomme_pipeline.frames.cache import (
    Frame,
    FrameWriter,
    frame_recipe_fingerprint,
    read_frames,
)
from videomme_pipeline.frames.children import Outcome, run_in_children
from videomme_pipeline.frames.jpeg import Picture, encode
from videomme_pipeline.frames.plan import packets_needed, plan, share_out
from videomme_pipeline.frames.sampling import Backend, Choice, Limit, OnDamage, Sampling
from videomme_pipeline.store import Store
from videomme_pipeline.videos.packets import PacketIndex, index_packets

TIME_LIMIT_SECONDS = 900.0
MEMORY_LIMIT_BYTES = 4 << 30
SHARED_OUT_PACKETS = 3_000
"""A video that needs fewer packets than this is not worth sharing out (a few seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameJob:
    """One video and the samplings that are wanted of it; `duration` picks their budgets."""

    video_id: str
    path: Path
    video_hash: str
    samplings: tuple[Sampling, ...]
    duration: Duration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFrames:
    """What the cache holds of a video for one sampling. `reused` when it was there before.

    `wrong_backend` says why the backend that the sampling names was not used.
    """

    sampling: str
    fingerprint: str
    asked: int
    given: int
    limit: Limit | None
    missing: int
    damage: str | None
    bytes: int
    decoded_by: str
    wrong_backend: str | None = None
    reused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameResult:
    """What became of one video: its frame sets, and the error that kept some from being made.

    `decode_seconds` is CPU time, of reading, decoding, encoding and writing together.
    """

    video_id: str
    video_hash: str
    made: tuple[MadeFrames, ...]
    decode_seconds: float = 0.0
    error: VideoError | None = None


def extract(
    jobs: Sequence[FrameJob],
    *,
    store: Store,
    workers: int | None = None,
    time_limit_seconds: float = TIME_LIMIT_SECONDS,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> Generator[FrameResult]:
    """Make the frames of every job that the cache does not hold; a result per job as it finishes.

    A video that cannot be read, crashes its decoder, takes longer than `time_limit_seconds`
    or needs more than `memory_limit_bytes` gives a result with an error; the others go on.
    Closing the iterator ends all child processes.
    """
    count = workers or os.cpu_count() or 1
    lacking: list[FrameJob] = []
    held: dict[FrameJob, tuple[MadeFrames, ...]] = {}
    for job in jobs:
        wanted = {frame_recipe_fingerprint(s, job.duration): s for s in job.samplings}
        found = {name: _held(store, job.video_hash, name) for name in wanted}
        made = tuple(one for one in found.values() if one is not None)
        open_job = replace(job, samplings=tuple(s for f, s in wanted.items() if found[f] is None))
        if open_job.samplings:
            lacking.append(open_job)
            held[open_job] = made
        else:
            yield FrameResult(video_id=job.video_id, video_hash=job.video_hash, made=made)
    lacking.sort(key=lambda job: _size(job.path), reverse=True)
    with tempfile.TemporaryDirectory(prefix="videomme-frames-") as scratch:
        tasks = _tasks(lacking, store, count, Path(scratch))
        outcomes = run_in_children(
            partial(_run, store),
            tasks,
            workers=count,
            time_limit_seconds=time_limit_seconds,
            memory_limit_bytes=memory_limit_bytes,
        )
        for result, job in _gather(outcomes, store):
            yield replace(result, made=(*held[job], *result.made))


def extract_here(job: FrameJob, *, store: Store) -> FrameResult:
    """Make the frames of one video in this process, whatever the cache holds.

    A video that cannot be used gives a result with an error.

    Raises:
        StorageError: when the data folder cannot be written.
    """
    began = time.process_time()
    try:
        index = packet_index(store, job)
        recipes = [_recipe(job, sampling, index) for sampling in job.samplings]
    except VideoError as error:
        return FrameResult(video_id=job.video_id, video_hash=job.video_hash, made=(), error=error)
    result = _publish(store, job, index, recipes, _pictures(job, index, recipes))
    return replace(result, decode_seconds=time.process_time() - began)


def packet_index(store: Store, job: FrameJob) -> PacketIndex:
    """The packet index of a video: the stored one, else read now and stored.

    Raises:
        VideoUnreadableError: when the file holds no video stream that can be opened.
    """
    path = store.packets(job.video_hash)
    index = PacketIndex.load(path)
    if index is None:
        index = index_packets(job.path, job.video_id)
        index.save(path)
    return index


# One video, in one pass.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Recipe:
    """One sampling of one video: the frames to take and the backend that reads them."""

    sampling: Sampling
    choice: Choice
    backend: Backend
    wrong_backend: str | None

    @property
    def fingerprint(self) -> str:
        return frame_recipe_fingerprint(self.sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """A frame of the sampling with that fingerprint."""

    fingerprint: str
    frame: Frame


def _recipe(job: FrameJob, sampling: Sampling, index: PacketIndex) -> _Recipe:
    wanted = sampling.for_duration(job.duration)
    refused = why_not(wanted.backend, job.path, index)
    return _Recipe(
        sampling=wanted,
        choice=wanted.choose(index),
        backend=Backend.PYAV if refused else wanted.backend,
        wrong_backend=refused,
    )


def _pictures(
    job: FrameJob,
    index: PacketIndex,
    recipes: Sequence[_Recipe],
    only: Iterable[int] | None = None,
) -> Iterator[_Taken | Missing]:
    """The frames of all recipes in order of time, each decoded once; `only` limits them."""
    for backend in dict.fromkeys(recipe.backend for recipe in recipes):
        group = [recipe for recipe in recipes if recipe.backend is backend]
        requested = [
            dict(zip(recipe.choice.frames, recipe.choice.requested_seconds, strict=True))
            for recipe in group
        ]
        wanted = set[int]().union(*requested)
        numbers = sorted(wanted if only is None else wanted & set(only))
        takers = list(zip(group, requested, strict=True))
        decoded = read(job.path, index, numbers, backend)
        yield from _in_order(numbers, (_take(item, index, takers) for item in decoded))


def _take(
    item: Decoded | Missing,
    index: PacketIndex,
    takers: Sequence[tuple[_Recipe, dict[int, float]]],
) -> tuple[int, list[_Taken | Missing]]:
    """A decoded frame as each sampling that wants it stores it, encoded once per kind."""
    if isinstance(item, Missing):
        return item.number, [item]
    pictures: dict[object, Picture] = {}
    taken: list[_Taken | Missing] = []
    for recipe, requested in takers:
        if item.number not in requested:
            continue
        spec = recipe.sampling.picture
        if spec not in pictures:
            pictures[spec] = encode(item.frame, item.rotation, spec)
        frame = Frame(
            requested_seconds=requested[item.number],
            pts_seconds=float(index.seconds[item.number]),
            index=item.number,
            is_keyframe=bool(index.is_keyframe[index.shown[item.number]]),
            width=pictures[spec].width,
            height=pictures[spec].height,
            picture=pictures[spec].data,
        )
        taken.append(_Taken(fingerprint=recipe.fingerprint, frame=frame))
    return item.number, taken


def _in_order(
    numbers: Sequence[int], arriving: Iterable[tuple[int, list[_Taken | Missing]]]
) -> Iterator[_Taken | Missing]:
    """What arrives, in the order of `numbers`: what took a second attempt comes late."""
    early: dict[int, list[_Taken | Missing]] = {}
    place = 0
    for number, items in arriving:
        early[number] = items
        while place < len(numbers) and numbers[place] in early:
            yield from early.pop(numbers[place])
            place += 1


def _publish(
    store: Store,
    job: FrameJob,
    index: PacketIndex,
    recipes: Sequence[_Recipe],
    items: Iterable[_Taken | Missing],
) -> FrameResult:
    """Store what comes, and make each frame set visible that is as its sampling wants it."""
    missing: dict[int, Missing] = {}
    made: list[MadeFrames] = []
    errors: list[VideoError] = []
    with ExitStack() as stack:
        writers = {
            recipe.fingerprint: stack.enter_context(
                FrameWriter(store, job.video_hash, recipe.sampling)
            )
            for recipe in recipes
        }
        for item in items:
            if isinstance(item, Missing):
                missing[item.number] = item
            else:
                writers[item.fingerprint].add(item.frame)
        for recipe in recipes:
            writer = writers[recipe.fingerprint]
            lost = [missing[number] for number in recipe.choice.frames if number in missing]
            damage = _damage(index, recipe.choice, lost)
            if writer.frame_count == 0 or (damage and recipe.sampling.on_damage is OnDamage.FAIL):
                errors.append(_unusable(job, damage))
                continue
            writer.publish(
                recipe.choice,
                missing_seconds=[float(index.seconds[item.number]) for item in lost],
                damage=damage,
                decoded_by=recipe.backend.value,
            )
            made.append(
                MadeFrames(
                    sampling=recipe.sampling.name,
                    fingerprint=recipe.fingerprint,
                    asked=recipe.choice.asked,
                    given=writer.frame_count,
                    limit=recipe.choice.limit,
                    missing=len(lost),
                    damage=damage,
                    bytes=writer.picture_bytes,
                    decoded_by=recipe.backend.value,
                    wrong_backend=recipe.wrong_backend,
                )
            )
    return FrameResult(
        video_id=job.video_id,
        video_hash=job.video_hash,
        made=tuple(made),
        error=errors[0] if errors else None,
    )


def _damage(index: PacketIndex, choice: Choice, lost: Sequence[Missing]) -> str | None:
    """What is wrong with a video as far as a choice of frames shows; None when nothing is."""
    found = []
    if index.missing_seconds:
        found.append(
            f"the file is cut off: decoded {index.duration_seconds:.0f} of "
            f"{index.claimed_seconds:.0f} s; last good frame {index.seconds[-1]:.1f} s"
        )
    if lost:
        before = [n for n in choice.frames if n < lost[0].number]
        last = f"; last good frame {index.seconds[before[-1]]:.1f} s" if before else ""
        found.append(
            f"decoded {choice.given - len(lost)} of {choice.given} frames{last}; the first that "
            f"fails is at {index.seconds[lost[0].number]:.1f} s ({lost[0].reason})"
        )
    return "; ".join(found) or None


def _unusable(job: FrameJob, damage: str | None) -> VideoUnreadableError:
    found = damage or "no frame of it is what the sampling takes"
    return VideoUnreadableError(
        job.video_id,
        f"{job.path}: {found}; get the file again, or set `on_damage: use_what_decodes`",
    )


# Many videos, in child processes.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """A whole video, or (with `frames`) a part of one that leaves its pictures in `file`."""

    job: FrameJob
    frames: tuple[int, ...] | None = None
    file: Path | None = None
    parts: int = 1


def _tasks(jobs: Sequence[FrameJob], store: Store, workers: int, scratch: Path) -> list[_Task]:
    """One task per video; with fewer videos than workers, long videos in parts."""
    tasks: list[_Task] = []
    for number, job in enumerate(jobs):
        shares = _shares(job, store, workers // len(jobs))
        if len(shares) < 2:
            tasks.append(_Task(job=job))
            continue
        tasks.extend(
            _Task(job=job, frames=share, file=scratch / f"{number}-{part:03}", parts=len(shares))
            for part, share in enumerate(shares)
        )
    return tasks


def _shares(job: FrameJob, store: Store, parts: int) -> list[tuple[int, ...]]:
    """The wanted frames of a video in parts; one part when it is not worth it.

    Only for a video whose packet index is stored: nothing is opened in this process.
    """
    index = PacketIndex.load(store.packets(job.video_hash)) if parts > 1 else None
    if index is None:
        return []
    choices = [sampling.choose(index, job.duration) for sampling in job.samplings]
    stretches = plan(index, chain.from_iterable(choice.frames for choice in choices))
    if packets_needed(stretches) < SHARED_OUT_PACKETS:
        return []
    return share_out(stretches, parts)


def _run(store: Store, task: _Task) -> FrameResult:
    """What a child does with a task."""
    do_without_pandas()
    if task.frames is None or task.file is None:
        return extract_here(task.job, store=store)
    began = time.process_time()
    job = task.job
    try:
        index = packet_index(store, job)
        recipes = [_recipe(job, sampling, index) for sampling in job.samplings]
        with task.file.open("wb") as file:
            for item in _pictures(job, index, recipes, task.frames):
                pickle.dump(item, file, pickle.HIGHEST_PROTOCOL)
    except VideoError as error:
        return FrameResult(video_id=job.video_id, video_hash=job.video_hash, made=(), error=error)
    return FrameResult(
        video_id=job.video_id,
        video_hash=job.video_hash,
        made=(),
        decode_seconds=time.process_time() - began,
    )


def do_without_pandas() -> None:
    """Keep pyarrow from loading pandas for the first array that it makes, in a process that has no
    other use for it: 60 MB and a third of a second."""
    if _WITHOUT_PANDAS not in sys.meta_path:
        sys.meta_path.insert(0, _WITHOUT_PANDAS)


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


_WITHOUT_PANDAS = _WithoutPandas()


@dataclass(slots=True)
class _Parts:
    """The parts of one video that have come so far."""

    files: list[Path] = field(default_factory=list)
    seconds: float = 0.0
    error: VideoError | None = None


def _gather(
    outcomes: Iterable[Outcome[_Task, FrameResult]], store: Store
) -> Iterator[tuple[FrameResult, FrameJob]]:
    """A result per job: as it comes for a whole video, after the last part for a shared one."""
    shared: dict[FrameJob, _Parts] = {}
    for outcome in outcomes:
        task, job = outcome.given, outcome.given.job
        result = outcome.value or FrameResult(
            video_id=job.video_id,
            video_hash=job.video_hash,
            made=(),
            error=VideoError(job.video_id, f"{job.path}: {outcome.error}"),
        )
        if task.file is None:
            yield result, job
            continue
        parts = shared.setdefault(job, _Parts())
        parts.files.append(task.file)
        parts.seconds += result.decode_seconds
        parts.error = parts.error or result.error
        if len(parts.files) == task.parts:
            yield _join(shared.pop(job), job, store), job


def _join(parts: _Parts, job: FrameJob, store: Store) -> FrameResult:
    """The frames of a video from the files of its parts."""
    if parts.error is not None:
        result = FrameResult(
            video_id=job.video_id, video_hash=job.video_hash, made=(), error=parts.error
        )
    else:
        index = packet_index(store, job)
        recipes = [_recipe(job, sampling, index) for sampling in job.samplings]
        items = chain.from_iterable(_pickled(file) for file in sorted(parts.files))
        result = _publish(store, job, index, recipes, items)
    for file in parts.files:
        file.unlink(missing_ok=True)
    return replace(result, decode_seconds=parts.seconds)


def _pickled(file: Path) -> Iterator[_Taken | Missing]:
    with file.open("rb") as source:
        while True:
            try:
                yield pickle.load(source)
            except EOFError:
                return


def _held(store: Store, video_hash: str, recipe_fingerprint: str) -> MadeFrames | None:
    """What the cache holds of a video for a recipe; a file that is damaged is set aside."""
    try:
        frames = read_frames(store, video_hash, recipe_fingerprint)
    except (FileNotFoundError, FrameCacheError):
        return None
    return MadeFrames(
        sampling=frames.sampling,
        fingerprint=recipe_fingerprint,
        asked=frames.asked,
        given=len(frames.frames),
        limit=frames.limit,
        missing=len(frames.missing_seconds),
        damage=frames.damage,
        bytes=frames.bytes,
        decoded_by=frames.decoded_by,
        reused=True,
    )


def _size(path: Path) -> int:
    """The size of a file, 0 when it is not there (its task will say so)."""
    return path.stat().st_size if path.exists() else 0
