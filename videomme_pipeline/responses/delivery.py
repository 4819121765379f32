"""Responses on their way to the caller of `collect`, and the counts that are shown meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from logging import getLogger

from videomme_pipeline.responses.endpoints import Endpoints
from videomme_pipeline.responses.response import Response

_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingProgress:
    """Counts of one collection. `cost_dollars` is that of this run's requests.

    `pause_seconds` is the length of the pause that the endpoint asked for, or 0 if there is none
    now. `elsewhere` is the number of questions that another process is asking now.
    """

    answered: int = 0
    failed: int = 0
    in_flight: int = 0
    cost_dollars: float = 0.0
    pause_seconds: float = 0.0
    elsewhere: int = 0


class Delivery:
    """The responses that the caller has not received yet, and the progress of the collection.

    `elsewhere` counts the questions that another process is asking, by video.
    """

    def __init__(
        self, endpoints: Endpoints, on_progress: Callable[[AskingProgress], None] | None
    ) -> None:
        self.elsewhere: Counter[str] = Counter()
        self._endpoints = endpoints
        self._on_progress = on_progress
        self._progress = AskingProgress()
        self._responses: list[Response] = []
        self._has_warned = False
        self._changed = asyncio.Event()
        self._has_ended = False

    def deliver(self, response: Response) -> None:
        """Deliver a response and count it. Log only the first warning."""
        progress = self._progress
        if response.warning is not None and not self._has_warned:
            _log.warning("%s", response.warning)
            self._has_warned = True
        self._progress = replace(
            progress,
            answered=progress.answered + int(response.failure is None),
            failed=progress.failed + int(response.failure is not None),
        )
        self.show()
        self._responses.append(response)
        self._changed.set()

    def add_cost(self, dollars: float) -> None:
        """Add the cost of a request."""
        spent = self._progress.cost_dollars + dollars
        self._progress = replace(self._progress, cost_dollars=spent)
        self.show()

    def show(self) -> None:
        """Call `on_progress` with the current counts."""
        self._progress = replace(
            self._progress,
            in_flight=self._endpoints.in_flight,
            pause_seconds=self._endpoints.pause_seconds,
            elsewhere=self.elsewhere.total(),
        )
        if self._on_progress is not None:
            self._on_progress(self._progress)

    def end(self) -> None:
        """Record that no further response follows."""
        self._has_ended = True
        self._changed.set()

    async def next_group(self) -> list[Response]:
        """The responses since the last call, at least one, or an empty list at the end."""
        while not self._responses and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        group, self._responses = self._responses, []
        return group
