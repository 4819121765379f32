"""A model whose server is checked before it is asked."""

import asyncio
from collections.abc import Callable, Mapping

from videomme_pipeline.models.video_llm import (
    FailureKind,
    Reply,
    Request,
    ResponseFailure,
    VideoLLM,
)


class CheckedModel:
    """`model`, with a check before the first request and after every lost connection.

    A server that was replaced has closed its connections. `check` runs in a thread and raises
    ModelError if the server is not the expected one.
    """

    def __init__(self, model: VideoLLM, check: Callable[[], None]) -> None:
        self._model = model
        self._check = check
        self._checked: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def identity(self) -> Mapping[str, object]:
        return self._model.identity

    @property
    def needs_frames(self) -> bool:
        return self._model.needs_frames

    async def respond(self, request: Request) -> Reply:
        """Return the answer of the model, after the check."""
        if self._checked is None:
            self._checked = asyncio.create_task(asyncio.to_thread(self._check))
        await asyncio.shield(self._checked)
        try:
            return await self._model.respond(request)
        except ResponseFailure as failure:
            if failure.kind is FailureKind.CONNECTION:
                self._checked = None
            raise

    async def close(self) -> None:
        self._checked = None
        await self._model.close()
