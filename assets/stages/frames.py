"""`frames`: the pictures of each video under each sampling, decoded once."""

import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import dagster as dg

from assets.disk import FrameBudget, read_storage
from assets.failures import FailureLog
from assets.partitions import Cell
from assets.resources import Benchmark, Progress
from assets.stages.base import BenchmarkStage, Failed, Made, Target
from assets.stages.metadata import picture
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.frames.cache import (
    NO_FRAMES,
    PICTURE_VERSION,
    PLANNER_VERSION,
    Frame,
    FrameSet,
    ShownFrame,
    read_frames,
    read_shown,
)
from videomme_pipeline.frames.extract import FrameJob, FrameResult, StoredFrames, extract
from videomme_pipeline.store import Store
from videomme_pipeline.subtitles.align import SampledFrames

Stored = TypeVar("Stored")

SHEETS_PER_RUN = 50
"""Contact sheets live in Dagster's event log: a large run shows those of its first videos."""
SHEET_COLUMNS = 8
SHEET_FRAMES = 16
SHEET_FRAME_WIDTH = 120


class Frames(BenchmarkStage):
    """Keyed by content and recipe, so benchmarks that share a video share its frames."""

    name = "frames"
    description = "The pictures of each video under each sampling, as they are sent to a model."
    upstream = ("videos",)
    kinds = frozenset({"ffmpeg", "parquet"})
    row_class = Frame
    code_version = f"1.{PLANNER_VERSION}.{PICTURE_VERSION}"

    def target(self, cell: Cell) -> Target:
        assert cell.video is not None
        assert cell.variant is not None
        versions, sampling = self.benchmark.versions, self.benchmark.samplings[cell.variant]
        content = versions.video(cell.video)
        version = versions.frames(cell.video, sampling)
        assert version is not None
        recipe = versions.recipe(cell.video, sampling)
        return Target(
            cell=cell,
            fingerprint=recipe,
            data_version=version,
            path=self.store.frames(content, recipe),
            inputs=self.inputs(videos=content),
        )

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        by_video: dict[str, list[Target]] = defaultdict(list)
        for target in targets:
            assert target.cell.video is not None
            by_video[target.cell.video].append(target)
        budget = FrameBudget(read_storage(self.benchmark.project.configuration), self.store)
        objection = budget.objection(budget.expected_bytes(t.fingerprint for t in targets))
        jobs = [self._job(video_id, wanted) for video_id, wanted in by_video.items()]
        total = len(jobs)
        with closing(extract([] if objection else jobs, store=self.store)) as results:
            for number, result in enumerate(results, start=1):
                for target in by_video.pop(result.video_id):
                    yield self._told(target, result, shows_sheet=number <= SHEETS_PER_RUN)
                what = f"{self.benchmark.name}: frames"
                self.benchmark.project.on_progress(Progress(what=what, done=number, total=total))
                budget.add(sum(stored.bytes for stored in result.frame_sets if not stored.reused))
                objection = budget.objection()
                if objection:
                    break
        for wanted in by_video.values():
            yield from (Failed(cell=target.cell, reason=str(objection)) for target in wanted)

    def _job(self, video_id: str, targets: Sequence[Target]) -> FrameJob:
        samplings = self.benchmark.samplings
        return FrameJob(
            video_id=video_id,
            path=self.benchmark.media.files(self.benchmark.reference(video_id)).video,
            video_hash=self.benchmark.versions.video(video_id),
            samplings=tuple(samplings[t.cell.variant] for t in targets if t.cell.variant),
            duration=self.benchmark.questions[video_id][0].duration,
        )

    def _told(self, target: Target, result: FrameResult, *, shows_sheet: bool) -> Made | Failed:
        made = next((m for m in result.frame_sets if m.fingerprint == target.fingerprint), None)
        if made is None:
            return Failed(cell=target.cell, reason=str(result.error))
        metadata = _metadata(made, result)
        if shows_sheet and made.given and self.benchmark.media.is_public:
            frames = read_frames(self.store, result.video_hash, made.fingerprint)
            metadata["contact_sheet"] = contact_sheet(frames)
        return Made(target=target, metadata=metadata)


def sampled_frames(benchmark: Benchmark, video_id: str, evaluation: Evaluation) -> SampledFrames:
    """When the frames that an evaluation sends of a video are shown.

    Raises:
        NotReadyError: when the video or its frames are not there.
        FrameCacheError: when they are damaged.
    """
    frames = load_frames(benchmark, video_id, evaluation)
    benchmark.versions.video(video_id)
    video = benchmark.videos[video_id]
    return SampledFrames.of(
        frames.frames, fps=video.average_fps, video_end_seconds=video.duration_seconds
    )


def load_frames(benchmark: Benchmark, video_id: str, evaluation: Evaluation) -> FrameSet:
    """The frames that an evaluation sends of a video; none for a blind one. Raises as above."""
    return _stored(read_frames, benchmark, video_id, evaluation) or NO_FRAMES


def shown_frames(
    benchmark: Benchmark, video_id: str, evaluation: Evaluation
) -> Sequence[ShownFrame]:
    """What is shown in them, without reading a picture. Raises as above."""
    return _stored(read_shown, benchmark, video_id, evaluation) or ()


def _stored(
    read: Callable[[Store, str, str], Stored],
    benchmark: Benchmark,
    video_id: str,
    evaluation: Evaluation,
) -> Stored | None:
    """What `read` finds of the frames that an evaluation sends of a video; None without any."""
    if evaluation.sampling is None:
        return None
    video_hash = benchmark.versions.video(video_id)
    recipe = benchmark.versions.recipe(video_id, evaluation.sampling)
    try:
        return read(benchmark.store, video_hash, recipe)
    except FileNotFoundError:
        failures = FailureLog.of(benchmark.store, f"{benchmark.name}/frames")
        cell = Cell(video=video_id, variant=evaluation.sampling_name)
        raise failures.not_ready(cell) from None


def contact_sheet(frames: FrameSet) -> dg.MarkdownMetadataValue:
    """Small copies of up to `SHEET_FRAMES` frames, as a picture inside Markdown."""
    step = -(-len(frames.frames) // SHEET_FRAMES)
    shown = replace(frames, frames=frames.frames[::step])
    sheet = shown.contact_sheet(columns=SHEET_COLUMNS, width=SHEET_FRAME_WIDTH)
    data = io.BytesIO()
    sheet.save(data, "JPEG", quality=70)
    return picture(data.getvalue(), "image/jpeg", "frames")


def _metadata(made: StoredFrames, result: FrameResult) -> dict[str, object]:
    metadata: dict[str, object] = {
        "frames": made.given,
        "asked": made.asked,
        "bytes": made.bytes,
        "decoded_by": made.decoded_by,
        "decode_cpu_seconds": round(result.cpu_seconds, 3),
    }
    if result.cpu_seconds > 0:
        of_all_samplings = sum(frame_set.given for frame_set in result.frame_sets)
        metadata["frames_per_cpu_second"] = round(of_all_samplings / result.cpu_seconds, 1)
    if made.limit:
        metadata["limit"] = made.limit.value
    if made.damage:
        metadata["damage"] = made.damage
    if made.wrong_backend:
        metadata["wrong_backend"] = made.wrong_backend
    return metadata
