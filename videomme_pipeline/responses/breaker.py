"""The outage that ends a run, and the thresholds of everything that stops requests.

| state | threshold | what follows |
|---|---|---|
| the endpoint has never answered | 1 failure | it gets only the question that failed |
| there are other endpoints | 2 failures in a row | it gets no question for 1 s |
| the endpoint was down and is on trial | 1 failure | it gets no question for 1 s |
| no endpoint has shown a model | 2 attempts at a question, and failures for 8 s | the run stops |
| no endpoint has answered a question | failures for 2 minutes, no answer | the run stops |
| any | failures for `limits.outage_seconds` (10 minutes), no answer | the run stops |
| any | 20 questions in a row without an answer | the run stops |

Failures of one endpoint are lost connections and, until it first answers, replies that show no
model: a closed port, a web page or HTTP 500 should end a run within seconds, after a few requests.
"""

import math
from collections.abc import Callable

from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure
from videomme_pipeline.responses.requests import PendingRequest, completion_of

NO_MODEL_SECONDS = 8.0
"""A question is not repeated for longer while no endpoint has shown a model."""
NO_MODEL_ATTEMPTS = 2
"""One bad reply of a slow model can take longer than `NO_MODEL_SECONDS`."""
FIRST_ANSWER_SECONDS = 120.0
"""Longest time of failures only, while no endpoint has answered a question."""
OPEN_SECONDS = 1.0
"""Time without questions for an endpoint that is down. Then one question is a trial."""
FAILURES_IN_A_ROW = 2
"""One failure can be a connection that the server closed because it was idle."""
FAILED_QUESTIONS = 20
_OF_ONE_REQUEST = (FailureKind.REJECTED, FailureKind.TOO_LARGE, FailureKind.FRAMES)
"""Failures that say nothing about the endpoint."""


class Outage:
    """The time in which every request that ended has failed. It decides when a run stops.

    `max_seconds` is infinite for servers that the run starts, since a restart may take long.
    """

    def __init__(self, clock: Callable[[], float], max_seconds: float) -> None:
        self._clock = clock
        self._max_seconds = max_seconds
        self._has_answered = math.isinf(max_seconds)
        self._since: float | None = None
        self._failed_questions = 0

    @property
    def seconds(self) -> float:
        """The seconds since the first failure after the last answer, or 0."""
        return 0.0 if self._since is None else self._clock() - self._since

    @property
    def seconds_left(self) -> float:
        """The seconds after which the run stops, unless there is an answer before."""
        first = self._max_seconds if self._has_answered else FIRST_ANSWER_SECONDS
        return min(first, self._max_seconds) - self.seconds

    def record(self, result: Reply | ResponseFailure) -> None:
        kind = None if isinstance(result, Reply) else result.kind
        if completion_of(result) is not None or (kind and kind.is_final):
            self._since, self._has_answered = None, True
        elif kind not in _OF_ONE_REQUEST:
            self._has_answered |= kind is FailureKind.RATE_LIMITED  # by a server that works
            self._since = self._clock() if self._since is None else self._since

    def record_answer(self) -> None:
        """Record that a question is settled."""
        self._failed_questions = 0

    def problem_of_retry(
        self, pending: PendingRequest, delay_seconds: float, *, has_model: bool
    ) -> str | None:
        """The reason to stop the run instead of asking `pending` again after a delay, or None.

        The next attempt is expected to take as long as the last one.
        """
        next_seconds = delay_seconds + pending.attempts[-1].latency_seconds
        is_over = self.seconds_left <= 0 or (
            not has_model
            and len(pending.attempts) >= NO_MODEL_ATTEMPTS
            and self.seconds + next_seconds > NO_MODEL_SECONDS
        )
        return f"no request was answered in {self.seconds:.0f} s" if is_over else None

    def problem_of_failure(self, failure: ResponseFailure) -> str | None:
        """The reason to stop the run after a question has failed, or None."""
        if failure.kind is FailureKind.TOO_LARGE:
            return None  # the fault of this question, not of the endpoint
        self._failed_questions += 1
        if self._failed_questions < FAILED_QUESTIONS:
            return None
        return f"{self._failed_questions} questions in a row got no answer"
