"""A check of a server that is run once per connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from videomme_pipeline.models import video_llm

Result = TypeVar("Result")


class ConnectionCheck(Generic[Result]):
    """`check`, which runs in a thread before the first request and after every lost connection."""

    def __init__(self, check: Callable[[], Result]) -> None:
        self._check = check
        self._task: asyncio.Task[Result] | None = None

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[Result]:
        """Wait for the result of the check, or its error. Send the request within the block."""
        task = self._task
        if task is None:
            task = self._task = asyncio.create_task(asyncio.to_thread(self._check))
        try:
            yield await asyncio.shield(task)
        except video_llm.ResponseFailure as failure:
            if failure.kind is video_llm.FailureKind.CONNECTION and self._task is task:
                self._task = None
            raise

    def invalidate(self) -> None:
        """Run the check again before the next request."""
        self._task = None


class CheckedModel:
    """`model`, with a `check` that raises ModelError if its server is not the expected one."""

    def __init__(self, model: video_llm.VideoLLM, check: Callable[[], None]) -> None:
        self.name, self.identity = model.name, model.identity
        self.needs_frames = model.needs_frames
        self._model = model
        self._check = ConnectionCheck(check)

    async def respond(self, request: video_llm.Request) -> video_llm.Reply:
        async with self._check.passed():
            return await self._model.respond(request)

    async def close(self) -> None:
        self._check.invalidate()
        await self._model.close()
