"""`frames`: the frames of each video under each sampling, extracted once."""

import io
import shutil
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache

from rich.filesize import decimal

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.configuration import read_spec
from videomme_pipeline.errors import NotReadyError, VideoError, VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import (
    DecodeTime,
    Frame,
    FrameSet,
    frames_fingerprint,
    read_frames,
)
from videomme_pipeline.frames.extract import FrameJob, FrameResult, extract
from videomme_pipeline.processes.tasks import Workers
from videomme_pipeline.project.runs.journal import journal_of, leased
from videomme_pipeline.project.runs.settings import STORAGE_FILE, StorageSpec
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, VideoPartition, VideoVariant
from videomme_pipeline.stages import stage as stages
from videomme_pipeline.stages.facts import Picture
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.names import StoredName
from videomme_pipeline.storage.objects import file_states
from videomme_pipeline.storage.tables import write_rows
from videomme_pipeline.videos.probe import video_hash

SHEETS_PER_RUN = 50
"""Number of videos with a contact sheet in one run. Dagster's event log stores these pictures."""
FILE_BYTES = "file_bytes"
"""The fact with the size of a stored file."""


class FrameBudget:
    """The limits of `storage.yaml`, and the size of the frames stored so far."""

    def __init__(self, spec: StorageSpec, store: Store) -> None:
        self._spec, self._store = spec, store
        self.stored_bytes = sum(s.bytes for s in file_states(store.path("frames")).values())

    def objection(self) -> str | None:
        """The reason not to store more frames, or None."""
        advice = "free space (videomme cache gc), or change the limit"
        most, least = self._spec.max_frames_gigabytes, self._spec.min_free_gigabytes
        if most is not None and self.stored_bytes > most * 1e9:
            return (
                f"{decimal(self.stored_bytes)} of frames are stored, and {STORAGE_FILE} allows "
                f"`max_frames_gigabytes: {most:g}`; {advice}"
            )
        folder = self._store.local()
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < least * 1e9:
            return (
                f"{folder}: {decimal(free)} are free, and {STORAGE_FILE} keeps "
                f"`min_free_gigabytes: {least:g}`; {advice}"
            )
        return None


def _file_name(benchmark: BenchmarkState, partition: VideoVariant, _: str) -> StoredName:
    """The name of a file of frames, which benchmarks with the same video share."""
    content = benchmark.snapshot.content_hash(partition.video)
    settings = benchmark.snapshot.versions.frame_settings(*partition)
    return StoredName(None, content, settings)


def _build(stage: stages.BenchmarkStage, targets: stages.Targets) -> stages.BuildEvents:
    project, store = stage.project, stage.project.store
    by_video: dict[str, list[stages.Target]] = defaultdict(list)
    for target in targets:
        by_video[str(target.partition.video)].append(target)
    spec = read_spec(project.configuration.folder / STORAGE_FILE, StorageSpec)
    budget = FrameBudget(spec, store)
    objection = budget.objection()
    jobs: list[FrameJob] = []
    for video_id, of_video in by_video.items():
        try:
            jobs.append(_job(stage, video_id, of_video))
        except VideoMMEError as error:
            for target in of_video:
                yield stages.BuildFailure(partition=target.partition, reason=str(error))
    by_video = {job.video_id: by_video[job.video_id] for job in jobs}
    decoded: list[DecodeTime] = []
    with (
        ExitStack() as stack,
        project.workers() as workers,
        closing(_extract(stage, [] if objection else jobs, workers)) as results,
    ):
        stack.callback(_store_cpu_seconds, stage, decoded)  # of a stopped run, too
        for number, result in enumerate(results, start=1):
            for target in by_video.pop(result.job.video_id):
                yield _report(stage, target, result, shows_sheet=number <= SHEETS_PER_RUN)
            stored = f"The frames of {number} of {len(jobs)} videos are stored."
            stage.show("frames", number, len(jobs), stored, workers.description)
            new = [item for item in result.frame_sets if not item.reused]
            decoded += [
                DecodeTime(
                    video_hash=item.video_hash,
                    frames_fingerprint=item.fingerprint,
                    decode_cpu_seconds=result.cpu_seconds / len(new),
                )
                for item in new
            ]
            budget.stored_bytes += sum(item.bytes for item in new)
            objection = budget.objection()
            if objection:
                break
    for of_video in by_video.values():
        for target in of_video:
            yield stages.BuildFailure(partition=target.partition, reason=str(objection))


