"""The rows of responses and attempts: the answer or failure of one model for one question."""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure, Usage
from videomme_pipeline.rows import NOT_STORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Cost, latency and attempts of a response. Values are None if they are unknown.

    `cost_dollars` (US dollars) and `attempts` count every attempt at the question.
    `latency_seconds` is that of the last attempt. `answered_at` is the time of the answer.
    """

    cost_dollars: float | None = None
    latency_seconds: float | None = None
    attempts: int = 0
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One row per (evaluation, question, repeat).

    `question_id` and `video_id` are ids of the `benchmark`. `repeat` counts the repeats of a
    question in an `evaluation` from 0. `request_fingerprint` is the hash of everything that was
    sent. `model` is the name in models.yaml, and `reported_model` and `system_fingerprint` are what
    the endpoint reports. `num_frames` is the number of frames sent. `reasoning` is the text before
    the answer, if the endpoint separates it, and `finish_reason` the reason why the answer ends.

    `raw_output` is None if and only if the request failed. `error` is then the reason, and
    `failure` its kind if there is one. `usage` has the tokens of the last attempt. `usage_json` is
    the `usage` that the endpoint sent, unchanged. `warning` describes a suspicious answer, for
    example if the endpoint seems to have dropped frames. `observation` (for example a date) is set
    if an unchanged evaluation was asked again on purpose. `server` is what is known about the
    server that answered, as a JSON object, or None.
    """

    benchmark: str
    evaluation: str
    video_id: str
    question_id: str
    repeat: int
    request_fingerprint: str
    model: str
    num_frames: int
    raw_output: str | None
    reasoning: str | None = None
    finish_reason: str | None = None
    error: str | None
    reported_model: str | None = None
    system_fingerprint: str | None = None
    usage: Usage = field(default_factory=Usage)
    usage_json: str | None = None
    served: Served = field(default_factory=Served)
    failure: FailureKind | None = None
    warning: str | None = None
    observation: str | None = None
    server: str | None = None

    @classmethod
    def not_asked(
        cls, question: Question, *, evaluation: str, model: str, repeat: int, error: str
    ) -> "Response":
        """A failed response for a question that was not sent."""
        return cls(
            benchmark=question.benchmark,
            evaluation=evaluation,
            video_id=question.video_id,
            question_id=question.question_id,
            repeat=repeat,
            request_fingerprint="",
            model=model,
            num_frames=0,
            raw_output=None,
            error=error,
            failure=FailureKind.NOT_ASKED,
        )

    def with_reply(self, reply: Reply, served: Served) -> "Response":
        """This response with the answer `reply`."""
        return replace(
            self,
            raw_output=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            error=None,
            reported_model=reply.reported_model,
            system_fingerprint=reply.system_fingerprint,
            usage=reply.usage,
            usage_json=reply.usage_json,
            served=served,
            failure=None,
            warning=reply.warning,
        )

    def with_failure(self, failure: ResponseFailure, served: Served) -> "Response":
        """This response with the error and, if there is one, the completion of `failure`."""
        response = self.with_reply(failure.reply or Reply(text=""), served)
        return replace(response, raw_output=None, failure=failure.kind, error=str(failure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One attempt to get a response, and its result.

    `failure` is None if it was answered. `status` is None if no HTTP response was received.
    """

    evaluation: str
    question_id: str
    repeat: int
    model: str
    started_at: datetime
    latency_seconds: float
    status: int | None
    failure: FailureKind | None
    error: str | None
    usage: Usage = field(default_factory=Usage, metadata={NOT_STORED: ("reasoning_tokens",)})
    cost_dollars: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow(Attempted):
    """One row per attempt, for audit. Only the journal stores bodies."""

    benchmark: str
    video_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Attempted):
    """An attempt in the journal, with its request fingerprint and the body of the reply."""

    request_fingerprint: str
    usage_json: str | None = None
    body: str | None = None

    def row(self, response: Response) -> AttemptRow:
        """The row of this attempt in the table of attempts. `response` is its response."""
        shared = {item.name: getattr(self, item.name) for item in fields(Attempted)}
        of_response = ("benchmark", "evaluation", "video_id", "question_id", "repeat")
        return AttemptRow(**shared | {name: getattr(response, name) for name in of_response})
