"""Rules for retries of a failed question. Time and random numbers are arguments."""

from collections.abc import Sequence

from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 60.0


def retry_delay_seconds(
    failure: ResponseFailure,
    *,
    failed: Sequence[FailureKind],
    elapsed_seconds: float,
    limits: Limits,
    chance: float,
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up.

    `failed` has the failures of all attempts so far, which were made within `elapsed_seconds`.
    `chance` is a random number in [0, 1). The delay is at least the Retry-After, if the endpoint
    sent one. Otherwise it is between half and all of a maximum that doubles with each attempt, so
    that questions that failed together are not retried together. A retry that would start after
    the deadline is not made.
    """
    if not failure.kind.is_transient or len(failed) >= limits.max_attempts:
        return None
    generated = sum(kind.was_generated for kind in failed)
    if failure.kind.was_generated and generated >= limits.max_attempts_generated:
        return None
    if failure.retry_after_seconds is not None:
        delay = failure.retry_after_seconds + 0.25 * chance
    else:
        ceiling = min(FIRST_BACKOFF_SECONDS * 2.0 ** (len(failed) - 1), LONGEST_BACKOFF_SECONDS)
        delay = ceiling * (0.5 + 0.5 * chance)
    return delay if elapsed_seconds + delay < limits.deadline_seconds else None
