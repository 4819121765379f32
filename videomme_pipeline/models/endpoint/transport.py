"""HTTP connections to one endpoint that use as little CPU per request as possible.

A request has megabytes, and one Python thread sends all requests. With 64 requests in flight and
answers after 200 ms, a core has 3.1 ms per request. Sending a request of 64 frames takes 1.3 to
2.2 ms of CPU here and 2.6 to 4.4 ms with `httpx2.AsyncClient` and the same streamed body. With
that client, a whole evaluation takes 1.1 to 1.8 times as long and cannot reach 95% of the ideal
throughput (`perf/requests.py` and `perf/responses.py` measure both). The additional time is spent
in the layers of the client, in its connection pool, which checks every connection for every
request, and in the network backend of `httpcore2`, which also supports other event loops.

So requests use the connections of `httpcore2`, the layer below `httpx2`, directly, with `Stream`
as the network backend. The `openai` client supplies the address, the headers and the key.
"""

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2
import openai

from videomme_pipeline.models.endpoint.endpoints import MEBIBYTE
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure
from videomme_pipeline.processes.secrets import Redaction

CONNECT_SECONDS = 30.0
FIRST_CONNECT_SECONDS = 3.5
"""Limit until the endpoint has accepted a connection. A run should notice a wrong address soon."""

_KEPT_IDLE_SECONDS = 5.0
"""Servers close an idle connection after some time; 5 s is the shortest usual time."""
_UNREAD_BYTES = MEBIBYTE
"""A connection stops receiving while this many bytes have not been read."""
_UNSENT_KEY = "not-needed"


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP response to one request, whatever its status. It does not contain the key."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @classmethod
    def redacted(
        cls, status: int, headers: Iterable[tuple[str, str]], content: bytes, redaction: Redaction
    ) -> Self:
        """The response without the key. The names of headers become lower case."""
        return cls(
            status=status,
            headers={name.lower(): redaction.redact(value) for name, value in headers},
            content=redaction.redact_bytes(content),
        )


def connect(spec: EndpointSpec, api_key: str | None) -> openai.AsyncOpenAI:
    """A client for the endpoint of `spec` that does not retry or limit connections."""
    return openai.AsyncOpenAI(
        api_key=api_key or _UNSENT_KEY,
        base_url=None if spec.base_url is None and spec.serve is None else spec.endpoint,
        max_retries=0,
        timeout=spec.limits.request_timeout_seconds,
        http_client=openai.DefaultAsyncHttpxClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=1024)
        ),
    )


class Connections:
    """Connections to the endpoint of `spec`, as many as there are concurrent requests.

    A request uses the connection that was used last, so surplus connections expire and are
    closed. Proxies are read from the environment (`HTTPS_PROXY`, `NO_PROXY` …).
    """

    def __init__(self, spec: EndpointSpec, api_key: str | None, path: str) -> None:
        client = connect(spec, api_key)
        url = client.base_url.join(path)
        self._spec = spec
        self._redaction = Redaction(api_key)
        self._url = httpcore2.URL(str(url))
        self._headers = [(b"Host", url.netloc)] + [
            (name.encode(), value.encode())
            for name, value in {**client.default_headers, **client.auth_headers}.items()
            if isinstance(value, str) and not name.startswith("X-Stainless-")
        ]
        self._has_connected = False
        # Only creates connections; `_connection` decides which one is used.
        self._factory = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context() if url.scheme == "https" else None,
            proxy=_proxy_for(url),
            keepalive_expiry=_KEPT_IDLE_SECONDS,
            network_backend=AsyncioBackend(),
        )
        self._idle: list[httpcore2.AsyncConnectionInterface] = []

    async def post(self, content: AsyncIterator[bytes], size: int) -> Answer:
        """Send a body of `size` bytes and return the response.

        Raises:
            ResponseFailure: if the endpoint cannot be reached or closes the connection, if
                request and response together take longer than `request_timeout_seconds`, or if
                the response is larger than `max_response_bytes`.
        """
        request = httpcore2.Request(
            b"POST",
            self._url,
            headers=[*self._headers, (b"Content-Length", b"%d" % size)],
            content=content,
            extensions={"timeout": {"connect": self._connect_seconds}},
        )
        seconds = self._spec.limits.request_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(request)
        except TimeoutError as error:
            raise ResponseFailure(FailureKind.TIMEOUT, f"no answer within {seconds:g} s") from error
        except (
            httpcore2.ConnectTimeout,
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.ProxyError,
        ) as error:
            found = self._redaction.redact(f"{type(error).__name__}: {error}")
            raise ResponseFailure(
                FailureKind.CONNECTION, f"{self._spec.endpoint}: {found}; is the server up?"
            ) from None  # the error may contain the key

    @property
    def _connect_seconds(self) -> float:
        seconds = CONNECT_SECONDS if self._has_connected else FIRST_CONNECT_SECONDS
        return min(seconds, self._spec.limits.request_timeout_seconds)

    async def _exchange(self, request: httpcore2.Request) -> Answer:
        connection = await self._connection()
        response = await connection.handle_async_request(request)
        self._has_connected = True
        try:
            content = await self._body_of(response)
        finally:
            await response.aclose()
        if connection.is_available():
            self._idle.append(connection)
        headers = ((n.decode("latin-1"), v.decode("latin-1")) for n, v in response.headers)
        return Answer.redacted(response.status, headers, content, self._redaction)

    async def _body_of(self, response: httpcore2.Response) -> bytes:
        limit = self._spec.limits.max_response_bytes
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_stream():
            size += len(chunk)
            if size > limit:
                raise ResponseFailure(
                    FailureKind.MALFORMED,
                    f"the response is larger than {limit:,} bytes (`limits: max_response_bytes`)",
                    status=response.status,
                )
            chunks.append(chunk)
        return b"".join(chunks)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def _connection(self) -> httpcore2.AsyncConnectionInterface:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_available() and not connection.has_expired():
                return connection
            await connection.aclose()
        return self._factory.create_connection(self._url.origin)


