"""What asking models for the stale partitions would cost, before a run is started."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from assets.planning.freshness import Freshness, PartitionState
from assets.resources import Benchmark
from assets.stages.responses import Responses, plan_of, requests_of, stored_responses
from assets.stages.scores import Scores
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.responses.estimate import (
    CHARACTERS_PER_TOKEN,
    LONGEST_ANSWER_TOKENS,
    CostEstimate,
    OpenVideo,
    between,
    estimate_cost,
)
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import VideoRequests, planned_requests
from videomme_pipeline.scoring.readers.judge import (
    RULE,
    Judge,
    is_left_to_judge,
    judge_requests,
)
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
    """One estimate for every evaluation of a model behind an endpoint that has something to ask,
    and one for its judge.

    An evaluation whose questions are not known yet is left out: nothing can be said of it.
    """
    behind: dict[tuple[Responses, str], list[str]] = defaultdict(list)
    judged: list[tuple[Benchmark, Evaluation]] = []
    for state in states:
        stage, cell = state.stage, state.cell
        if state.freshness is Freshness.FRESH or cell.variant is None:
            continue
        if isinstance(stage, Responses) and cell.video is not None:
            behind[stage, cell.variant].append(cell.video)
        if isinstance(stage, Scores) and stage.benchmark.questions_version is not None:
            judged.append((stage.benchmark, stage.benchmark.evaluations[cell.variant]))
    return [
        *(
            _estimate(stage.benchmark, stage.benchmark.evaluations[name], videos)
            for (stage, name), videos in behind.items()
            if stage.benchmark.evaluations[name].model.is_remote
        ),
        *(
            _estimate_judge(benchmark, evaluation, evaluation.judge)
            for benchmark, evaluation in judged
            if evaluation.judge is not None
        ),
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
    with _journal(benchmark) as journal:
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
                    wanted = planned_requests(video, evaluation.model.identity, plan)
                    requests -= len(journal.settled(item.fingerprint for item in wanted))
            yield OpenVideo(
                requests=requests,
                text_characters=sum(map(len, texts)) // len(texts),
                frames=frames,
                frame_size=_frame_size(benchmark, evaluation, video_id),
            )


def _estimate_judge(benchmark: Benchmark, evaluation: Evaluation, judge: Judge) -> CostEstimate:
    """Between being asked about the stored answers alone that cannot be read, and also about
    every answer that is still to come."""
    unread: list[tuple[Question, str]] = []
    to_come: list[tuple[Question, str]] = []
    longest = CHARACTERS_PER_TOKEN * (evaluation.decoding.max_tokens or LONGEST_ANSWER_TOKENS)
    for video_id, questions in benchmark.questions.items():
        held = stored_responses(benchmark, evaluation, video_id)
        for question, sample in product(questions, range(evaluation.samples)):
            response = held.get((question.question_id, sample))
            if response is None or response.raw_output is None:
                to_come.append((question, "?" * longest))
            elif is_left_to_judge(question, response.raw_output):
                unread.append((question, response.raw_output))
    requests = dict(judge_requests(judge, unread))
    with _journal(benchmark) as journal:
        settled = journal.settled(requests) if journal else set()
    known = [_text(request) for key, request in requests.items() if key not in settled]
    possible = [_text(request) for _, request in judge_requests(judge, to_come)]
    least, most = (
        estimate_cost(
            f"{evaluation.name}@{RULE}",
            judge.model,
            judge.decoding,
            [_without_frames(texts)],
            questions=sum(map(len, benchmark.questions.values())) * evaluation.samples,
        )
        for texts in (known, [*known, *possible])
    )
    return between(least, most)


def _text(request: VideoRequests) -> str:
    ((_, prompt),) = request.questions
    return prompt.text


def _without_frames(texts: Sequence[str]) -> OpenVideo:
    """Requests of nothing but text, as long as these are on average."""
    return OpenVideo(
        requests=len(texts),
        text_characters=sum(map(len, texts)) // max(len(texts), 1),
        frames=0,
        frame_size=None,
    )


@contextmanager
def _journal(benchmark: Benchmark) -> Iterator[Journal | None]:
    """The journal of the project; None, and none made, where nothing was asked yet."""
    if not benchmark.store.journal.exists():
        yield None
        return
    with Journal(benchmark.store.journal) as journal:
        yield journal


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
