"""Totals over many responses."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from videomme_pipeline.models.video_llm import FailureKind, Usage
from videomme_pipeline.responses.response import Response, Served
from videomme_pipeline.stages.responses import summarize

ANSWERED = Response(
    benchmark="smoke",
    evaluation="test",
    video_id="001",
    question_id="001-1",
    repeat=0,
    request_fingerprint="a",
    model="m",
    num_frames=2,
    raw_output="B",
    finish_reason="stop",
    error=None,
    reported_model="m-1",
    usage=Usage(prompt_tokens=100, completion_tokens=2, cached_tokens=40),
    served=Served(
        cost_dollars=0.5,
        latency_seconds=1.0,
        attempts=1,
        answered_at=datetime(2026, 11, 21, tzinfo=UTC),
    ),
)
FAILED = replace(
    ANSWERED,
    raw_output=None,
    error="timeout: no answer",
    failure=FailureKind.TIMEOUT,
    usage=Usage(),
    served=Served(latency_seconds=600.0, attempts=12),
)


def test_answers_failures_tokens_and_money_are_counted() -> None:
    summary = summarize([ANSWERED, ANSWERED, FAILED])
    assert summary == {
        "responses": 3,
        "succeeded": 2,
        "failed": 1,
        "attempts": 14,
        "prompt_tokens": 200,
        "completion_tokens": 4,
        "cached_tokens": 80,
        "cached_share": pytest.approx(0.4),
        "cost_dollars": 1.0,
        "latency_p50_seconds": 1.0,
        "latency_p95_seconds": 1.0,
        "failed: timeout": 1,
    }


def test_the_cached_share_leaves_out_responses_that_do_not_report_it() -> None:
    silent = replace(ANSWERED, usage=replace(ANSWERED.usage, cached_tokens=None))
    assert summarize([ANSWERED, silent])["cached_share"] == pytest.approx(0.4)
    assert "cached_share" not in summarize([silent])


def test_latencies_are_of_answered_questions_only() -> None:
    quick = [
        replace(ANSWERED, served=Served(latency_seconds=float(second))) for second in range(1, 101)
    ]
    summary = summarize([*quick, FAILED])
    assert summary["latency_p50_seconds"] == 50.0
    assert summary["latency_p95_seconds"] == 95.0


def test_sums_over_no_responses_are_unknown_and_not_zero() -> None:
    summary = summarize([])
    assert summary == {"responses": 0, "succeeded": 0, "failed": 0, "attempts": 0}
