"""A check of a server that is run once per connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from videomme_pipeline.models.video_llm import (
    FailureKind,
    Reply,
    Request,
    ResponseFailure,
    VideoLLM,
)

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
        except ResponseFailure as failure:
            if failure.kind is FailureKind.CONNECTION and self._task is task:
                self._task = None
            raise

    def invalidate(self) -> None:
        """Run the check again before the next request."""
        self._task = None


class CheckedModel:
    """`model`, with a `check` that raises ModelError if its server is not the expected one."""

    def __init__(self, model: VideoLLM, check: Callable[[], None]) -> None:
        self.name, self.identity = model.name, model.identity
        self.needs_frames = model.needs_frames
        self._model = model
        self._check = ConnectionCheck(check)

    async def respond(self, request: Request) -> Reply:
        async with self._check.passed():
            return await self._model.respond(request)

    async def close(self) -> None:
        self._check.invalidate()
        await self._model.close()
