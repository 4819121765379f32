"""Responses on their way to the caller of `collect`, and the counts that are shown meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from logging import getLogger

from videomme_pipeline.models.video_llm import Reply, Usage
from videomme_pipeline.responses.endpoints import Endpoints
from videomme_pipeline.responses.response import Response

_log = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingProgress:
    """Counts of one collection. `usage` and `cost_dollars` are those of this run's requests.

    `pause_seconds` is the length of the pause that the endpoint asked for, or 0 if there is none
    now. `elsewhere` is the number of questions that another process is asking now.
    """

    answered: int = 0
    failed: int = 0
    from_journal: int = 0
    requests: int = 0
    in_flight: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_dollars: float = 0.0
    pause_seconds: float = 0.0
    elsewhere: int = 0
    warning: str | None = None


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
        self._changed = asyncio.Event()
        self._has_ended = False

    def deliver(self, response: Response, *, from_journal: bool = False) -> None:
        """Deliver a response and count it. Log only the first warning."""
        progress = self._progress
        if response.warning is not None and progress.warning is None:
            _log.warning("%s", response.warning)
        self._progress = replace(
            progress,
            answered=progress.answered + int(response.failure is None),
            failed=progress.failed + int(response.failure is not None),
            from_journal=progress.from_journal + int(from_journal),
            warning=progress.warning or response.warning,
        )
        self.show()
        self._responses.append(response)
        self._changed.set()

    def count_request(self, reply: Reply | None) -> None:
        """Count a request. `reply` is the completion that the endpoint charges for, if any."""
        progress, reply = self._progress, reply or Reply(text="")
        self._progress = replace(
            progress,
            requests=progress.requests + 1,
            usage=progress.usage + reply.usage,
            cost_dollars=progress.cost_dollars + (reply.cost_dollars or 0.0),
        )
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
