"""Byte streams of asyncio's own for `httpcore2`, with nothing between a body and its socket.

The backend that httpcore2 brings serves other event loops too, and takes a third of the CPU of a
request for it. Timeouts of single reads and writes are left out: whoever sends a request limits
the whole of it.
"""

import asyncio
import select
import ssl
from collections.abc import Iterable
from typing import Any, cast

import httpcore2


class AsyncioBackend(httpcore2.AsyncNetworkBackend):
    """Opens `Stream`s; given to a connection pool of httpcore2."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - nobody here sets it
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> "Stream":
        """A connection to `host`.

        Raises:
            httpcore2.ConnectTimeout: after `timeout` seconds.
            httpcore2.ConnectError: when there is nobody.
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
    """One connection. What came before it broke can still be read."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._received: list[bytes] = []
        self._lost: Exception | None = None
        self._has_ended = False
        self._can_write = True
        self._waiting: asyncio.Future[None] | None = None

    # What httpcore2 calls.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """All that has come since the last call, at least a byte; empty at the end.

        Raises:
            httpcore2.ReadError: when the connection broke.
        """
        while not self._received and not self._has_ended:
            await self._wait()
        if not self._received and self._lost is not None:
            raise httpcore2.ReadError(str(self._lost)) from self._lost
        data, self._received = b"".join(self._received), []
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send `buffer`; comes back when there is room for more.

        Raises:
            httpcore2.WriteError: when the connection broke.
        """
        if not self._has_ended:
            self._transport.write(buffer)
        while not self._can_write and not self._has_ended:
            await self._wait()
        if self._has_ended:
            raise httpcore2.WriteError(str(self._lost or "the other side hung up"))

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "Stream":
        """This stream, encrypted from now on.

        Raises:
            httpcore2.ConnectTimeout: after `timeout` seconds.
            httpcore2.ConnectError: when the two sides do not agree.
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

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
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
        """Whether something has come that asyncio has not told of yet: of an idle connection,
        which httpcore2 asks this of, that it was closed."""
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
