"""Responses on their way to the caller of `collect`, and the counts that are shown meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from logging import getLogger

from videomme_pipeline.responses.breaker import Outage
from videomme_pipeline.responses.endpoints import Endpoints
from videomme_pipeline.responses.response import Response

_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingProgress:
    """Counts of one collection. `cost_dollars` is the cost of this run's requests.

    `pause_seconds` is the length of the pause that the endpoint asked for, and `elsewhere` the
    number of questions that another process is asking now. Every request that ended in the last
    `outage_seconds` has failed. If none is answered in the next `outage_seconds_left`, the run
    stops. Both are 0 without an outage.
    """

    answered: int = 0
    failed: int = 0
    in_flight: int = 0
    cost_dollars: float = 0.0
    pause_seconds: float = 0.0
    elsewhere: int = 0
    outage_seconds: float = 0.0
    outage_seconds_left: float = 0.0


class Delivery:
    """The responses that the caller has not received yet, and the progress of the collection."""

    def __init__(
        self,
        endpoints: Endpoints,
        outage: Outage,
        on_progress: Callable[[AskingProgress], None] | None,
    ) -> None:
        self.elsewhere: Counter[str] = Counter()
        """Questions that another process is asking, by video."""
        self._outage = outage
        self._endpoints = endpoints
        self._on_progress = on_progress
        self._answered = self._failed = 0
        self._cost_dollars = 0.0
        self._responses: list[Response] = []
        self._has_warned = False
        self._changed = asyncio.Event()
        self._has_ended = False

    def deliver(self, response: Response) -> None:
        """Deliver a response and count it. Log only the first warning."""
        if response.warning is not None and not self._has_warned:
            _log.warning("%s", response.warning)
            self._has_warned = True
        self._answered += response.failure is None
        self._failed += response.failure is not None
        self.show()
        self._responses.append(response)
        self._changed.set()

    def add_cost(self, dollars: float) -> None:
        self._cost_dollars += dollars
        self.show()

    def show(self) -> None:
        """Call `on_progress` with the current counts."""
        if self._on_progress is not None:
            self._on_progress(
                AskingProgress(
                    answered=self._answered,
                    failed=self._failed,
                    in_flight=self._endpoints.in_flight,
                    cost_dollars=self._cost_dollars,
                    pause_seconds=self._endpoints.pause_seconds,
                    elsewhere=self.elsewhere.total(),
                    outage_seconds=self._outage.seconds,
                    outage_seconds_left=self._outage.seconds_left if self._outage.seconds else 0.0,
                )
            )

    def end(self) -> None:
        self._has_ended = True
        self._changed.set()

    async def next_group(self) -> list[Response]:
        """The responses since the last call, at least one, or an empty list at the end."""
        while not self._responses and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        group, self._responses = self._responses, []
        return group
