"""A loopback endpoint for measurements, in its own process and as cheap as possible.

It reads every body to its end, discards it, and answers `A` after a delay. A request without a
body, such as one for the list of models, is answered with 404 at once. It shares the machine
with the code that is measured, so on Linux the kernel drops the bytes of a body instead of copying
them (MSG_TRUNC), as if they were received by another machine. `tests/support/model_server.py` is
an endpoint that parses requests and injects faults.
"""

import heapq
import multiprocessing
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized

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
NO_LIST = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

_DROPPED = socket.MSG_TRUNC if sys.platform == "linux" else 0
_MAX_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Endpoint:
    """A running endpoint: its URL, its number of requests and its CPU time."""

    base_url: str
    _count: "Synchronized[int]"
    _process: psutil.Process

    @property
    def requests(self) -> int:
        """Requests that were read to their end."""
        return int(self._count.value)

    @property
    def cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def endpoint(delay_seconds: float) -> Iterator[Endpoint]:
    """Run an endpoint that answers `delay_seconds` after it has read a body."""
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


@dataclass
class _Conversation:
    """One connection: repeatedly a head, a body of the announced length and a reply."""

    connection: socket.socket
    head: bytes = b""
    missing: int = 0

    def takes_body(self, buffer: bytearray) -> bool:
        """Read what has arrived, and return True if it completes a body.

        Raises:
            ConnectionError: if the other side closed the connection.
        """
        if self.missing:
            size = self.connection.recv_into(buffer, min(self.missing, len(buffer)), _DROPPED)
            self.missing -= size
        else:
            # Only the first bytes of a body are copied.
            data = self.connection.recv(4096)
            size, self.head = len(data), self.head + data
            head, ended, body = self.head.partition(b"\r\n\r\n")
            if ended:
                fields = (line.partition(b":") for line in head.lower().split(b"\r\n"))
                lengths = [int(value) for name, _, value in fields if name == b"content-length"]
                self.head = b""
                if not lengths:
                    self.connection.sendall(NO_LIST)
                    return False
                self.missing = lengths[0] - len(body)
        if not size:
            raise ConnectionResetError
        return self.missing == 0 and not self.head


def _serve(delay_seconds: float, count: "Synchronized[int]", parent: Connection) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    parent.send(listener.getsockname()[1])
    selector, buffer = selectors.DefaultSelector(), bytearray(_MAX_BYTES)
    selector.register(listener, selectors.EVENT_READ)
    due: list[tuple[float, int, socket.socket]] = []
    while True:
        wait = max(due[0][0] - time.monotonic(), 0.0) if due else None
        for key, _ in selector.select(wait):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                selector.register(connection, selectors.EVENT_READ, _Conversation(connection))
                continue
            conversation: _Conversation = key.data
            try:
                is_whole = conversation.takes_body(buffer)
            except ConnectionError:
                selector.unregister(conversation.connection)
                conversation.connection.close()
                continue
            if is_whole:
                count.value += 1
                answered_at = time.monotonic() + delay_seconds
                heapq.heappush(due, (answered_at, count.value, conversation.connection))
        while due and due[0][0] <= time.monotonic():
            with suppress(OSError):
                heapq.heappop(due)[2].sendall(REPLY)
