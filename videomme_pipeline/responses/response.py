"""The rows of responses and attempts: one model answering one question once, or failing to."""

from dataclasses import dataclass
from datetime import datetime

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.models.video_llm import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One row per (evaluation, question, sample).

    `raw_output` is None exactly when the request failed; `error` then says why. Money is in
    US dollars, None where no price is known, and counts every attempt at the question, as
    `attempts` does; the token counts are those of the last one. `failure` is the kind of
    `error`. `warning` says what is suspicious about an answer (frames that the endpoint seems
    to have dropped). `observation` sets apart answers of an unchanged evaluation that was
    asked again on purpose (a date, for instance); None normally.
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
    reasoning: str | None
    finish_reason: str | None
    error: str | None
    reported_model: str | None
    system_fingerprint: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    usage_json: str | None
    cost_dollars: float | None
    latency_seconds: float | None
    attempts: int
    answered_at: datetime | None
    failure: FailureKind | None = None
    warning: str | None = None
    observation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One request that was sent (or could not be) for a response, and what came of it.

    `failure` is None where it was answered, `status` where nothing came back over HTTP.
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
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    cost_dollars: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow(Attempted):
    """One row per attempt, for audit. Bodies stay in the journal."""

    benchmark: str
    video_id: str


def never_answered(
    question: Question, *, evaluation: str, model: str, sample: int, error: str
) -> Response:
    """The response to a question that was never sent, so that it is counted as failed."""
    return Response(
        benchmark=question.benchmark,
        evaluation=evaluation,
        video_id=question.video_id,
        question_id=question.question_id,
        sample=sample,
        request_fingerprint="",
        model=model,
        num_frames=0,
        raw_output=None,
        reasoning=None,
        finish_reason=None,
        error=error,
        reported_model=None,
        system_fingerprint=None,
        prompt_tokens=None,
        completion_tokens=None,
        cached_tokens=None,
        reasoning_tokens=None,
        usage_json=None,
        cost_dollars=None,
        latency_seconds=None,
        attempts=0,
        answered_at=None,
    )
