"""Models of an endpoint that speaks OpenAI's chat completions. One call is one attempt."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import replace

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.models.connection_check import ConnectionCheck
from videomme_pipeline.models.endpoint.body import (
    RecentFrames,
    RequestBody,
    request_body,
    text_body,
)
from videomme_pipeline.models.endpoint.frame_tokens import TIME_TOKENS, context_problem
from videomme_pipeline.models.endpoint.reply import frames_warning, read_reply, reported_cost
from videomme_pipeline.models.endpoint.reported_errors import status_failure
from videomme_pipeline.models.endpoint.served import ServerDownError, is_silent, reported_values
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint.transport import Connections
from videomme_pipeline.models.endpoint.video_file import share_video
from videomme_pipeline.models.video_llm import FailureKind, Reply, Request, ResponseFailure

UPLOADS_AT_ONCE = 32
"""Limit of bodies that are sent at the same time. They share one network link, so more would
only take memory. Requests that wait for their answer do not count."""
_COUNT_ATTEMPTS = 2
"""The second attempt follows the answer to the question, when the endpoint works."""
_COUNT_SECONDS = 120.0
"""Limit after the answer to the question. A missing count must not cost the answer."""


class OpenAICompatibleModel:
    """A model of an endpoint, with one HTTP request per question.

    Once per connection, the list of models is requested, which every server answers at once, if
    only with a status such as 404. Silence to a request for an answer shows nothing.
    """

    needs_frames = True

    def __init__(self, spec: EndpointSpec, *, api_key: str | None = None) -> None:
        self.spec, self.name, self.identity = spec, spec.name, spec.identity
        self._api_key = api_key
        self._has_answered = False
        self._context_tokens = ConnectionCheck(self._check)
        self._connections: Connections | None = None
        self._uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self._recent = RecentFrames()
        self._texts = TextCounts(lambda text: self._reply_to(text, text_body(self.spec, text)))

    async def respond(self, request: Request) -> Reply:
        """Return the answer of one attempt, if the prompt is not too long for the model."""
        async with self._context_tokens.passed() as context_tokens:
            problem = context_problem(
                context_tokens,
                frames=len(request.frames.frames),
                frame_tokens=self.spec.tokens_of(request.frames),
                text_characters=len(request.prompt.system or "") + sum(map(len, request.texts)),
            )
            if problem is not None:
                raise ResponseFailure(FailureKind.TOO_LARGE, problem)
            return await self._ask(request)

    async def close(self) -> None:
        self._has_answered = False
        self._context_tokens.invalidate()
        self._texts.close()
        connections, self._connections = self._connections, None
        self._recent = RecentFrames()
        if connections is not None:
            await connections.close()

    def _check(self) -> int | None:
        """The context of the model in tokens, or None if it is unknown."""
        # A server that has answered may be busy now.
        if not self._has_answered and is_silent(self.spec.url, self._api_key):
            raise ResponseFailure(
                FailureKind.CONNECTION,
                f"{self.spec.endpoint} accepts connections but does not answer; is it the port "
                "of an inference server, and does the server work?",
            )
        self._has_answered = True
        if self.spec.reads_video:
            self._look_up_version()
        environment = dict.fromkeys(self.spec.key_variables, self._api_key or "")
        return self.spec.context_tokens(environment)

    def _look_up_version(self) -> None:
        """Look up the engine's version. A known version is kept until another one is reported."""
        spec = self.spec
        try:
            values = reported_values(spec.url, spec.profile, self._api_key)
            if version := values.get("version"):
                self.spec = spec.with_version(version)
        except ServerDownError as error:
            if spec.known_version is None:
                problem = f"{spec.endpoint}: {error}; is the server up?"
                raise ResponseFailure(FailureKind.CONNECTION, problem) from None

    async def _ask(self, request: Request) -> Reply:
        if self.spec.reads_video and self.spec.shared_folder and request.frames.frames:
            await asyncio.to_thread(share_video, self.spec, request)
        proves_frames = self.spec.counts_texts and bool(self.spec.tokens_of(request.frames))
        if proves_frames:
            self._texts.start(request)
        frames = self._recent.part_of(self.spec, request)
        reply = await self._reply_to(request, request_body(self.spec, request, frames))
        if proves_frames and (text := await self._texts.reply_to(request)) is not None:
            reply = self._with_text_of(request, reply, text)
        return replace(reply, warning=frames_warning(self.spec, request, reply))

    def _with_text_of(self, request: Request, reply: Reply, text: Reply) -> Reply:
        """`reply` with the tokens of its text and with the cost of counting them."""
        cost, count = reply.cost_dollars, text.usage.prompt_tokens
        if cost is not None:
            cost += text.cost_dollars or 0.0
        if count is not None:
            count -= TIME_TOKENS * len(self.spec.frame_times(request.frames.seconds))
        return replace(reply, usage=replace(reply.usage, text_tokens=count), cost_dollars=cost)

    async def _reply_to(self, request: Request, body: RequestBody) -> Reply:
        if self._connections is None:
            self._connections = Connections(self.spec, self._api_key)
        post = self._connections.post(body.stream(self._uploads), body.size)
        del body  # its megabytes are freed before the response arrives
        response = await post
        if response.status >= 300:
            raise status_failure(response, self.spec)
        reply = read_reply(response.content, self.spec, request)
        if reply.cost_dollars is None and self.spec.costs_money:
            reply = replace(reply, cost_dollars=reported_cost(response.headers))
        return reply


class TextCounts:
    """The replies to requests without frames, one per text. `ask` sends such a request.

    They show how many prompt tokens of a question are for frames. All texts of the questions on a
    video are counted before its frames arrive, as a small engine caches only the latest prompt.
    """

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
            async with asyncio.timeout(_COUNT_SECONDS):
                for _ in range(_COUNT_ATTEMPTS):
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
