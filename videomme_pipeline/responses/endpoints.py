"""The endpoints of a model: which of them gets a request, and when.

All questions of a video have an affinity to one endpoint, so that its prefix cache is used: the
one with the least load. If it is down, the questions move to others. The only endpoint of a model
is never down. These are the thresholds of everything that stops requests:

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

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from logging import getLogger

from aiolimiter import AsyncLimiter

from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure, VideoLLM
from videomme_pipeline.responses.limits import Budget, Clock, ConcurrencyLimit
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


class Endpoint:
    """One endpoint of a model, with its limit of requests in flight and its circuit breaker.

    The breaker is open, so that questions move to other endpoints, only if it `has_others`.
    """

    def __init__(
        self, title: str, model: VideoLLM, limits: Limits, clock: Clock, *, has_others: bool
    ) -> None:
        self.title = title
        self.model = model
        self.limit = ConcurrencyLimit(limits, clock)
        self.questions = 0
        """Questions of the videos with an affinity to this endpoint."""
        self.has_answered = False
        self.changed = asyncio.Event()
        """Set for a moment when the endpoint accepts other questions, or the breaker opens."""
        self._clock = clock
        self._has_others = has_others
        self._failures = 0
        self._has_failed = False
        self._was_down = False
        self._down_until = float("-inf")
        self._only_question: object | None = None

    @property
    def load(self) -> float:
        """Questions per request that may be in flight."""
        return self.questions / self.limit.allowed

    @property
    def is_down(self) -> bool:
        """True if the breaker is open."""
        return self._clock() < self._down_until

    def allows(self, question: object) -> bool:
        """True unless another question, which failed, must show that a model answers here."""
        return self._only_question is None or self._only_question is question

    def record(self, question: object, result: Reply | ResponseFailure) -> None:
        if isinstance(result, Reply):
            self.limit.answered()
            if self._was_down:
                _log.warning("%s answers again", self.title)
            self._failures, self._was_down = 0, False
        elif result.kind is FailureKind.RATE_LIMITED:
            self.limit.overloaded(result.retry_after_seconds)
        elif result.kind is FailureKind.SERVER_ERROR:
            self.limit.overloaded(None)
            if not self._has_failed:
                self._has_failed = True
                _log.warning("%s failed a request, which is sent again: %s", self.title, result)
        if isinstance(result, Reply) or not result.shows_no_model:
            self.has_answered = True
            self.allow_all()
            return
        if not self.has_answered and self._only_question is None and not self.is_down:
            self._only_question = question
        if result.kind is FailureKind.CONNECTION or not self.has_answered:
            self._count_failure(result)

    def end(self, question: object) -> None:
        """Record that `question` is not asked again."""
        if question is self._only_question:
            self.allow_all()

    def allow_all(self) -> None:
        """End the waits of all questions for the only one."""
        self._only_question = None
        self.changed.set()
        self.changed.clear()  # later waits are for the next change

    def _count_failure(self, failure: ResponseFailure) -> None:
        if self.is_down or not self._has_others:
            return
        self._failures += 1
        if self._failures < (1 if self._was_down else FAILURES_IN_A_ROW):
            return
        if not self._was_down:
            _log.warning(
                "%s is down, its questions move to other endpoints: %s", self.title, failure
            )
        self._down_until = self._clock() + OPEN_SECONDS
        self._failures, self._was_down = 0, True
        self.allow_all()
        self.limit.restart()


@dataclass(slots=True)
class Admission:
    """Permission to send a request to `endpoint`. The sender sets `result`."""

    endpoint: Endpoint
    result: Reply | ResponseFailure | None = None


class Endpoints:
    """All endpoints of a model, with the rate limit and the budget that they share."""

    def __init__(
        self, members: Mapping[str, VideoLLM], limits: Limits, budget: Budget, clock: Clock
    ) -> None:
        has_others = len(members) > 1
        self._endpoints = [
            Endpoint(title, model, limits, clock, has_others=has_others)
            for title, model in members.items()
        ]
        requests = limits.requests_per_minute
        self.rate = None if requests is None else AsyncLimiter(1, 60 / requests)
        self.budget = budget

    @property
    def in_flight(self) -> int:
        return sum(endpoint.limit.in_flight for endpoint in self._endpoints)

    @property
    def max_in_flight(self) -> int:
        return sum(endpoint.limit.max_in_flight for endpoint in self._endpoints)

    @property
    def pause_seconds(self) -> float:
        """Length of the pause that all endpoints asked for, or 0 if one accepts requests."""
        return min(endpoint.limit.pause_seconds for endpoint in self._endpoints)

    @property
    def have_answered(self) -> bool:
        """True if a model was reached in this run."""
        return any(endpoint.has_answered for endpoint in self._endpoints)

    def end(self, question: object) -> None:
        for endpoint in self._endpoints:
            endpoint.end(question)

    def stop(self) -> None:
        """End all waits for other questions."""
        for endpoint in self._endpoints:
            endpoint.allow_all()

    def affinity(self, questions: int) -> "closing[Affinity]":
        return closing(Affinity(self, questions))

    def least_loaded(self) -> Endpoint:
        """The endpoint for another video: one that is up and not paused, if there is one."""
        return min(self._endpoints, key=lambda e: (e.is_down, e.limit.pause_seconds > 0, e.load))


class Affinity:
    """The endpoint that the questions of one video use."""

    def __init__(self, endpoints: Endpoints, questions: int) -> None:
        self._endpoints = endpoints
        self._questions = questions
        self._endpoint: Endpoint | None = None

    @asynccontextmanager
    async def admit(self, question: object, *, is_follower: bool) -> AsyncIterator[Admission]:
        """Wait until `question` may be sent, and account for its result. Raises as `Budget`."""
        rate, budget = self._endpoints.rate, self._endpoints.budget
        endpoint = await self._acquire(question, is_follower=is_follower)
        admission = Admission(endpoint)
        try:
            await budget.reserve()
            try:
                if rate is not None:
                    await rate.acquire()
                yield admission
            finally:
                reply = completion_of(admission.result)
                if admission.result is not None:
                    endpoint.record(question, admission.result)
                    self._current()  # a wait before the next attempt is longer than `OPEN_SECONDS`
                # The cost of a request without a reply is unknown.
                dollars = None if reply is None else reply.cost_dollars
                await budget.charge(dollars, was_sent=reply is not None)
        finally:
            endpoint.limit.release()

    def close(self) -> None:
        """Remove the video from its endpoint."""
        if self._endpoint is not None:
            self._endpoint.questions -= self._questions
            self._endpoint = None

    async def _acquire(self, question: object, *, is_follower: bool) -> Endpoint:
        """Wait for an endpoint that accepts a request. The video may move during the wait."""
        while True:
            endpoint = self._current()
            if not endpoint.allows(question):
                await endpoint.changed.wait()
                continue
            await endpoint.limit.acquire(is_follower=is_follower)
            if endpoint is self._current() and endpoint.allows(question):
                return endpoint
            endpoint.limit.release()

    def _current(self) -> Endpoint:
        """The endpoint of the video. It changes only if it is down and another one is up."""
        if self._endpoint is None or self._endpoint.is_down:
            best = self._endpoints.least_loaded()
            if self._endpoint is None or not best.is_down:
                self.close()
                self._endpoint = best
                best.questions += self._questions
        return self._endpoint


class Outage:
    """The time in which every request that ended has failed. It decides when a run stops.

    `max_seconds` is infinite for servers that the run starts, since a restart may take long.
    """

    def __init__(self, clock: Clock, max_seconds: float) -> None:
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
        """The reason to stop the run instead of asking `pending` again after a delay, or None."""
        # The next attempt is expected to take as long as the last one.
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
