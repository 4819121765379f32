"""Limits of the requests of one process: in flight, per minute, and in US dollars."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from videomme_pipeline.errors import CostLimitError, ModelError
from videomme_pipeline.models.spec import Limits

Clock = Callable[[], float]

FIRST_CONCURRENCY = 8
_SECONDS_BETWEEN_DECREASES = 1.0


class ConcurrencyLimit:
    """Limit of the requests in flight: `limits.concurrency` if it is set, otherwise adaptive.

    The adaptive number starts at 8 and increases by one per answer while it is reached. Each
    overload halves it, at most once a second. From then on it increases by one per round trip.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._fixed = limits.concurrency is not None
        self.max_in_flight = limits.concurrency or limits.max_concurrency
        self._longest_pause_seconds = limits.deadline_seconds
        self._allowed = float(
            self.max_in_flight if self._fixed else min(FIRST_CONCURRENCY, self.max_in_flight)
        )
        self._clock = clock
        self._starting = True
        self._decreased_at = float("-inf")
        self._paused_until = float("-inf")
        self._pause_seconds = 0.0
        self._waiters: list[tuple[bool, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self.in_flight = 0

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    @property
    def pause_seconds(self) -> float:
        """Length of the current pause, or 0."""
        return self._pause_seconds if self._clock() < self._paused_until else 0.0

    async def acquire(self, *, is_follower: bool) -> None:
        """Wait until another request may be in flight. Every `acquire` needs one `release`."""
        # Followers are first, while the endpoint's prefix cache contains their video.
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (not is_follower, next(self._numbers), waiter))
        self._admit()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()
            raise

    def release(self) -> None:
        self.in_flight -= 1
        self._admit()

    def answered(self) -> None:
        if self._fixed:
            self._allowed = float(self.max_in_flight)
        if self.in_flight < self.allowed:
            return
        step = 1.0 if self._starting else 1.0 / self._allowed
        self._allowed = min(self._allowed + step, float(self.max_in_flight))

    def restart(self) -> None:
        """Allow one request until there is an answer."""
        self._allowed, self._starting = 1.0, True

    def overloaded(self, retry_after_seconds: float | None) -> None:
        """Allow fewer requests, and none for `retry_after_seconds`, which the deadline limits."""
        now = self._clock()
        if retry_after_seconds is not None:
            seconds = min(retry_after_seconds, self._longest_pause_seconds)
            if now + seconds > self._paused_until:
                self._paused_until, self._pause_seconds = now + seconds, seconds
                asyncio.get_running_loop().call_later(seconds + 0.01, self._admit)
        if self._fixed or now - self._decreased_at < _SECONDS_BETWEEN_DECREASES:
            return
        self._starting = False
        self._decreased_at = now
        self._allowed = max(self._allowed / 2, 1.0)

    def _admit(self) -> None:
        if self._clock() < self._paused_until:
            return
        while self._waiters and self.in_flight < self.allowed:
            _, _, waiter = heapq.heappop(self._waiters)
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(None)


class Budget:
    """Budget in US dollars: a request is sent only if the highest cost so far still fits.

    If no cost is known from earlier runs (`highest_cost`), the first request is sent alone. Each
    request in flight is expected to have the highest cost so far.
    """

    def __init__(
        self, max_dollars: float | None, spent_dollars: float, highest_cost: float | None = None
    ) -> None:
        self._max = max_dollars
        self.spent_dollars = spent_dollars
        self._highest_cost = highest_cost
        self._in_flight = 0
        self._changed = asyncio.Condition()

    async def reserve(self) -> None:
        """Wait until a request fits, which needs a `charge`. Raises CostLimitError if none can."""
        if (limit := self._max) is None:
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._in_flight == 0 or self._fits(limit))
            if not self._fits(limit):
                raise CostLimitError(limit, self.spent_dollars)
            self._in_flight += 1

    async def charge(self, dollars: float | None, *, was_sent: bool) -> None:
        """Charge the cost of a request. Raises ModelError if it is unknown and there is a limit."""
        self.spent_dollars += dollars or 0.0
        if self._max is None:
            return
        async with self._changed:
            self._in_flight -= 1
            self._changed.notify_all()
            if dollars is not None:
                self._highest_cost = max(self._highest_cost or 0.0, dollars)
            elif was_sent and self._highest_cost is None:
                raise ModelError(
                    "the cost is limited, but the cost of an answer is unknown: the endpoint "
                    "reports no usage, or the model has no list price. Set `prices` of the model "
                    "in models.yaml. The answers of a program need `cost_dollars` (or `is_paid: "
                    "false` in its entry)."
                )
            elif was_sent:
                self.spent_dollars += self._highest_cost or 0.0

    def _fits(self, limit: float) -> bool:
        if self._highest_cost is None:
            return self._in_flight == 0 and self.spent_dollars < limit
        return self.spent_dollars + (self._in_flight + 1) * self._highest_cost <= limit
