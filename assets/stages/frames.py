"""`frames`: the frames of each video under each sampling, extracted once."""

import io
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache
from time import monotonic

import dagster as dg

from videomme_pipeline.assets.stages.base import (
    BenchmarkStage,
    Built,
    Failed,
    Results,
    Target,
    Targets,
    describe_each,
)
from videomme_pipeline.assets.stages.metadata import picture
from videomme_pipeline.assets.stages.refresh import FILE_BYTES
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.configuration import read_spec
from videomme_pipeline.errors import NotReadyError, VideoError, VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import (
    DecodeTime,
    Frame,
    FrameSet,
    StoredFrames,
    frames_fingerprint,
    read_frames,
    read_stored,
)
from videomme_pipeline.frames.extract import FrameJob, FrameResult, extract
from videomme_pipeline.processes.tasks import Workers
from videomme_pipeline.project.runs.journal import journal_of
from videomme_pipeline.project.runs.leases import leased
from videomme_pipeline.project.state.failures import FailureLog
from videomme_pipeline.project.state.partitions import VideoVariant, partition_of
from videomme_pipeline.project.upkeep.frame_budget import STORAGE_FILE, FrameBudget, StorageSpec
from videomme_pipeline.storage.tables import write_rows
from videomme_pipeline.videos.probe import video_hash

SHEETS_PER_RUN = 50
"""Number of videos with a contact sheet in one run. Dagster's event log stores these pictures."""
SHEET_COLUMNS = 8
SHEET_FRAMES = 16
SHEET_FRAME_WIDTH = 120


class Frames(BenchmarkStage[VideoVariant]):
    """Files are named by content and settings, so benchmarks with the same video share them."""

    name = "frames"
    description = "The frames of each video under each sampling, as they are sent to a model."
    upstream = ("videos",)
    kinds = frozenset({"ffmpeg", "parquet"})
    uses_workers = True
    row_class = Frame

    def target(self, partition: VideoVariant) -> Target[VideoVariant]:
        versions = self.benchmark.snapshot.versions
        sampling = self.benchmark.samplings[partition.variant]
        content = versions.video(partition.video)
        settings = versions.frame_settings(partition.video, sampling)
        return Target(
            partition=partition,
            fingerprint=settings,
            data_version=versions.frames(partition.video, sampling),
            path=self.store.frames(content, settings),
            inputs=self.inputs(videos=content),
        )

    def list_ahead(self) -> None:
        self.benchmark.snapshot.listing.list_ahead(self.name)

    def build(self, targets: Targets[VideoVariant]) -> Results[VideoVariant]:
        by_video: dict[str, list[Target[VideoVariant]]] = defaultdict(list)
        for target in targets:
            by_video[target.partition.video].append(target)
        file = self.project.configuration.folder / STORAGE_FILE
        budget = FrameBudget(read_spec(file, StorageSpec), self.store)
        objection = budget.objection(budget.expected_bytes(t.fingerprint for t in targets))
        jobs: list[FrameJob] = []
        for video_id, of_video in by_video.items():
            try:
                jobs.append(self._job(video_id, of_video))
            except VideoMMEError as error:
                for target in of_video:
                    yield Failed(partition=target.partition, reason=str(error))
        by_video = {job.video_id: by_video[job.video_id] for job in jobs}
        decoded: list[DecodeTime] = []
        with (
            ExitStack() as stack,
            self.project.workers() as workers,
            closing(self._extract([] if objection else jobs, workers)) as results,
        ):
            stack.callback(self._store_cpu_seconds, decoded)  # of a stopped run, too
            began = monotonic()
            for number, result in enumerate(results, start=1):
                now = monotonic()
                self.project.compute.cpu_seconds += result.cpu_seconds
                self.project.compute.node_seconds += (now - began) * workers.nodes
                began = now
                for target in by_video.pop(result.job.video_id):
                    yield self._report(target, result, shows_sheet=number <= SHEETS_PER_RUN)
                stored = f"The frames of {number} of {len(jobs)} videos are stored."
                self.show("frames", number, len(jobs), stored, workers.description)
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
                yield Failed(partition=target.partition, reason=str(objection))

    def _store_cpu_seconds(self, decoded: Sequence[DecodeTime]) -> None:
        if decoded:
            name = fingerprint(decoded)
            write_rows(self.store.decode_times(name), decoded, DecodeTime, fingerprint=name)

    def _extract(self, jobs: Sequence[FrameJob], workers: Workers) -> Generator[FrameResult]:
        """Extract the frames of `jobs`, each of them by one run if several machines share them."""
        groups: Iterable[Sequence[FrameJob]] = [jobs]
        database = journal_of(self.store)
        if database.is_shared and jobs:
            names = {job: _result_names(job) for job in jobs}
            show_once = cache(self.project.on_message)
            groups = leased(names, database, show_once, lambda: workers.room)
        for group in groups:
            with closing(extract(group, store=self.store, workers=workers)) as results:
                yield from results

    def _job(self, video_id: str, targets: Sequence[Target[VideoVariant]]) -> FrameJob:
        """The extraction of one video.

        Raises:
            NotReadyError: if its file cannot be opened any more.
            VideoError: if its file is missing, or has changed since it was probed.
        """
        snapshot, samplings = self.benchmark.snapshot, self.benchmark.samplings
        path = snapshot.source.files(snapshot.reference(video_id)).video
        questions = snapshot.questions[video_id]
        content = snapshot.versions.video(video_id)
        if video_hash(path, video_id, self.project.hashes) != content:
            videos = FailureLog(self.store, f"{self.benchmark.name}/videos")
            if reason := videos.read().get(partition_of(video=video_id)):
                raise NotReadyError(reason)
            raise VideoError(video_id, f"{path}: the file changed after it was probed; run again")
        return FrameJob(
            video_id=video_id,
            path=path,
            video_hash=content,
            samplings=tuple(
                samplings[target.partition.variant].for_questions(questions) for target in targets
            ),
            duration=questions[0].duration,
            clip=snapshot.reference(video_id).footage.clip,
        )

    def _report(
        self, target: Target[VideoVariant], result: FrameResult, *, shows_sheet: bool
    ) -> Built[VideoVariant] | Failed[VideoVariant]:
        stored = next(
            (item for item in result.frame_sets if item.fingerprint == target.fingerprint), None
        )
        if stored is None:
            return Failed(partition=target.partition, reason=str(result.error))
        metadata = _metadata(stored) | _measures(result)
        if stored.wrong_backend:
            metadata["wrong_backend"] = stored.wrong_backend
        if shows_sheet:
            metadata |= self._sheet(target)
        return Built(target=target, metadata=metadata)

    def describe(self, targets: Targets[VideoVariant]) -> Results[VideoVariant]:
        shown, others = targets[:SHEETS_PER_RUN], targets[SHEETS_PER_RUN:]
        yield from describe_each(shown, lambda target: self.metadata(target) | self._sheet(target))
        yield from describe_each(others, self.metadata)

    def metadata(self, target: Target[VideoVariant]) -> dict[str, object]:
        return _metadata(read_stored(self.store, self._content(target), target.fingerprint))

    def _sheet(self, target: Target[VideoVariant]) -> dict[str, object]:
        """The contact sheet of stored frames. Empty without frames, or if they are not public."""
        if not find_benchmark(self.benchmark.name).is_public:
            return {}
        frames = read_frames(self.store, self._content(target), target.fingerprint)
        return {"contact_sheet": contact_sheet(frames)} if frames.frames else {}

    def _content(self, target: Target[VideoVariant]) -> str:
        """Hash of the video of a target."""
        return self.benchmark.snapshot.versions.video(target.partition.video)


