"""The look at an endpoint before its first request, which shows if any server answers there.

A request for an answer can take minutes, so its silence shows nothing. A request for the list of
models is answered at once, if only with a status such as 404.
"""

import asyncio

from videomme_pipeline.models.endpoint.served import is_silent
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure


class FirstLook:
    """Looks at one endpoint until it answers."""

    def __init__(self, spec: EndpointSpec, api_key: str | None) -> None:
        self._spec = spec
        self._api_key = api_key
        self._look: asyncio.Task[bool] | None = None

    def forget(self) -> None:
        """Invalidate what was found."""
        self._look = None

    async def require_answer(self) -> None:
        """Raise a ResponseFailure if the endpoint accepts connections and does not answer."""
        if self._look is None:
            self._look = asyncio.create_task(
                asyncio.to_thread(is_silent, self._spec.url, self._api_key)
            )
        look = self._look
        if await asyncio.shield(look):
            if self._look is look:
                self._look = None
            raise ResponseFailure(
                FailureKind.CONNECTION,
                f"{self._spec.endpoint} accepts connections but does not answer; is it the port "
                "of an inference server, and does the server work?",
            )
