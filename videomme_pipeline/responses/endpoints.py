"""The endpoints of a model: which of them gets a request, and when.

All questions of a video have an affinity to one endpoint, so that its prefix cache is used: the
one with the least load. If it is down, the questions move to others. It gets single questions
again after a while, and more once it answers. The only endpoint of a model is never down.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

from videomme_pipeline.models.spec import Limits
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure, VideoLLM
from videomme_pipeline.responses.breaker import CircuitBreaker
from videomme_pipeline.responses.limits import Budget, Clock, ConcurrencyLimit, RateLimit
from videomme_pipeline.responses.requests import completion_of


class Endpoint:
    """One endpoint of a model, with its limit of requests in flight and its circuit breaker."""

    def __init__(
        self, title: str, model: VideoLLM, limits: Limits, clock: Clock, *, has_others: bool
    ) -> None:
        self.title = title
        self.model = model
        self.limit = ConcurrencyLimit(limits, clock)
        self.breaker = CircuitBreaker(title, clock, has_others=has_others)
        self.questions = 0
        """Questions of the videos with an affinity to this endpoint."""

    @property
    def load(self) -> float:
        """Questions per request that may be in flight."""
        return self.questions / self.limit.allowed

    def record(self, question: object, result: Reply | ResponseFailure) -> None:
        """Record the result of a request for `question`."""
        if isinstance(result, Reply):
            self.limit.answered()
        elif result.kind is FailureKind.RATE_LIMITED:
            self.limit.overloaded(result.retry_after_seconds)
        elif result.kind is FailureKind.SERVER_ERROR:
            self.limit.overloaded(None)
        if self.breaker.record(question, result):
            self.limit.restart()


@dataclass(slots=True)
class Admission:
    """Permission to send a request for `question` to `endpoint`. The sender sets `result`."""

    endpoint: Endpoint
    question: object
    result: Reply | ResponseFailure | None = None

    @property
    def is_valid(self) -> bool:
        """False if another question has failed since the admission."""
        return self.endpoint.breaker.allows(self.question)


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
        self.rate = RateLimit(limits)
        self.budget = budget

    def __len__(self) -> int:
        return len(self._endpoints)

    @property
    def in_flight(self) -> int:
        return sum(endpoint.limit.in_flight for endpoint in self._endpoints)

    @property
    def max_in_flight(self) -> int:
        """Upper bound of the number of requests in flight."""
        return sum(endpoint.limit.max_in_flight for endpoint in self._endpoints)

    @property
    def pause_seconds(self) -> float:
        """Length of the pause that all endpoints asked for, or 0 if one accepts requests."""
        return min(endpoint.limit.pause_seconds for endpoint in self._endpoints)

    @property
    def have_answered(self) -> bool:
        """True if a model was reached in this run."""
        return any(endpoint.breaker.has_answered for endpoint in self._endpoints)

    def end(self, question: object) -> None:
        """Record that `question` is not asked again."""
        for endpoint in self._endpoints:
            endpoint.breaker.end(question)

    def stop(self) -> None:
        """End all waits for other questions."""
        for endpoint in self._endpoints:
            endpoint.breaker.allow_all()

    def affinity(self, questions: int) -> "closing[Affinity]":
        """The affinity of a video that has this number of questions, until the end of a block."""
        return closing(Affinity(self, questions))

    def least_loaded(self) -> Endpoint:
        """The endpoint for another video: one that is up and not paused, if there is one."""
        return min(
            self._endpoints,
            key=lambda endpoint: (
                endpoint.breaker.is_open,
                endpoint.limit.pause_seconds > 0,
                endpoint.load,
            ),
        )


class Affinity:
    """The endpoint that the questions of one video use."""

    def __init__(self, endpoints: Endpoints, questions: int) -> None:
        self._endpoints = endpoints
        self._questions = questions
        self._endpoint: Endpoint | None = None

    @asynccontextmanager
    async def admit(
        self, question: object, expected_tokens: int, *, is_follower: bool
    ) -> AsyncIterator[Admission]:
        """Wait until `question` may be sent, and account for the result of the request.

        The first request is expected to need `expected_tokens`.

        Raises:
            CostLimitError: if no further request fits into the budget.
            ModelError: if there is a budget but the cost of an answer is unknown.
        """
        rate, budget = self._endpoints.rate, self._endpoints.budget
        endpoint = await self._acquire(question, is_follower=is_follower)
        admission = Admission(endpoint, question)
        try:
            await budget.reserve()
            try:
                await rate.wait(expected_tokens)
                yield admission
            finally:
                reply = completion_of(admission.result)
                if admission.result is not None:
                    endpoint.record(question, admission.result)
                    rate.record(0 if reply is None else reply.usage.total_tokens)
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
            if not endpoint.breaker.allows(question):
                await endpoint.breaker.changed.wait()
                continue
            await endpoint.limit.acquire(is_follower=is_follower)
            if endpoint is self._current() and endpoint.breaker.allows(question):
                return endpoint
            endpoint.limit.release()

    def _current(self) -> Endpoint:
        """The endpoint of the video. It changes only if it is down and another one is up."""
        if self._endpoint is None or self._endpoint.breaker.is_open:
            best = self._endpoints.least_loaded()
            if self._endpoint is None or not best.breaker.is_open:
                self.close()
                self._endpoint = best
                best.questions += self._questions
        return self._endpoint
