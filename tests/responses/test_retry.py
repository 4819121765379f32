"""Whether and when a failed question is asked again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure
from videomme_pipeline.responses.retry import LONGEST_BACKOFF_SECONDS, retry_delay_seconds

LIMITS = Limits(deadline_seconds=900, max_attempts=12, max_attempts_generated=3)


def delay(
    kind: FailureKind,
    attempts: int = 1,
    elapsed: float = 0.0,
    chance: float = 0.0,
    retry_after: float | None = None,
) -> float | None:
    failure = ResponseFailure(kind, "made up", retry_after_seconds=retry_after)
    return retry_delay_seconds(
        failure, attempts=attempts, elapsed_seconds=elapsed, limits=LIMITS, chance=chance
    )


@given(
    st.sampled_from([kind for kind in FailureKind if kind.may_pass]),
    st.integers(1, 20),
    st.floats(0, 1000),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0, 500),
)
def test_no_wait_is_shorter_than_asked_or_ends_after_the_deadline(
    kind: FailureKind, attempts: int, elapsed: float, chance: float, asked: float | None
) -> None:
    seconds = delay(kind, attempts, elapsed, chance, asked)
    if seconds is None:
        return
    assert elapsed + seconds < LIMITS.deadline_seconds
    assert attempts < LIMITS.max_attempts
    if asked is None:
        assert 0 < seconds <= LONGEST_BACKOFF_SECONDS
    else:
        assert asked <= seconds <= asked + 0.25


def test_the_wait_doubles() -> None:
    waits = [delay(FailureKind.SERVER_ERROR, attempts) for attempts in (1, 2, 3, 4)]
    assert waits == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if not kind.may_pass])
def test_what_cannot_pass_is_not_asked_again(kind: FailureKind) -> None:
    assert delay(kind) is None


@pytest.mark.parametrize("kind", [FailureKind.EMPTY, FailureKind.TRUNCATED])
def test_what_was_generated_and_paid_for_gets_few_attempts(kind: FailureKind) -> None:
    assert delay(kind, attempts=2) is not None
    assert delay(kind, attempts=3) is None


def test_a_retry_after_beyond_the_deadline_gives_up_at_once() -> None:
    assert delay(FailureKind.RATE_LIMITED, retry_after=300) == 300
    assert delay(FailureKind.RATE_LIMITED, retry_after=901) is None
