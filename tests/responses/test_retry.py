"""Retries of a failed question."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_up_requests import videos
from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure
from videomme_pipeline.responses.requests import (
    MAX_BACKOFF_SECONDS,
    PendingRequest,
    RequestPlan,
    planned_requests,
)

LIMITS = Limits(deadline_seconds=900, max_attempts=12, max_attempts_generated=3)
PLAN = RequestPlan(evaluation="test", limits=LIMITS)
(PLANNED,) = planned_requests(videos(1, 1)[0], {"name": "served"}, PLAN)


def delay(
    kind: FailureKind,
    attempts: int = 1,
    elapsed: float = 0.0,
    chance: float = 0.0,
    retry_after: float | None = None,
    generated: int = 0,
) -> float | None:
    pending = PendingRequest.of(PLANNED, PLAN, "served", 2)
    pending.first_sent = 1000.0
    for failed in [FailureKind.EMPTY] * generated + [FailureKind.TIMEOUT] * (attempts - generated):
        pending.add_attempt(ResponseFailure(failed, "made up"), datetime.now(UTC), 0.0)
    failure = ResponseFailure(kind, "made up", retry_after_seconds=retry_after)
    return pending.retry_delay(failure, 1000.0 + elapsed, chance)


@given(
    st.sampled_from([kind for kind in FailureKind if kind.is_transient]),
    st.integers(1, 20),
    st.floats(0, 1000),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0, 500),
)
def test_no_delay_is_shorter_than_requested_or_ends_after_the_deadline(
    kind: FailureKind, attempts: int, elapsed: float, chance: float, retry_after: float | None
) -> None:
    seconds = delay(kind, attempts, elapsed, chance, retry_after)
    if seconds is None:
        return
    assert elapsed + seconds < LIMITS.deadline_seconds
    assert attempts < LIMITS.max_attempts
    if retry_after is None:
        assert 0 < seconds <= MAX_BACKOFF_SECONDS
    else:
        assert retry_after <= seconds <= retry_after + 0.25


def test_the_delay_doubles_with_each_attempt() -> None:
    delays = [delay(FailureKind.SERVER_ERROR, attempts) for attempts in (1, 2, 3, 4)]
    assert delays == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if not kind.is_transient])
def test_a_permanent_failure_is_not_retried(kind: FailureKind) -> None:
    assert delay(kind) is None


@pytest.mark.parametrize("kind", [FailureKind.EMPTY, FailureKind.TRUNCATED])
def test_a_completion_without_an_answer_is_retried_only_a_few_times(kind: FailureKind) -> None:
    assert delay(kind, attempts=8, generated=2) is not None
    assert delay(kind, attempts=8, generated=3) is None
    assert delay(FailureKind.SERVER_ERROR, attempts=8, generated=3) is not None


def test_lost_connections_do_not_count_as_attempts() -> None:
    pending = PendingRequest.of(PLANNED, PLAN, "served", 2)
    pending.first_sent = 1000.0
    lost = ResponseFailure(FailureKind.CONNECTION, "made up")
    for _ in range(2 * LIMITS.max_attempts):
        pending.add_attempt(lost, datetime.now(UTC), 0.0)
    assert pending.retry_delay(lost, 1000.0, chance=0.0) == MAX_BACKOFF_SECONDS / 2


def test_a_request_is_not_sent_again_after_its_deadline() -> None:
    assert delay(FailureKind.RATE_LIMITED, retry_after=300) == 300
    assert delay(FailureKind.RATE_LIMITED, retry_after=901) is None
