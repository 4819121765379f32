"""A model of an endpoint that speaks OpenAI's chat completions.

The `openai` client supplies the address and the credentials. One call is one attempt: retries,
limits and the journal belong to `responses`.
"""

import asyncio
from dataclasses import replace

from upath import UPath

from videomme_pipeline.models.endpoint.body import RecentFrames, request_body, share_frames
from videomme_pipeline.models.endpoint.endpoints import FramesAs
from videomme_pipeline.models.endpoint.model import EndpointModel
from videomme_pipeline.models.endpoint.native import share_video
from videomme_pipeline.models.endpoint.reply import frames_warning, read_reply
from videomme_pipeline.models.endpoint.reported_errors import status_failure
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import Connections, HttpResponse
from videomme_pipeline.models.video_llm import Reply, Request

UPLOADS_AT_ONCE = 32
"""Limit of bodies that are sent at the same time. They share one network link, so more would
only take memory. Requests that wait for their answer do not count."""


class OpenAICompatibleModel(EndpointModel):
    """A model of an endpoint, with one HTTP request per question."""

    def __init__(self, spec: EndpointSpec, *, api_key: str | None = None) -> None:
        super().__init__(spec, api_key=api_key)
        self._connections: Connections | None = None
        self._uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self._recent = RecentFrames(spec)

    async def ask(self, request: Request) -> Reply:
        if self.spec.shared_folder is not None and request.frames.frames:
            await asyncio.to_thread(self._share, request)
        response = await self._post(request)
        if response.status >= 300:
            raise status_failure(response, self.spec)
        reply = read_reply(response.content, self.spec, request)
        return replace(reply, warning=frames_warning(self.spec, request, reply))

    async def close(self) -> None:
        await super().close()
        connections, self._connections = self._connections, None
        self._recent = RecentFrames(self.spec)
        if connections is not None:
            await connections.close()

    def _share(self, request: Request) -> None:
        """Write what the endpoint reads from the shared folder."""
        if self.spec.reads_video:
            share_video(self.spec, request)
        elif self.spec.sends_frames_as is FramesAs.FILES and self.spec.shared_folder:
            share_frames(request.frames, UPath(self.spec.shared_folder))

    async def _post(self, request: Request) -> HttpResponse:
        body = request_body(self.spec, request, self._recent.part_of(request))
        content, size = body.stream(self._uploads), body.size
        # Free the multi-megabyte body while waiting for the response.
        del body
        if self._connections is None:
            self._connections = Connections(self.spec, self._api_key, "chat/completions")
        return await self._connections.post(content, size)
