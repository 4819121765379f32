"""The context check of requests to one endpoint, before they are sent."""

import asyncio

from videomme_pipeline.models.context import context_excess
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, Request, ResponseFailure


class ContextCheck:
    """Compares requests with the context of the model, which is looked up once."""

    def __init__(self, spec: EndpointSpec, api_key: str | None) -> None:
        self._spec = spec
        self._api_key = api_key
        self._context_tokens: asyncio.Task[int | None] | None = None

    def forget(self) -> None:
        """Look up the context again for the next request."""
        self._context_tokens = None

    async def require_fit(self, request: Request) -> None:
        """Raise a ResponseFailure if the prompt of `request` cannot fit into the context."""
        if self._context_tokens is None:
            environment = dict.fromkeys(self._spec.key_variables, self._api_key or "")
            self._context_tokens = asyncio.create_task(
                asyncio.to_thread(self._spec.context_tokens, environment)
            )
        frames = request.frames.frames
        excess = context_excess(
            self._spec,
            await asyncio.shield(self._context_tokens),
            frames=len(frames),
            frame_size=(frames[0].width, frames[0].height) if frames else None,
            text_characters=len(request.prompt.system or "") + len(request.prompt.text),
        )
        if excess is not None:
            raise ResponseFailure(FailureKind.TOO_LARGE, str(excess))