def _store_cpu_seconds(stage: stages.BenchmarkStage, decoded: Sequence[DecodeTime]) -> None:
    if decoded:
        name = fingerprint(decoded)
        write_rows(stage.project.store.decode_times(name), decoded, DecodeTime, fingerprint=name)


def _extract(
    stage: stages.BenchmarkStage, jobs: Sequence[FrameJob], workers: Workers
) -> Generator[FrameResult]:
    """Extract the frames of `jobs`, each of them by one run if several machines share them."""
    store = stage.project.store
    groups: Iterable[Sequence[FrameJob]] = [jobs]
    database = journal_of(store)
    if database.is_shared and jobs and not stage.project.is_shard:
        names = {  # of the frame sets of each job, the same on all machines
            job: [
                f"frames/{job.video_hash}.{frames_fingerprint(sampling, job.duration, job.clip)}"
                for sampling in job.samplings
            ]
            for job in jobs
        }
        show_once = cache(stage.project.on_message)
        groups = leased(names, database, show_once, lambda: workers.room)
    for group in groups:
        with closing(extract(group, store=store, workers=workers)) as results:
            yield from results


def _job(stage: stages.BenchmarkStage, video_id: str, targets: stages.Targets) -> FrameJob:
    """The extraction of one video, which must still be the one that was probed."""
    snapshot, samplings = stage.benchmark.snapshot, stage.benchmark.samplings
    snapshot.video(video_id)
    path = snapshot.video_file(video_id)
    questions = snapshot.questions[video_id]
    content = snapshot.content_hash(video_id)
    if video_hash(path, video_id, stage.project.hashes) != content:
        if reason := stage.benchmark.failures("videos").reasons().get(VideoPartition(video_id)):
            raise NotReadyError(reason)
        raise VideoError(video_id, f"{path}: the file changed after it was probed; run again")
    return FrameJob(
        video_id=video_id,
        path=path,
        video_hash=content,
        samplings=tuple(
            samplings[str(target.partition.variant)].for_questions(questions) for target in targets
        ),
        duration=questions[0].duration,
        clip=snapshot.reference(video_id).footage.clip,
    )


def _report(
    stage: stages.BenchmarkStage, target: stages.Target, result: FrameResult, *, shows_sheet: bool
) -> stages.BuildResult | stages.BuildFailure:
    settings = target.name.fingerprint
    stored = next((item for item in result.frame_sets if item.fingerprint == settings), None)
    if stored is None:
        reason = result.error or "its process returned neither frames nor an error; run again"
        return stages.BuildFailure(partition=target.partition, reason=str(reason))
    facts: dict[str, object] = {
        "frames": stored.count,
        "requested": stored.asked,
        FILE_BYTES: stored.bytes,
        "decoded_by": stored.decoded_by,
        "limit": stored.limit.value if stored.limit else None,
        "damage": stored.damage or None,
        "wrong_backend": stored.wrong_backend or None,
        "decode_cpu_seconds": round(result.cpu_seconds, 3),
    }
    if shows_sheet and stored.count and find_benchmark(stage.benchmark.name).is_public:
        frames = read_frames(stage.project.store, str(target.name.video), settings)
        facts["contact_sheet"] = _contact_sheet(frames)
    return stages.BuildResult(target=target, facts=facts, by_others=stored.reused)


def _contact_sheet(frames: FrameSet) -> Picture:
    """Small copies of up to 16 frames, as one picture."""
    step = -(-len(frames.frames) // 16)
    shown = replace(frames, frames=frames.frames[::step])
    sheet = shown.contact_sheet(columns=8, width=120)
    data = io.BytesIO()
    sheet.save(data, "JPEG", quality=70)
    return Picture(data.getvalue(), "image/jpeg", "frames")


FRAMES = stages.Stage(
    name="frames",
    description="The frames of each video under each sampling, as they are sent to a model.",
    dimensions=frozenset({Dimension.VIDEO, Dimension.SAMPLING}),
    upstream=("videos",),
    kinds=frozenset({"ffmpeg", "parquet"}),
    row_class=Frame,
    fingerprint=lambda benchmark, partition: benchmark.snapshot.versions.frames(*partition),
    file_name=_file_name,
    inputs=lambda benchmark, partition: {
        "videos": benchmark.snapshot.versions.video(partition.video)
    },
    build=_build,
    uses_workers=True,
)
"""Files are named by content and settings, so benchmarks with the same video share them."""
