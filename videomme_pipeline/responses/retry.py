"""Whether and when a failed question is asked again. Pure: clocks and chance come in."""

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
    """Seconds to wait before the next attempt; None when there is to be none.

    `attempts` have been made over `elapsed_seconds`; `chance` is in [0, 1). What the endpoint
    asked for in Retry-After is waited for in full, however long, as long as the question's
    deadline allows it. Otherwise the wait doubles from attempt to attempt and is drawn from
    its upper half, so that questions that failed together do not come back together.
    """
    most = limits.max_attempts_generated if failure.kind.was_generated else limits.max_attempts
    if not failure.kind.may_pass or attempts >= most:
        return None
    if failure.retry_after_seconds is not None:
        delay = failure.retry_after_seconds + 0.25 * chance
    else:
        ceiling = min(FIRST_BACKOFF_SECONDS * 2.0 ** (attempts - 1), LONGEST_BACKOFF_SECONDS)
        delay = ceiling * (0.5 + 0.5 * chance)
    return delay if elapsed_seconds + delay < limits.deadline_seconds else None
