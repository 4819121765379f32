"""The requests about one video: fingerprints in the journal, turns, attempts and retries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import NO_FRAMES, FrameSet
from videomme_pipeline.models.spec import Limits, ModelSpec, Schedule
from videomme_pipeline.models.video_llm import (
    FailureKind,
    Generation,
    Reply,
    Request,
    ResponseFailure,
    Turn,
    VideoLLM,
)
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.response import Attempt, Response, Served
from videomme_pipeline.subtitles.align import AlignedLine

FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 60.0
RESPONSE_VERSION = 1
"""Part of every request's fingerprint. Increase it when the same request is sent differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRequests:
    """All questions about one video, which are the turns of a conversation if `is_conversation`.

    `frame_digests` identify the frames in the order in which they are sent. `load_frames` reads
    the frames, in a thread, if a question is not answered yet. `error` is the reason why it will
    fail, so that the answer of a request without frames is not taken for these questions.
    `lines` are the subtitles for a model that `reads_parts`, and None for other models.
    """

    video_id: str
    questions: Sequence[tuple[Question, Prompt]]
    lines: Sequence[AlignedLine] | None = None
    frame_digests: Sequence[str]
    load_frames: Callable[[], FrameSet]
    error: str | None = None
    is_conversation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """Settings of the requests of one evaluation, except the questions and the model.

    Responses contain the name `evaluation`. Each question is asked `repeats` times. With a new
    `observation` (for example a date), an unchanged evaluation is asked again. `max_cost_dollars`
    limits one collection. `limits` limit the whole evaluation.
    """

    evaluation: str
    generation: Generation = field(default_factory=Generation)
    repeats: int = 1
    schedule: Schedule = Schedule.TOGETHER
    observation: str | None = None
    limits: Limits = field(default_factory=Limits)
    max_cost_dollars: float | None = None

    @property
    def cost_name(self) -> str:
        """The name under which costs are counted. Each observation has the full budget."""
        observation = "" if self.observation is None else f"@{self.observation}"
        return self.evaluation + observation


def planned_requests(
    video: VideoRequests,
    identity: Mapping[str, object],
    plan: RequestPlan,
    *,
    needs_frames: bool = True,
) -> list[Request]:
    """One request without frames per repeat and question; of a conversation, the first question."""
    video_part = fingerprint(
        version=RESPONSE_VERSION,
        model=identity,
        decoding=plan.generation,  # another name would ask every question again
        observation=plan.observation,
        frames=[*video.frame_digests, *filter(None, [video.error])] if needs_frames else [],
    )
    return [
        Request(
            question=question,
            prompt=prompt,
            frames=NO_FRAMES,
            generation=plan.generation,
            lines=video.lines or (),
            repeat=repeat,
            fingerprint=fingerprint(
                video_part,
                *_parts(question, video.lines),
                question.benchmark,
                question.question_id,
                question.options,
                prompt.system,
                prompt.text,
                (*filter(None, [prompt.before_frames]), *prompt.after_frame),
                repeat,
            ),
        )
        for repeat in range(plan.repeats)
        for question, prompt in video.questions[: 1 if video.is_conversation else None]
    ]


def _parts(question: Question, lines: Sequence[AlignedLine] | None) -> Sequence[object]:
    """The parts of a question that a model that `reads_parts` gets beside the prompt."""
    if lines is None:
        return ()
    spoken = [(line.start_seconds, line.end_seconds, line.text) for line in lines]
    return question.question, question.footage.clip, spoken