def _proxy_for(url: httpx2.URL) -> httpcore2.Proxy | None:
    """The environment's proxy for `url`, or None."""
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if found is None or proxy_bypass(url.netloc.decode()):
        return None
    proxy = httpx2.Proxy(found)
    return httpcore2.Proxy(str(proxy.url), auth=proxy.raw_auth, headers=proxy.headers.raw)


class AsyncioBackend(httpcore2.AsyncNetworkBackend):
    """Opens a `Stream` for each connection of a pool of httpcore2."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - never set here
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> "Stream":
        """A connection to `host`.

        Raises:
            httpcore2.ConnectTimeout: after `timeout` seconds.
            httpcore2.ConnectError: if no server accepts the connection.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, stream = await loop.create_connection(
                    Stream, host, port, happy_eyeballs_delay=0.25
                )
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"no connection within {timeout:g} s") from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Stream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """One connection. Data received before it broke can still be read.

    Single reads and writes have no timeout, since `Connections.post` limits the whole request.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._received: list[bytes] = []
        self._unread_bytes = 0
        self._lost: Exception | None = None
        self._has_ended = False
        self._can_write = True
        self._waiting: asyncio.Future[None] | None = None

    # Methods that httpcore2 calls.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """The data received since the last call, or b"" at the end of the stream.

        Raises:
            httpcore2.ReadError: if the connection broke.
        """
        while not self._received and not self._has_ended:
            await self._wait()
        if not self._received and self._lost is not None:
            raise httpcore2.ReadError(str(self._lost)) from self._lost
        if self._unread_bytes > _UNREAD_BYTES:
            self._transport.resume_reading()
        data, self._received, self._unread_bytes = b"".join(self._received), [], 0
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send `buffer`. Return when asyncio accepts more data.

        Raises:
            httpcore2.WriteError: if the connection broke.
        """
        if not self._has_ended:
            self._transport.write(buffer)
        while not self._can_write and not self._has_ended:
            await self._wait()
        if self._has_ended:
            raise httpcore2.WriteError(str(self._lost or "the other side closed the connection"))

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "Stream":
        """Encrypt this stream and return it.

        Raises:
            httpcore2.ConnectTimeout: after `timeout` seconds.
            httpcore2.ConnectError: if the handshake fails.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport = await loop.start_tls(
                    self._transport, self, ssl_context, server_hostname=server_hostname
                )
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"no TLS within {timeout:g} s") from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        self._transport = cast(asyncio.Transport, transport)
        return self

    async def aclose(self) -> None:
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._has_ended or self._is_readable()
        return self._transport.get_extra_info(info)

    # Methods that asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._unread_bytes += len(data)
        if self._unread_bytes > _UNREAD_BYTES:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._has_ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._has_ended, self._lost = True, error
        self._wake()

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._wake()

    def _is_readable(self) -> bool:
        """True if the socket has data or was closed, even if asyncio has not noticed it yet.

        httpcore2 checks this before it reuses an idle connection.
        """
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return bool(poll.poll(0))

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
