"""HTTP connections to one endpoint, for requests of megabytes that take as little CPU as they can.

The `openai` client says where the endpoint is, and with which headers and key it is asked; each
request then goes straight to a connection of `httpcore2`, the layer on which that client stands.
The layers between cost several times what sending does, and a connection pool looks at every
connection it has for every request. What stands in a body belongs to `openai_compatible`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2
import openai

from videomme_pipeline.models.openai.spec import EndpointSpec
from videomme_pipeline.models.openai.streams import AsyncioBackend

CONNECT_SECONDS = 30.0
_KEPT_IDLE_SECONDS = 5.0
"""Servers close an idle connection after some time; the usual least is 5 s."""


_UNSENT_KEY = "not-needed"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request, whatever its status."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Connections:
    """Connections to the endpoint of `client`: as many as there are requests at the same time.

    A request takes the connection that was used last, so those that are no longer needed grow
    old and are closed. Proxies are those of the environment (`HTTPS_PROXY`, `NO_PROXY` …).
    """

    def __init__(self, client: openai.AsyncOpenAI, path: str, *, timeout_seconds: float) -> None:
        url = client.base_url.join(path)
        self._url = httpcore2.URL(str(url))
        self._headers = [(b"Host", url.netloc)] + [
            (name.encode(), value.encode())
            for name, value in {**client.default_headers, **client.auth_headers}.items()
            if isinstance(value, str) and not name.startswith("X-Stainless-")
        ]
        self._timeout_seconds = timeout_seconds
        self._extensions = {"timeout": {"connect": min(CONNECT_SECONDS, timeout_seconds)}}
        # Only makes connections; which one is used is decided here.
        self._maker = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context() if url.scheme == "https" else None,
            proxy=_proxy_to(url),
            keepalive_expiry=_KEPT_IDLE_SECONDS,
            network_backend=AsyncioBackend(),
        )
        self._idle: list[httpcore2.AsyncConnectionInterface] = []

    async def post(self, content: AsyncIterator[bytes], size: int) -> Answer:
        """Send a body of `size` bytes and read what comes back.

        Raises:
            TimeoutError: when it all took longer than `timeout_seconds`.
            httpcore2.ConnectTimeout, httpcore2.NetworkError, httpcore2.ProtocolError,
            httpcore2.ProxyError: when the endpoint could not be reached, or hung up.
        """
        request = httpcore2.Request(
            b"POST",
            self._url,
            headers=[*self._headers, (b"Content-Length", b"%d" % size)],
            content=content,
            extensions=self._extensions,
        )
        connection = await self._connection()
        async with asyncio.timeout(self._timeout_seconds):
            response = await connection.handle_async_request(request)
            try:
                body = await response.aread()
            finally:
                await response.aclose()
        if connection.is_available():
            self._idle.append(connection)
        headers = {name.decode("latin-1").lower(): value for name, value in response.headers}
        return Answer(
            status=response.status,
            headers={name: value.decode("latin-1") for name, value in headers.items()},
            content=body,
        )

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def _connection(self) -> httpcore2.AsyncConnectionInterface:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_available() and not connection.has_expired():
                return connection
            await connection.aclose()
        return self._maker.create_connection(self._url.origin)


def connect(spec: EndpointSpec, api_key: str | None) -> openai.AsyncOpenAI:
    """A client for the endpoint of `spec` that retries nothing by itself and keeps as many
    connections as there are requests."""
    return openai.AsyncOpenAI(
        api_key=api_key or _UNSENT_KEY,
        base_url=spec.base_url,
        max_retries=0,
        timeout=spec.limits.request_timeout_seconds,
        http_client=openai.DefaultAsyncHttpxClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=1024)
        ),
    )


def _proxy_to(url: httpx2.URL) -> httpcore2.Proxy | None:
    """The environment's proxy for `url`."""
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if found is None or proxy_bypass(url.netloc.decode()):
        return None
    proxy = httpx2.Proxy(found)
    return httpcore2.Proxy(str(proxy.url), auth=proxy.raw_auth, headers=proxy.headers.raw)
