"""What asking the stale partitions of `responses` would cost, before a run is started."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assets.freshness import Freshness, PartitionState
from assets.resources import Benchmark
from assets.responses import Responses, plan_of, requests_of
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.models.catalog import ModelKind
from videomme_pipeline.responses.estimate import (
    CostEstimate,
    OpenVideo,
    estimate_cost,
    request_fingerprints,
)
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.videos.probe import Video


@dataclass(frozen=True, slots=True)
class _EvenFrames:
    """When the frames of a video are shown, if they are as far apart as they are on average."""

    video: Video

    @property
    def seconds(self) -> NDArray[np.float64]:
        return np.arange(self.video.frame_count) / self.video.average_fps

    @property
    def keyframes(self) -> NDArray[np.int64]:
        return np.linspace(
            0, self.video.frame_count, self.video.keyframe_count, endpoint=False, dtype=np.int64
        )

    @property
    def duration_seconds(self) -> float:
        return self.video.duration_seconds


def estimate_costs(states: Iterable[PartitionState]) -> list[CostEstimate]:
    """One estimate for every evaluation of a model behind an endpoint that has something to ask.

    An evaluation whose questions are not known yet is left out: nothing can be said of it.
    """
    behind: dict[tuple[Responses, str], list[str]] = defaultdict(list)
    for state in states:
        if (
            isinstance(state.stage, Responses)
            and state.freshness is not Freshness.FRESH
            and state.cell.video is not None
            and state.cell.variant is not None
        ):
            behind[state.stage, state.cell.variant].append(state.cell.video)
    return [
        _estimate(stage.benchmark, stage.benchmark.evaluations[name], videos)
        for (stage, name), videos in behind.items()
        if stage.benchmark.evaluations[name].model.kind is ModelKind.OPENAI_COMPATIBLE
    ]


def _estimate(
    benchmark: Benchmark, evaluation: Evaluation, video_ids: Sequence[str]
) -> CostEstimate:
    questions = sum(len(benchmark.questions[video_id]) for video_id in video_ids)
    return estimate_cost(
        evaluation.name,
        evaluation.model,
        evaluation.decoding,
        _open_videos(benchmark, evaluation, video_ids),
        questions=questions * evaluation.samples,
    )


def _open_videos(
    benchmark: Benchmark, evaluation: Evaluation, video_ids: Sequence[str]
) -> Iterator[OpenVideo]:
    plan = plan_of(evaluation)
    with ExitStack() as stack:
        journal = None
        if benchmark.store.journal.exists():
            journal = stack.enter_context(Journal(benchmark.store.journal))
        for video_id in video_ids:
            asked = benchmark.questions[video_id]
            texts = [question.question + "\n".join(question.options) for question in asked]
            requests = len(asked) * evaluation.samples
            frames = _expected_frames(benchmark, evaluation, video_id)
            try:
                video = requests_of(benchmark, evaluation, video_id)
            except VideoMMEError:
                pass  # Its prompts are to be made first: the questions alone are known.
            else:
                texts = [(prompt.system or "") + prompt.text for _, prompt in video.questions]
                frames = len(video.frame_digests)
                if journal is not None:
                    wanted = request_fingerprints(video, evaluation.model.identity, plan)
                    requests -= len(journal.settled(wanted))
            yield OpenVideo(
                requests=requests,
                text_characters=sum(map(len, texts)) // len(texts),
                frames=frames,
                frame_size=_frame_size(benchmark, evaluation, video_id),
            )


def _expected_frames(benchmark: Benchmark, evaluation: Evaluation, video_id: str) -> int:
    """How many frames the sampling would choose; one where the video is not there yet."""
    if evaluation.sampling is None:
        return 0
    video = benchmark.videos.get(video_id)
    if video is None:
        return 1
    duration = benchmark.questions[video_id][0].duration
    return evaluation.sampling.choose(_EvenFrames(video), duration).given


def _frame_size(
    benchmark: Benchmark, evaluation: Evaluation, video_id: str
) -> tuple[int, int] | None:
    video = benchmark.videos.get(video_id)
    if video is None or evaluation.sampling is None:
        return None
    return evaluation.sampling.picture.size(video.width, video.height)