@dataclass(slots=True, kw_only=True, eq=False)
class PendingRequest:
    """A request that is not settled.

    `planned` is the request without its frames, `response` the response until it is settled, and
    `first_sent` the time of the first attempt by the clock of the event loop. `later` are the next
    questions of its conversation.
    """

    planned: Request
    response: Response
    plan: RequestPlan
    later: Sequence[tuple[Question, Prompt]] = ()
    attempts: list[Attempt] = field(default_factory=list)
    first_sent: float | None = None

    @classmethod
    def of(cls, planned: Request, plan: RequestPlan, model: str, num_frames: int) -> Self:
        """A request to `model` with `num_frames` frames that is not sent yet."""
        response = replace(
            Response.not_asked(
                planned.question,
                evaluation=plan.evaluation,
                model=model,
                repeat=planned.repeat,
                error="not asked",
            ),
            request_fingerprint=planned.fingerprint,
            num_frames=num_frames,
            observation=plan.observation,
        )
        return cls(planned=planned, response=response, plan=plan)

    def settle(self, response: Response) -> list[Response]:
        """`response`, and if it is a failure, those of the later turns, which are not asked."""
        self.response = response
        name, model, repeat = self.plan.evaluation, response.model, response.repeat
        error = f"not asked: asked after a failed turn ({response.question_id})"
        return [response] + [
            Response.not_asked(question, evaluation=name, model=model, repeat=repeat, error=error)
            for question, _ in self.later
            if response.raw_output is None
        ]

    @property
    def next_turn(self) -> Self | None:
        """The next request of the conversation, or None at its end and without an answer."""
        if self.response.raw_output is None or not self.later:
            return None
        answer = self.response.raw_output.replace("\0", "\ufffd")  # as the journal stores it
        request, ((question, prompt), *later) = self.planned, self.later
        before, after = request.prompt.before_frames, request.prompt.after_frame
        asked = question.question, question.options, prompt.system, prompt.text
        planned = replace(
            request,
            question=question,
            prompt=replace(prompt, before_frames=before, after_frame=after),
            history=(*request.history, Turn(prompt=request.prompt, answer=answer)),
            fingerprint=fingerprint(request.fingerprint, answer, *asked),  # of every turn so far
        )
        pending = self.of(planned, self.plan, self.response.model, self.response.num_frames)
        return replace(pending, later=later)

    @property
    def fingerprint(self) -> str:
        return self.planned.fingerprint

    @property
    def deadline(self) -> float | None:
        """The time at which the request fails, or None before its first attempt."""
        sent = self.first_sent
        return None if sent is None else sent + self.plan.limits.deadline_seconds

    def add_attempt(
        self, result: Reply | ResponseFailure, started_at: datetime, latency_seconds: float
    ) -> None:
        failure = result if isinstance(result, ResponseFailure) else None
        reply = completion_of(result) or Reply(text="")
        self.attempts.append(
            Attempt(
                request_fingerprint=self.fingerprint,
                evaluation=self.plan.cost_name,
                model=self.response.model,
                question_id=self.planned.question.question_id,
                repeat=self.planned.repeat,
                started_at=started_at,
                latency_seconds=latency_seconds,
                status=200 if failure is None else failure.status,
                failure=None if failure is None else failure.kind,
                error=None if failure is None else str(failure),
                usage=reply.usage,
                cost_dollars=reply.cost_dollars,
                usage_json=reply.usage_json,
                body=reply.body,
            )
        )

    def too_late(self) -> ResponseFailure:
        """The failure of a request that was not answered before its deadline."""
        message = f"no answer within {self.plan.limits.deadline_seconds:g} s"
        if self.attempts:
            message += f"; attempt {len(self.attempts)} failed with {self.attempts[-1].error}"
        return ResponseFailure(FailureKind.DEADLINE, message)

    def retry_delay(self, failure: ResponseFailure, now: float, chance: float) -> float | None:
        """Seconds to wait before the next attempt, or None to give up.

        The delay is at least the Retry-After, if the endpoint sent one. Otherwise it is between
        half and all of a maximum that doubles with each attempt, as `chance` in [0, 1) says. No
        retry starts after the deadline. Lost connections do not count as attempts: a long outage
        stops the run, and not the questions that were in flight.
        """
        limits, failures = self.plan.limits, [attempt.failure for attempt in self.attempts]
        attempts = len(failures) - failures.count(FailureKind.CONNECTION)
        generated = sum(bool(kind and kind.was_generated) for kind in failures)
        if not failure.kind.is_transient or attempts >= limits.max_attempts:
            return None
        if failure.kind.was_generated and generated >= limits.max_attempts_generated:
            return None
        if failure.retry_after_seconds is not None:
            delay = failure.retry_after_seconds + 0.25 * chance
        else:
            ceiling = min(FIRST_BACKOFF_SECONDS * 2.0 ** (len(failures) - 1), MAX_BACKOFF_SECONDS)
            delay = ceiling * (0.5 + 0.5 * chance)
        return None if self.deadline is not None and now + delay >= self.deadline else delay

    def response_to(
        self, result: Reply | ResponseFailure, answered_at: datetime | None
    ) -> Response:
        """The final response if the last result of the request is `result`."""
        costs = [a.cost_dollars for a in self.attempts if a.cost_dollars is not None]
        served = Served(
            cost_dollars=sum(costs) if costs else None,
            latency_seconds=self.attempts[-1].latency_seconds if self.attempts else None,
            attempts=len(self.attempts),
            answered_at=answered_at,
        )
        if isinstance(result, Reply):
            return self.response.with_reply(result, served)
        return self.response.with_failure(result, served)


def pending_requests(
    video: VideoRequests, model: VideoLLM | ModelSpec, plan: RequestPlan
) -> list[PendingRequest]:
    """The `planned_requests` about `video` to `model`, with the later turns of conversations."""
    needs_frames = model.needs_frames
    num_frames = len(video.frame_digests) if needs_frames else 0
    later = video.questions[1:] if video.is_conversation else ()
    return [
        replace(PendingRequest.of(planned, plan, model.name, num_frames), later=later)
        for planned in planned_requests(video, model.identity, plan, needs_frames=needs_frames)
    ]


def settle_stored(
    requests: Sequence[PendingRequest], journal: Journal
) -> tuple[list[Response], list[PendingRequest]]:
    """The stored responses to `requests` and their later turns, and the requests without one."""
    responses, unsettled = list[Response](), list[PendingRequest]()
    while requests:
        stored = journal.stored_responses(request.response for request in requests)
        settled = [request for request in requests if request.fingerprint in stored]
        unsettled += [request for request in requests if request.fingerprint not in stored]
        for request in settled:
            responses += request.settle(stored[request.fingerprint])
        requests = [turn for request in settled if (turn := request.next_turn)]
    return responses, unsettled


def completion_of(result: Reply | ResponseFailure | None) -> Reply | None:
    """The completion that the endpoint charges for, or None. A failure can have one too."""
    return result.reply if isinstance(result, ResponseFailure) else result
