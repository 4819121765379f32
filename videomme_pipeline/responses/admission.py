"""When the next request may go out: how many at once, how many a minute, for how much money.

All three wait in the event loop of one evaluation. What is asked next belongs to `collect`;
limits across processes belong to whoever starts the processes.
"""

import asyncio
import heapq
from collections.abc import Callable
from enum import IntEnum
from itertools import count

from aiolimiter import AsyncLimiter

from videomme_pipeline.errors import CostLimitError, ModelError
from videomme_pipeline.models.spec import Limits

Clock = Callable[[], float]

FIRST_CONCURRENCY = 8
_SECONDS_BETWEEN_DECREASES = 1.0


class Priority(IntEnum):
    """Who goes first when a request may go out; lower is sooner."""

    FOLLOWER = 0
    """Its video is in the endpoint's prefix cache now, and may not be for long."""
    LEADER = 1


class Permits:
    """How many requests are in flight: always `limits.concurrency`, or as many as it takes.

    The adaptive mode starts small and doubles each round trip (one more per answer) until the
    endpoint first objects; it then halves, at most once a second, and grows by one each round
    trip. It grows only while every permit is in use.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._fixed = limits.concurrency is not None
        self._most = limits.concurrency or limits.max_concurrency
        self._allowed = float(self._most if self._fixed else min(FIRST_CONCURRENCY, self._most))
        self._clock = clock
        self._starting = True
        self._decreased_at = float("-inf")
        self._paused_until = float("-inf")
        self._waiting: list[tuple[Priority, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self.in_flight = 0

    @property
    def most(self) -> int:
        """The most that can ever be in flight."""
        return self._most

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    async def acquire(self, priority: Priority) -> None:
        """Wait for a permit; every `acquire` needs one `release`."""
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._numbers), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        self.in_flight -= 1
        self._admit()

    def answered(self) -> None:
        """An answer came: more may be possible."""
        if self._fixed or self.in_flight < self.allowed:
            return
        step = 1.0 if self._starting else 1.0 / self._allowed
        self._allowed = min(self._allowed + step, float(self._most))

    def overloaded(self, retry_after_seconds: float | None) -> None:
        """The endpoint said it was too much: fewer at once, and none before it asked."""
        now = self._clock()
        if retry_after_seconds is not None:
            self._pause(now + retry_after_seconds)
        if self._fixed or now - self._decreased_at < _SECONDS_BETWEEN_DECREASES:
            return
        self._starting = False
        self._decreased_at = now
        self._allowed = max(self._allowed / 2, 1.0)

    def _pause(self, until: float) -> None:
        if until > self._paused_until:
            self._paused_until = until
            loop = asyncio.get_running_loop()
            loop.call_later(until - self._clock() + 0.01, self._admit)

    def _admit(self) -> None:
        if self._clock() < self._paused_until:
            return
        while self._waiting and self.in_flight < self.allowed:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


class Pace:
    """Requests and tokens a minute, spread evenly and not in one burst."""

    def __init__(self, limits: Limits) -> None:
        requests = limits.requests_per_minute
        self._requests = None if requests is None else AsyncLimiter(1, 60 / requests)
        tokens = limits.tokens_per_minute
        self._tokens = None if tokens is None else AsyncLimiter(tokens, 60)
        self._tokens_each: float | None = None

    async def wait(self, expected_tokens: int) -> None:
        """Wait until a request of about `expected_tokens` (better: what the last ones took)
        keeps to the limits."""
        if self._requests is not None:
            await self._requests.acquire()
        if self._tokens is not None:
            tokens = self._tokens_each or expected_tokens
            await self._tokens.acquire(min(max(tokens, 1.0), self._tokens.max_rate))

    def took(self, tokens: int) -> None:
        """What a request really took."""
        before = self._tokens_each
        self._tokens_each = tokens if before is None else 0.9 * before + 0.1 * tokens


class Budget:
    """Money: a request goes out only when the dearest one seen so far would still fit.

    The first goes alone, to learn what one costs. Requests in flight count as spent.
    """

    def __init__(self, most_dollars: float | None, spent_dollars: float) -> None:
        self._most = most_dollars
        self.spent_dollars = spent_dollars
        self._dearest: float | None = None
        self._in_flight = 0
        self._changed = asyncio.Condition()

    async def reserve(self) -> None:
        """Wait until one more request fits.

        Raises:
            CostLimitError: when none does, whatever those in flight will cost.
        """
        if self._most is None:
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._in_flight == 0 or self._fits())
            if not self._fits():
                raise CostLimitError(self._most, self.spent_dollars)
            self._in_flight += 1

    async def settle(self, dollars: float | None, *, was_sent: bool) -> None:
        """A request ended and cost `dollars`; None where the endpoint did not say.

        Raises:
            ModelError: when there is a limit and no way to know what an answer costs.
        """
        self.spent_dollars += dollars or 0.0
        if self._most is None:
            return
        async with self._changed:
            self._in_flight -= 1
            self._changed.notify_all()
            if dollars is not None:
                self._dearest = max(self._dearest or 0.0, dollars)
            elif was_sent and self._dearest is None:
                raise ModelError(
                    "`max_cost_dollars` is set, but what an answer costs is not known: the "
                    "endpoint reports no usage, or the model has no list price. Set `prices` "
                    "for it in models.yaml."
                )
            elif was_sent:
                self.spent_dollars += self._dearest or 0.0

    def _fits(self) -> bool:
        if self._most is None:
            return True
        if self._dearest is None:
            return self._in_flight == 0 and self.spent_dollars < self._most
        return self.spent_dollars + (self._in_flight + 1) * self._dearest <= self._most
