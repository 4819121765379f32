"""Cost of the requests that a run would send to endpoints, estimated before it starts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
        return estimate_cost(
            name,
            model,
            evaluation.generation,
            _pending_videos(benchmark, _Pending(evaluation, model, journal), video_ids),
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


class _Pending:
    """The pending requests of `evaluation`, with the reason why `model` cannot answer them."""

    def __init__(
        self, evaluation: Evaluation, model: EndpointSpec, journal: Journal | None
    ) -> None:
        self.evaluation, self.journal = evaluation, journal
        self._model, self._context_tokens = model, model.context_tokens()

    def about(
        self,
        video: Video | None,
        frames: int,
        texts: Sequence[str],
        requests: int,
        *,
        is_certain: bool = True,
    ) -> PendingVideo:
        tokens, sampling = frame_tokens(video, frames, self.evaluation), self.evaluation.sampling
        answers = 0.0
        if self.evaluation.conversation:  # each request has the turns before it
            texts, answers = list(accumulate(texts)), (len(texts) - 1) / 2
        pending = _pending(texts, requests, tokens, is_certain=is_certain)
        pending = replace(pending, frames=frames, earlier_answers=answers)
        if video is None or sampling is None or not requests:
            return pending
        problem = context_problem(
            self._context_tokens,
            frames=frames,
            frame_tokens=tokens,
            text_characters=pending.text_characters,
        )
        pixels = self._model.pixel_problem(video.stream.size, frames, sampling.picture)
        return replace(pending, problem=problem or pixels)


def _pending(
    texts: Sequence[str], requests: int, frame_tokens: int | None, *, is_certain: bool = True
) -> PendingVideo:
    return PendingVideo(
        requests=requests,
        text_characters=sum(map(len, texts)) // max(len(texts), 1),
        frame_tokens=frame_tokens,
        is_certain=is_certain,
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
    certain = _texts(request for key, request in requests.items() if key not in settled)
    possible = _texts(request for _, request in judge_requests(judge, missing))
    return estimate_cost(
        f"{evaluation.name}@{RULE}",
        judge.model,
        judge.generation,
        [
            _pending(certain, len(certain), 0),
            _pending(possible, len(possible), 0, is_certain=False),
        ],
        questions=sum(map(len, selected.values())) * evaluation.repeats,
        answers=answers,
    )


def _texts(requests: Iterable[VideoRequests]) -> list[str]:
    return [prompt.text for request in requests for _, prompt in request.questions]


@contextmanager
def _journal(benchmark: BenchmarkState) -> Iterator[Journal | None]:
    database = journal_of(benchmark.store)
    if not database.exists():
        yield None
        return
    with Journal(database) as journal:
        yield journal


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
