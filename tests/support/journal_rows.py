"""Rows of a journal."""

from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime

from tests.support.made_up_requests import question
from videomme_pipeline.models.video_llm import Reply, Usage
from videomme_pipeline.responses.response import Attempt, Response, Served

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SERVED = Served(latency_seconds=0.5, attempts=1, answered_at=NOW)


def attempt(fingerprint: str, **changes: object) -> Attempt:
    base = Attempt(
        request_fingerprint=fingerprint,
        evaluation="test",
        model="m",
        question_id="001-1",
        repeat=0,
        started_at=NOW,
        latency_seconds=0.5,
        status=200,
        failure=None,
        error=None,
        usage=Usage(prompt_tokens=10, completion_tokens=1, cached_tokens=0),
        cost_dollars=0.25,
        usage_json="{}",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def not_asked(fingerprint: str, evaluation: str = "test") -> Response:
    response = Response.not_asked(
        question(1, 1), evaluation=evaluation, model="m", repeat=0, error="not asked"
    )
    return replace(response, request_fingerprint=fingerprint)


def answer(fingerprint: str, text: str = "B") -> Response:
    return not_asked(fingerprint).with_reply(Reply(text=text), SERVED)


def committed(future: "Future[None]") -> None:
    future.result(timeout=10)
