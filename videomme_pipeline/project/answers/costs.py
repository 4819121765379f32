"""Cost of the requests that a run would send to endpoints, estimated before it starts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import NotReadyError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.judge.judge import RULE, Judge, is_left_to_judge, judge_requests
from videomme_pipeline.models.endpoint.remote import RemoteSpec
from videomme_pipeline.project.answers.asking import plan_of, requests_of
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.answers.scores import frame_tokens
from videomme_pipeline.project.runs.journal import journal_of
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.responses.estimate import (
    CHARACTERS_PER_TOKEN,
    MAX_ANSWER_TOKENS,
    CostEstimate,
    PendingVideo,
    estimate_cost,
)
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import VideoRequests, planned_requests
from videomme_pipeline.videos.packets import FrameTimes


@dataclass(kw_only=True)
class PendingRequests:
    """The stale partitions of a benchmark whose build may ask a model.

    `videos` maps names of evaluations to the ids of their videos with stale responses. `scores`
    contains the names of evaluations with stale scores, which matter if a judge reads answers.
    """

    benchmark: BenchmarkState
    videos: dict[str, list[str]] = field(default_factory=dict)
    scores: list[str] = field(default_factory=list)


def estimate_costs(pending: Iterable[PendingRequests]) -> list[CostEstimate]:
    """One estimate per evaluation with requests to an endpoint, and one per judge.

    An evaluation is left out if its questions have not been fetched yet.
    """
    responses, judges = list[CostEstimate](), list[CostEstimate]()
    for part in pending:
        benchmark = part.benchmark
        for name, videos in part.videos.items():
            evaluation = benchmark.evaluations[name]
            if isinstance(evaluation.model, RemoteSpec):
                responses.append(_estimate(benchmark, evaluation, evaluation.model, videos))
        for name in part.scores:
            evaluation = benchmark.evaluations[name]
            if evaluation.judge is not None and benchmark.snapshot.questions_version is not None:
                judges.append(_estimate_judge(benchmark, evaluation, evaluation.judge))
    return [*responses, *judges]


def _estimate(
    benchmark: BenchmarkState, evaluation: Evaluation, model: RemoteSpec, video_ids: Sequence[str]
) -> CostEstimate:
    questions = sum(len(benchmark.snapshot.questions[video_id]) for video_id in video_ids)
    return estimate_cost(
        evaluation.name,
        model,
        evaluation.generation,
        _pending_videos(benchmark, evaluation, video_ids),
        questions=questions * evaluation.repeats,
        context_tokens=model.context_tokens(),
    )


def _pending_videos(
    benchmark: BenchmarkState, evaluation: Evaluation, video_ids: Sequence[str]
) -> Iterator[PendingVideo]:
    """Yield the requests about each video.

    They are not certain if the prompts cannot be rendered yet and earlier answers exist.
    """
    plan, snapshot = plan_of(evaluation), benchmark.snapshot
    with _journal(benchmark) as journal:
        for video_id in video_ids:
            inputs = Inputs(benchmark, video_id, evaluation)
            questions = inputs.questions
            texts = [question.question + "\n".join(question.options) for question in questions]
            requests = len(questions) * evaluation.repeats
            frames = _expected_frames(inputs)
            parts: list[tuple[int, list[str], int]] = []
            is_certain = True
            try:
                for video in _expected_requests(inputs):
                    texts = [(prompt.system or "") + prompt.text for _, prompt in video.questions]
                    requests = len(texts) * evaluation.repeats
                    if journal is not None:
                        model = benchmark.server_record.with_server(evaluation.model)
                        planned = planned_requests(video, model.identity, plan)
                        requests -= len(journal.settled(item.fingerprint for item in planned))
                    parts.append((requests, texts, len(video.frame_digests)))
            except VideoMMEError:  # its frames or subtitle lines are not built yet
                answered = benchmark.store.responses(benchmark.name, evaluation.name, video_id)
                is_certain = not answered.exists()
                parts = [(requests, texts, frames)]
            for requests, texts, frames in parts:
                yield PendingVideo(
                    requests=requests,
                    text_characters=sum(map(len, texts)) // len(texts),
                    frames=frames,
                    frame_tokens=frame_tokens(snapshot.videos.get(video_id), frames, evaluation),
                    is_certain=is_certain,
                )


def _expected_requests(inputs: Inputs) -> list[VideoRequests]:
    """The requests about a video, with its stored prompts or with prompts that are rendered now."""
    try:
        return requests_of(inputs)
    except NotReadyError:
        return requests_of(inputs, inputs.render_prompts())


def _estimate_judge(
    benchmark: BenchmarkState, evaluation: Evaluation, judge: Judge
) -> CostEstimate:
    """The cost of a judge, as a range.

    The lower bound counts the stored answers that cannot be read. The upper bound also counts every
    answer that is still missing.
    """
    unread: list[tuple[Question, str]] = []
    missing: list[tuple[Question, str]] = []
    longest = CHARACTERS_PER_TOKEN * (evaluation.generation.max_tokens or MAX_ANSWER_TOKENS)
    selected = benchmark.snapshot.questions_of(evaluation)
    for video_id, questions in selected.items():
        responses = Inputs(benchmark, video_id, evaluation).responses()
        for question, repeat in product(questions, range(evaluation.repeats)):
            response = responses.get((question.question_id, repeat))
            if response is None or response.raw_output is None:
                missing.append((question, "?" * longest))
            elif is_left_to_judge(question, response.raw_output):
                unread.append((question, response.raw_output))
    judge = judge.served_by(benchmark.server_record.with_server)
    requests = dict(judge_requests(judge, unread))
    with _journal(benchmark) as journal:
        settled = journal.settled(requests) if journal else set()
    certain = [_text(request) for key, request in requests.items() if key not in settled]
    possible = [_text(request) for _, request in judge_requests(judge, missing)]
    return estimate_cost(
        f"{evaluation.name}@{RULE}",
        judge.model,
        judge.generation,
        [_without_frames(certain), _without_frames(possible, is_certain=False)],
        questions=sum(map(len, selected.values())) * evaluation.repeats,
    )


def _text(request: VideoRequests) -> str:
    ((_, prompt),) = request.questions
    return prompt.text


def _without_frames(texts: Sequence[str], *, is_certain: bool = True) -> PendingVideo:
    """One request per text, without frames."""
    return PendingVideo(
        requests=len(texts),
        text_characters=sum(map(len, texts)) // max(len(texts), 1),
        frames=0,
        frame_tokens=0,
        is_certain=is_certain,
    )


@contextmanager
def _journal(benchmark: BenchmarkState) -> Iterator[Journal | None]:
    """The journal of the project, or None if it does not exist yet."""
    database = journal_of(benchmark.store)
    if not database.exists():
        yield None
        return
    with Journal(database) as journal:
        yield journal


def _expected_frames(inputs: Inputs) -> int:
    """The number of frames that the sampling would choose; 1 for a video that was not probed.

    Frames and keyframes are assumed to be evenly spaced.
    """
    sampling = inputs.evaluation.sampling
    if sampling is None:
        return 0
    video = inputs.benchmark.snapshot.videos.get(inputs.video_id)
    if video is None:
        return 1
    timing = video.timing
    seconds = np.arange(timing.frame_count) / timing.average_fps
    keyframes = np.linspace(
        0, timing.frame_count, timing.keyframe_count, endpoint=False, dtype=np.int64
    )
    times = FrameTimes(seconds, keyframes, timing.duration_seconds)
    choice = sampling.for_questions(inputs.questions).choose(times, inputs.questions[0].duration)
    own = [len(numbers) for numbers in choice.by_question.values() if not isinstance(numbers, str)]
    return sum(own) // len(own) if own else choice.count