def _result_names(job: FrameJob) -> list[str]:
    """The names of the frame sets of a job, the same on all machines."""
    fingerprints = (frames_fingerprint(s, job.duration, job.clip) for s in job.samplings)
    return [f"frames/{job.video_hash}/{name}" for name in fingerprints]


def contact_sheet(frames: FrameSet) -> dg.MarkdownMetadataValue:
    """Small copies of up to `SHEET_FRAMES` frames, as a picture inside Markdown."""
    step = -(-len(frames.frames) // SHEET_FRAMES)
    shown = replace(frames, frames=frames.frames[::step])
    sheet = shown.contact_sheet(columns=SHEET_COLUMNS, width=SHEET_FRAME_WIDTH)
    data = io.BytesIO()
    sheet.save(data, "JPEG", quality=70)
    return picture(data.getvalue(), "image/jpeg", "frames")


def _metadata(stored: StoredFrames) -> dict[str, object]:
    metadata: dict[str, object] = {
        "frames": stored.count,
        "requested": stored.asked,
        FILE_BYTES: stored.bytes,
        "decoded_by": stored.decoded_by,
    }
    if stored.limit:
        metadata["limit"] = stored.limit.value
    if stored.damage:
        metadata["damage"] = stored.damage
    return metadata


def _measures(result: FrameResult) -> dict[str, object]:
    """The CPU time of an extraction, and its speed over all samplings of the video."""
    measures: dict[str, object] = {"decode_cpu_seconds": round(result.cpu_seconds, 3)}
    if result.cpu_seconds > 0:
        count = sum(frame_set.count for frame_set in result.frame_sets)
        measures["frames_per_cpu_second"] = round(count / result.cpu_seconds, 1)
    return measures
