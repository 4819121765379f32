"""Whether and when to retry a failed question. Pure functions: time and chance are arguments."""

from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import ResponseFailure

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 60.0


def retry_delay_seconds(
    failure: ResponseFailure,
    *,
    attempts: int,
    elapsed_seconds: float,
    limits: Limits,
    chance: float,
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up.

    There have been `attempts` over `elapsed_seconds`; `chance` is in [0, 1). A Retry-After is
    waited for in full, however long it is, if it ends within the question's deadline. Otherwise
    the delay doubles with each attempt and is drawn from the upper half of that range, so that
    questions that failed together are not retried together.
    """
    most = limits.max_attempts_generated if failure.kind.was_generated else limits.max_attempts
    if not failure.kind.is_transient or attempts >= most:
        return None
    if failure.retry_after_seconds is not None:
        delay = failure.retry_after_seconds + 0.25 * chance
    else:
        ceiling = min(FIRST_BACKOFF_SECONDS * 2.0 ** (attempts - 1), LONGEST_BACKOFF_SECONDS)
        delay = ceiling * (0.5 + 0.5 * chance)
    return delay if elapsed_seconds + delay < limits.deadline_seconds else None
