"""A loopback endpoint for measurements, in a process of its own, as cheap as it can be.

It reads every body to its end into one buffer, forgets it, and answers `A` after a delay. For
an endpoint that understands and misbehaves see `tests/model_server.py`.
"""

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import cast

import psutil

COMPLETION = (
    b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"A"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":10000,"completion_tokens":1,"total_tokens":10001}}'
)
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(COMPLETION),
    COMPLETION,
)


class _Conversation(asyncio.BufferedProtocol):
    """One connection: a head, a body of the length it says, a reply, and again."""

    def __init__(self, delay_seconds: float, count: "Synchronized[int]") -> None:
        self._delay_seconds = delay_seconds
        self._count = count
        self._buffer = bytearray(2**20)
        self._head = b""
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - the protocol's signature
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._missing:
            self._missing -= nbytes
        else:
            self._head += bytes(self._buffer[:nbytes])
            head, ended, body = self._head.partition(b"\r\n\r\n")
            if not ended:
                return
            fields = (line.partition(b":") for line in head.lower().split(b"\r\n"))
            lengths = [int(value) for name, _, value in fields if name == b"content-length"]
            self._missing = lengths[0] - len(body)
            self._head = b""
        if self._missing == 0:
            self._count.value += 1
            loop = asyncio.get_running_loop()
            loop.call_later(self._delay_seconds, self._transport.write, REPLY)


@dataclass(frozen=True)
class Endpoint:
    """A running endpoint: where it is and what it has done so far."""

    base_url: str
    _count: "Synchronized[int]"
    _process: psutil.Process

    @property
    def requests(self) -> int:
        """Requests read to their end."""
        return int(self._count.value)

    @property
    def cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def endpoint(delay_seconds: float) -> Iterator[Endpoint]:
    """An endpoint that answers `delay_seconds` after it has read a body."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    count = context.Value("q", 0)
    process = context.Process(target=_serve, args=(delay_seconds, count, there), daemon=True)
    process.start()
    there.close()
    try:
        port = here.recv()
        yield Endpoint(f"http://127.0.0.1:{port}/v1", count, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.join()


def _serve(delay_seconds: float, count: "Synchronized[int]", parent: Connection) -> None:
    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _Conversation(delay_seconds, count), "127.0.0.1", 0
        )
        parent.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())
