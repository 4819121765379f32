"""HTTP requests to one endpoint.

A request has megabytes, and one thread sends all requests. `aiohttp` needs less CPU per request
than the client of `openai` (`perf/requests.py`), which supplies the address, headers and key.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import openai

from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.video_llm import FailureKind, ResponseFailure
from videomme_pipeline.processes.secrets import Redaction

CONNECT_SECONDS = 30.0
FIRST_CONNECT_SECONDS = 3.5
"""Limit until the endpoint has accepted a connection. A run should notice a wrong address soon."""

_KEPT_IDLE_SECONDS = 4.0
"""Servers close an idle connection after some time; 5 s is the shortest usual time."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The HTTP response to one request, whatever its status. It does not contain the key."""

    status: int
    headers: Mapping[str, str]
    """Names are in lower case."""
    content: bytes


class Connections:
    """Connections to the endpoint of `spec`, or to the proxy that the environment names."""

    def __init__(self, spec: EndpointSpec, api_key: str | None) -> None:
        client = openai.AsyncOpenAI(
            api_key=api_key or "not-needed",
            base_url=None if spec.base_url is None and spec.serve is None else spec.endpoint,
        )
        url = client.base_url.join("chat/completions")
        self._spec = spec
        self._redaction = Redaction(api_key)
        self._url = str(url)
        self._headers = {
            name: value
            for name, value in {**client.default_headers, **client.auth_headers}.items()
            if isinstance(value, str) and not name.startswith("X-Stainless-")
        }
        self._has_connected = False
        proxies = getproxies()
        proxy = proxies.get(url.scheme) or proxies.get("all")
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEPT_IDLE_SECONDS,
                ssl=httpx2.create_ssl_context() if url.scheme == "https" else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=None if proxy is None or proxy_bypass(url.netloc.decode()) else proxy,
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
        )

    async def post(self, content: AsyncIterator[bytes], size: int) -> HttpResponse:
        """Send a body of `size` bytes and return the response. Raises ResponseFailure without one.

        Request and response together have `request_timeout_seconds`.
        """
        seconds = self._spec.limits.request_timeout_seconds
        connect_seconds = CONNECT_SECONDS if self._has_connected else FIRST_CONNECT_SECONDS
        for _ in range(2):
            await asyncio.sleep(0)  # lets asyncio notice connections that the server has closed
        try:
            async with (
                asyncio.timeout(seconds),
                self.session.post(
                    self._url,
                    data=content,
                    headers={**self._headers, "Content-Length": str(size)},
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(sock_connect=min(connect_seconds, seconds)),
                ) as response,
            ):
                self._has_connected = True
                body = await self._body_of(response)
        except aiohttp.ClientError as error:
            problem = self._redaction.redact(f"{type(error).__name__}: {error}")
            raise ResponseFailure(
                FailureKind.CONNECTION, f"{self._spec.endpoint}: {problem}; is the server up?"
            ) from None  # the error may contain the key
        except TimeoutError as error:
            raise ResponseFailure(FailureKind.TIMEOUT, f"no answer within {seconds:g} s") from error
        redact = self._redaction.redact
        headers = {
            name.decode("latin-1").lower(): redact(value.decode("latin-1"))
            for name, value in response.raw_headers
        }
        return HttpResponse(response.status, headers, self._redaction.redact_bytes(body))

    async def _body_of(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._spec.limits.max_response_bytes
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > limit:
                raise ResponseFailure(
                    FailureKind.MALFORMED,
                    f"the response is larger than {limit:,} bytes (`limits: max_response_bytes`)",
                    status=response.status,
                )
        return bytes(body)

    async def close(self) -> None:
        await self.session.close()
