"""Many responses in one line."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from videomme_pipeline.models.video_llm import FailureKind
from videomme_pipeline.responses.response import Response
from videomme_pipeline.responses.summary import summarize

ANSWERED = Response(
    benchmark="smoke",
    evaluation="test",
    video_id="001",
    question_id="001-1",
    sample=0,
    request_fingerprint="a",
    model="m",
    num_frames=2,
    raw_output="B",
    reasoning=None,
    finish_reason="stop",
    error=None,
    reported_model="m-1",
    system_fingerprint=None,
    prompt_tokens=100,
    completion_tokens=2,
    cached_tokens=40,
    reasoning_tokens=None,
    usage_json=None,
    cost_dollars=0.5,
    latency_seconds=1.0,
    attempts=1,
    answered_at=datetime(2026, 11, 21, tzinfo=UTC),
)
FAILED = replace(
    ANSWERED,
    raw_output=None,
    error="timeout: no answer",
    failure=FailureKind.TIMEOUT,
    prompt_tokens=None,
    cached_tokens=None,
    completion_tokens=None,
    cost_dollars=None,
    latency_seconds=600.0,
    attempts=12,
)


def test_answers_failures_tokens_and_money_are_counted() -> None:
    found = summarize([ANSWERED, ANSWERED, FAILED])
    assert (found.responses, found.answered, found.failed, found.attempts) == (3, 2, 1, 14)
    assert found.failures == {FailureKind.TIMEOUT: 1}
    assert (found.prompt_tokens, found.cost_dollars) == (200, 1.0)
    assert found.cached_share == pytest.approx(0.4)
    assert found.reasoning_tokens is None
    assert found.reported_models == ("m-1",)


def test_a_share_leaves_out_responses_that_do_not_report_it() -> None:
    silent = replace(ANSWERED, cached_tokens=None)
    assert summarize([ANSWERED, silent]).cached_share == pytest.approx(0.4)
    assert summarize([silent]).cached_share is None


def test_latencies_are_those_of_answers() -> None:
    quick = [replace(ANSWERED, latency_seconds=float(second)) for second in range(1, 101)]
    found = summarize([*quick, FAILED])
    assert (found.latency_p50_seconds, found.latency_p95_seconds) == (50.0, 95.0)


def test_nothing_is_unknown_and_not_zero() -> None:
    found = summarize([])
    assert (found.responses, found.cost_dollars, found.latency_p50_seconds) == (0, None, None)
