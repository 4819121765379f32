"""The circuit breaker of an endpoint, and the thresholds of everything that stops requests.

| state | threshold | what follows |
|---|---|---|
| the endpoint has never answered | 1 failure | it gets only the question that failed |
| there are other endpoints | 2 failures in a row | it gets no question for 1 s |
| the endpoint was down and is on trial | 1 failure | it gets no question for 1 s |
| no endpoint has shown a model | 2 attempts at a question, and failures for 8 s | the run stops |
| no endpoint has answered a question | failures for 2 minutes, no answer | the run stops |
| any | failures for `limits.outage_seconds` (10 minutes), no answer | the run stops |
| any | 20 questions in a row without an answer | the run stops |

Failures of one endpoint are lost connections and, as long as the endpoint has never answered in
this run, replies that show no model. A closed port, a web page at the address of an endpoint, or a
server that only has internal errors (HTTP 500) should end a run within seconds, after a few
requests. An endpoint that has answered once may be down for longer.
"""

import asyncio
import math
from collections.abc import Callable
from logging import getLogger

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

_log = getLogger(__name__)


class CircuitBreaker:
    """Decides which questions one endpoint may get now. `clock` returns seconds.

    The breaker is open, so that questions move to other endpoints, only if `has_others`.
    """

    def __init__(self, title: str, clock: Callable[[], float], *, has_others: bool) -> None:
        self.has_answered = False
        self._title = title
        self._clock = clock
        self._has_others = has_others
        self._failures = 0
        self._has_failed = False
        self._was_open = False
        self._open_until = float("-inf")
        self._only_question: object | None = None
        self.changed = asyncio.Event()
        """Set for a moment when the endpoint accepts other questions, or the breaker opens."""

    @property
    def is_open(self) -> bool:
        """True if the endpoint is down."""
        return self._clock() < self._open_until

    def allows(self, question: object) -> bool:
        """True if a closed breaker lets `question` pass. After an outage, only one question may."""
        return self._only_question is None or self._only_question is question

    def record(self, question: object, result: Reply | ResponseFailure) -> bool:
        """Record the result of a request for `question`. Return True if it opens the breaker."""
        if isinstance(result, Reply):
            if self._was_open:
                _log.warning("%s answers again", self._title)
            self._failures, self._was_open = 0, False
        elif result.kind is FailureKind.SERVER_ERROR and not self._has_failed:
            self._has_failed = True
            _log.warning("%s failed a request, which is sent again: %s", self._title, result)
        if isinstance(result, Reply) or not result.shows_no_model:
            self.has_answered = True
            self.allow_all()
            return False
        if not self.has_answered and self._only_question is None and not self.is_open:
            self._only_question = question
        is_failure = result.kind is FailureKind.CONNECTION or not self.has_answered
        return is_failure and self._opens_after(result)

    def end(self, question: object) -> None:
        """Record that `question` is not asked again."""
        if question is self._only_question:
            self.allow_all()

    def allow_all(self) -> None:
        """End the waits of all questions for the only one."""
        self._only_question = None
        self.changed.set()
        self.changed.clear()  # later waits are for the next change

    def _opens_after(self, failure: ResponseFailure) -> bool:
        if self.is_open or not self._has_others:
            return False
        self._failures += 1
        if self._failures < (1 if self._was_open else FAILURES_IN_A_ROW):
            return False
        if not self._was_open:
            _log.warning(
                "%s is down, its questions move to other endpoints: %s", self._title, failure
            )
        self._open_until = self._clock() + OPEN_SECONDS
        self._failures, self._was_open = 0, True
        self.allow_all()
        return True


class Outage:
    """The time in which every request that ended has failed. It decides when a run stops.

    Requests in progress do not count. `clock` returns seconds. `max_seconds` is infinite for
    servers that the run starts, because a server that was restarted may load for long.
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
        """Record the result of a request."""
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

        `has_model` is True if an endpoint has shown a model. The next attempt is expected to take
        as long as the last one.
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
