"""The rows of responses and attempts: the answer or failure of one model for one question."""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime

import orjson

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure, Usage
from videomme_pipeline.rows import NOT_STORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Cost, latency and attempts of a response. Values are None if they are unknown."""

    cost_dollars: float | None = None
    """US dollars for all attempts at the question."""
    latency_seconds: float | None = None
    """Latency of the last attempt."""
    attempts: int = 0
    """Number of attempts at the question."""
    answered_at: datetime | None = None
    """Time of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One row per (evaluation, question, repeat)."""

    benchmark: str
    """Name of the benchmark."""
    evaluation: str
    """Name of the evaluation."""
    video_id: str
    """The dataset's id of the video (three digits in Video-MME)."""
    question_id: str
    """Id of the question, unique in the benchmark."""
    repeat: int
    """Number of the repeat of the question, from 0."""
    request_fingerprint: str
    """Hash of everything that was sent."""
    model: str
    """Name of the model in models.yaml."""
    num_frames: int
    """Number of frames that were sent."""
    raw_output: str | None
    """Text of the answer; None if and only if the request failed."""
    reasoning: str | None = None
    """Text before the answer, if the endpoint separates it."""
    finish_reason: str | None = None
    """Reason why the answer ends, as the endpoint reports it, or None."""
    error: str | None
    """Reason why there is no answer, or None."""
    reported_model: str | None = None
    """Name of the model that the endpoint reports, or None."""
    system_fingerprint: str | None = None
    """System fingerprint that the endpoint reports, or None."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of the last attempt."""
    usage_json: str | None = None
    """The `usage` object that the endpoint sent, unchanged. That of a program is an object with
    its `usage`, `frames_used` and `trace`."""
    served: Served = field(default_factory=Served)
    """Cost, latency and attempts."""
    failure: FailureKind | None = None
    """Kind of the failure, or None."""
    warning: str | None = None
    """Suspicion about the answer, for example that frames seem to be missing."""
    observation: str | None = None
    """Name of the repetition, say a date, if an unchanged evaluation was asked again on purpose."""
    server: str | None = None
    """Known facts about the server that answered, as a JSON object, or None."""

    @property
    def used_frames(self) -> int:
        """Number of frames that a program reports to have used, or else of those that were sent."""
        used = orjson.loads(self.usage_json or "{}").get("frames_used")
        return self.num_frames if used is None else len(used)

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
class AttemptRecord:
    """One attempt to get a response, and its result."""

    evaluation: str
    """Name of the evaluation."""
    question_id: str
    """Id of the question, unique in the benchmark."""
    repeat: int
    """Number of the repeat of the question, from 0."""
    model: str
    """Name of the model in models.yaml."""
    started_at: datetime
    """Time at which the request was sent."""
    latency_seconds: float
    """Time until the result."""
    status: int | None
    """HTTP status, or None if no HTTP response was received."""
    failure: FailureKind | None
    """Kind of the failure, or None if the question was answered."""
    error: str | None
    """Reason of the failure, or None."""
    usage: Usage = field(
        default_factory=Usage, metadata={NOT_STORED: ("reasoning_tokens", "text_tokens")}
    )
    """Tokens of the attempt."""
    cost_dollars: float | None = None
    """US dollars for the attempt, or None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow(AttemptRecord):
    """One row per attempt, for audit. Only the journal stores bodies."""

    benchmark: str
    """Name of the benchmark."""
    video_id: str
    """The dataset's id of the video (three digits in Video-MME)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(AttemptRecord):
    """An attempt in the journal."""

    request_fingerprint: str
    usage_json: str | None = None
    body: str | None = None

    def row(self, response: Response) -> AttemptRow:
        """The row of this attempt in the table of attempts. `response` is its response."""
        shared = {item.name: getattr(self, item.name) for item in fields(AttemptRecord)}
        of_response = ("benchmark", "evaluation", "video_id", "question_id", "repeat")
        return AttemptRow(**shared | {name: getattr(response, name) for name in of_response})
