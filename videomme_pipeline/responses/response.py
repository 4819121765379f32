"""The rows of responses and attempts: one model answering one question once, or failing to."""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure, Usage
from videomme_pipeline.rows import NOT_STORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What it took to get a response. Values are None if they are unknown.

    `cost_dollars` (US dollars) and `attempts` count every attempt at the question.
    `latency_seconds` is that of the last attempt.
    """

    cost_dollars: float | None = None
    latency_seconds: float | None = None
    attempts: int = 0
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One row per (evaluation, question, sample).

    `raw_output` is None exactly if the request failed. `error` then says why, and `failure` is
    its kind if it has one. `usage` has the tokens of the last attempt, and `usage_json` is the
    endpoint's own account of them, unchanged. `warning` describes a suspicious answer, for
    example one for which the endpoint seems to have dropped frames. `observation` separates the
    answers of an unchanged evaluation that was asked again on purpose (it is a date, for
    example). It is None otherwise.
    """

    benchmark: str
    evaluation: str
    video_id: str
    question_id: str
    sample: int
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

    @classmethod
    def not_asked(
        cls, question: Question, *, evaluation: str, model: str, sample: int, error: str
    ) -> "Response":
        """The response to a question that was never sent, so that it counts as failed."""
        return cls(
            benchmark=question.benchmark,
            evaluation=evaluation,
            video_id=question.video_id,
            question_id=question.question_id,
            sample=sample,
            request_fingerprint="",
            model=model,
            num_frames=0,
            raw_output=None,
            error=error,
            failure=FailureKind.NOT_ASKED,
        )

    def with_reply(self, reply: Reply, served: Served) -> "Response":
        """This response, answered by `reply`."""
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
        """This response, failed by `failure`, with what the endpoint sent, if anything."""
        response = self.with_reply(failure.reply or Reply(text=""), served)
        return replace(response, raw_output=None, failure=failure.kind, error=str(failure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One request that was sent (or could not be sent) for a response, and its result.

    `failure` is None if it was answered. `status` is None if no HTTP response was received.
    """

    evaluation: str
    question_id: str
    sample: int
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
    """One row per attempt, for audit. Bodies are stored in the journal only."""

    benchmark: str
    video_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Attempted):
    """An attempt as the journal stores it: with its request and the body of the reply."""

    request_fingerprint: str
    usage_json: str | None = None
    body: str | None = None

    def row(self, response: Response) -> AttemptRow:
        """This attempt as a row of the table of attempts, for the response it led to."""
        shared = {item.name: getattr(self, item.name) for item in fields(Attempted)}
        of_response = ("benchmark", "evaluation", "video_id", "question_id", "sample")
        return AttemptRow(**shared | {name: getattr(response, name) for name in of_response})
