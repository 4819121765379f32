"""The prompt tokens of texts, counted by requests without frames.

They show how many prompt tokens of a question are for frames. All texts of the questions on a video
are counted before its frames arrive, because a small engine caches only the latest prompt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import replace

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.models.video_llm import Reply, Request, ResponseFailure

_ATTEMPTS = 2
"""The second attempt follows the answer to the question, when the endpoint works."""
_WAIT_SECONDS = 120.0
"""Limit after the answer to the question. A missing count must not cost the answer."""


class TextCounts:
    """The replies to requests without frames, one per text. `ask` sends such a request."""

    def __init__(self, ask: Callable[[Request], Awaitable[Reply]]) -> None:
        self._ask = ask
        self._replies: dict[Hashable, asyncio.Task[Reply | None]] = {}
        self._charged: set[Hashable] = set()

    def start(self, request: Request) -> None:
        """Start to count the texts of `request` and of the requests with the same frames."""
        for item in (request, *request.same_frames):
            if (text := (item.prompt, item.history)) not in self._replies:
                count = self._count(replace(item, frames=request.frames))
                self._replies[text] = asyncio.create_task(count)

    async def reply_to(self, request: Request) -> Reply | None:
        """The reply to the text of `request`, or None. Only the first one has its cost."""
        text = request.prompt, request.history
        with suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                for _ in range(_ATTEMPTS):
                    self.start(request)
                    if reply := await asyncio.shield(self._replies[text]):
                        is_charged = text in self._charged
                        self._charged.add(text)
                        return replace(reply, cost_dollars=None) if is_charged else reply
                    self._replies.pop(text, None)
        return None

    def close(self) -> None:
        for reply in self._replies.values():
            reply.cancel()
        self._replies.clear()

    async def _count(self, request: Request) -> Reply | None:
        try:
            return await self._ask(request)
        except ResponseFailure as failure:
            return failure.reply
        except VideoMMEError:  # if no question can be answered, the question itself says why
            return None
