"""Cost of the requests that a run would send to endpoints, estimated before it starts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, product

import numpy as np

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import NotReadyError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.judge.judge import RULE, is_left_to_judge, judge_requests
from videomme_pipeline.models.endpoint.frame_tokens import context_problem
from videomme_pipeline.models.endpoint.spec import EndpointSpec
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
from videomme_pipeline.responses.requests import VideoRequests, pending_requests, settle_stored
from videomme_pipeline.videos.packets import FrameTimes
from videomme_pipeline.videos.probe import Video


def estimate_responses(
    benchmark: BenchmarkState, name: str, video_ids: Sequence[str]
) -> CostEstimate | None:
    """The cost of an evaluation's responses about videos, or None if it asks no endpoint."""
    evaluation = benchmark.evaluations[name]
    model = evaluation.model
    if not isinstance(model, EndpointSpec):
        return None
    selected = benchmark.snapshot.questions_of(evaluation)
    questions = sum(len(selected[video_id]) for video_id in video_ids)
    servers = benchmark.server_record.seen(model)
    if servers and (version := servers[0].identity.version):
        model = model.with_version(version)
    with _journal(benchmark) as journal:
        pending = _Pending(evaluation, model, model.context_tokens(), journal)
        return estimate_cost(
            name,
            model,
            evaluation.generation,
            _pending_videos(benchmark, pending, video_ids),
            questions=questions * evaluation.repeats,
            answers=journal.newest_answers(name) if journal else (),
        )


def _pending_videos(
    benchmark: BenchmarkState, pending: "_Pending", video_ids: Sequence[str]
) -> Iterator[PendingVideo]:
    """Yield the requests about each video.

    They are not certain if the prompts cannot be rendered yet and earlier answers exist.
    """
    evaluation, snapshot = pending.evaluation, benchmark.snapshot
    plan, repeats = plan_of(evaluation), evaluation.repeats
    for video_id in video_ids:
        inputs, row = Inputs(benchmark, video_id, evaluation), snapshot.find_video(video_id)
        try:
            asked = _expected_requests(inputs)
            model = benchmark.server_record.with_server(evaluation.model)
        except VideoMMEError:  # its frames or subtitle lines are not built yet
            texts = [q.question + "\n".join(q.options) for q in inputs.questions]
            answered = snapshot.names("responses").by_partition
            is_certain = (evaluation.name, video_id) not in answered
            requests, count = len(texts) * repeats, _expected_frames(inputs)
            yield pending.about(row, count, texts, requests, is_certain=is_certain)
            continue
        for video in asked:
            texts = [(prompt.system or "") + prompt.text for _, prompt in video.questions]
            requests = len(texts) * repeats
            if pending.journal is not None:
                settled, _ = settle_stored(pending_requests(video, model, plan), pending.journal)
                requests -= len(settled)
            yield pending.about(row, len(video.frame_digests), texts, requests)


@dataclass(frozen=True, slots=True)
class _Pending:
    """The pending requests of `evaluation`, with the reason why `model` cannot answer them."""

    evaluation: Evaluation
    model: EndpointSpec
    context_tokens: int | None
    journal: Journal | None

    def about(
        self,
        video: Video | None,
        frames: int,
        texts: Sequence[str],
        requests: int,
        *,
        is_certain: bool = True,
    ) -> PendingVideo:
        evaluation, lengths = self.evaluation, list(map(len, texts))
        if evaluation.conversation:  # each request has the turns before it
            lengths = list(accumulate(lengths))
        characters = sum(lengths) // max(len(lengths), 1)
        tokens, problem = frame_tokens(video, frames, evaluation), None
        if video is not None and evaluation.sampling is not None and requests:
            problem = context_problem(
                self.context_tokens, frames=frames, frame_tokens=tokens, text_characters=characters
            ) or self.model.pixel_problem(video.stream.size, frames, evaluation.sampling.picture)
        return PendingVideo(
            requests=requests,
            text_characters=characters,
            frame_tokens=tokens,
            is_certain=is_certain,
            problem=problem,
            frames=frames,
            earlier_answers=(len(texts) - 1) / 2 if evaluation.conversation else 0.0,
        )


def _expected_requests(inputs: Inputs) -> list[VideoRequests]:
    """The requests about a video, with its stored prompts or with prompts that are rendered now."""
    try:
        return requests_of(inputs)
    except NotReadyError:
        return requests_of(inputs, inputs.render_prompts())


def estimate_judge(benchmark: BenchmarkState, name: str) -> CostEstimate | None:
    """The cost of an evaluation's judge as a range, or None if it has none.

    The upper bound counts missing answers, too, and the lower one only unreadable stored ones.
    """
    evaluation = benchmark.evaluations[name]
    judge = evaluation.judge
    if judge is None:
        return None
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
        answers = journal.newest_answers(f"{evaluation.name}@{RULE}") if journal else []
    certain = [request for key, request in requests.items() if key not in settled]
    possible = [request for _, request in judge_requests(judge, missing)]
    return estimate_cost(
        f"{evaluation.name}@{RULE}",
        judge.model,
        judge.generation,
        [_judged(certain, is_certain=True), _judged(possible, is_certain=False)],
        questions=sum(map(len, selected.values())) * evaluation.repeats,
        answers=answers,
    )


def _judged(requests: Iterable[VideoRequests], *, is_certain: bool) -> PendingVideo:
    texts = [prompt.text for request in requests for _, prompt in request.questions]
    return PendingVideo(
        requests=len(texts),
        text_characters=sum(map(len, texts)) // max(len(texts), 1),
        frame_tokens=0,
        is_certain=is_certain,
    )


def _journal(benchmark: BenchmarkState) -> AbstractContextManager[Journal | None]:
    database = journal_of(benchmark.store)
    return Journal(database) if database.exists() else nullcontext()


def _expected_frames(inputs: Inputs) -> int:
    """The number of frames that the sampling would choose if they were evenly spaced."""
    sampling = inputs.evaluation.sampling
    if sampling is None:
        return 0
    video = inputs.benchmark.snapshot.find_video(inputs.video_id)
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
