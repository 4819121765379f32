"""The time before an endpoint has answered for the first time in a run.

A closed port or a web page at the address of an endpoint should end the run within seconds, after
a few requests. An endpoint that has answered once may be down for longer.
"""

import asyncio
from collections.abc import Callable

from videomme_pipeline.models.video_llm import Reply, ResponseFailure

FIRST_ANSWER_SECONDS = 8.0
"""How long a question is repeated while nothing shows that a model answers at the address. It is
repeated at least once, because one bad reply of a slow model can take longer than this."""


class FirstAnswer:
    """Which questions may be asked before the first answer.

    All may be asked at first. After a failure that shows no model, only the question that failed
    is repeated, and all others wait for it. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._was_reached = False
        self._only: object | None = None
        self._since = 0.0
        self._failures = 0
        self._last_seconds = 0.0
        self._is_open = asyncio.Event()
        self._is_open.set()

    def allows(self, question: object) -> bool:
        """True if `question` may be asked now."""
        return question is self._only or self._is_open.is_set()

    async def wait(self, question: object) -> None:
        """Return when `question` may be asked."""
        if not self.allows(question):
            await self._is_open.wait()

    def record(self, question: object, sent: float, result: Reply | ResponseFailure) -> None:
        """Record the result of a request for `question`, which was sent at the time `sent`."""
        if isinstance(result, Reply) or not result.kind.is_from_no_model:
            self._was_reached = True
            self.leave(self._only)
        elif not self._was_reached and (self._only is None or self._only is question):
            self._last_seconds = self._clock() - sent
            if self._only is None:
                self._only, self._since, self._failures = question, sent, 0
                self._is_open.clear()
            self._failures += 1

    @property
    def tried_seconds(self) -> float:
        """Seconds since the first request that failed was sent."""
        return self._clock() - self._since

    def is_hopeless(self, question: object, delay_seconds: float) -> bool:
        """True if `question` need not be asked again after `delay_seconds`: no model is there.

        The next attempt is expected to take as long as the last one.
        """
        next_seconds = self.tried_seconds + delay_seconds + self._last_seconds
        return question is self._only and self._failures > 1 and next_seconds > FIRST_ANSWER_SECONDS

    def leave(self, question: object) -> None:
        """End the wait for `question`, which is not asked again."""
        if question is self._only:
            self._only = None
            self._is_open.set()

    def end(self) -> None:
        """End all waits."""
        self.leave(self._only)
