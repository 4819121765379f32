"""A TCP proxy before an HTTP server that delays, rejects or cuts off requests."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

_CHUNK_BYTES = 1 << 16
_REJECTED = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_METHODS = (b"GET ", b"PUT ", b"HEAD ", b"POST ", b"DELETE ")


class Fault(StrEnum):
    """A fault of a request."""

    CUT = "the connection is closed in the middle of the body"
    CUT_ANSWER = "the connection is closed in the middle of the answer"
    REJECT = "the answer is 503"


@dataclass
class FaultyProxy:
    """A proxy for one server. Change its fields at any time.

    The next `remaining` requests with `method` have the `fault`. Each request is delayed by
    `delay_seconds`. `faults` counts the requests that had one.
    """

    server: tuple[str, int]
    fault: Fault = Fault.REJECT
    method: bytes = b""
    remaining: int = 0
    delay_seconds: float = 0.0
    faults: int = 0
    requests: int = 0
    address: tuple[str, int] = ("", 0)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        host, port = self.address
        return f"http://{host}:{port}"

    def fail(self, fault: Fault, count: int, method: bytes = b"") -> None:
        """Let the next `count` requests fail."""
        with self._lock:
            self.fault, self.method, self.remaining = fault, method, count

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until `listener` is closed."""
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        """Pass the bytes of one connection in both directions, until a fault closes it."""
        cut_answer = threading.Event()
        with client, suppress(OSError), socket.create_connection(self.server) as server:
            arguments = (server, client, cut_answer)
            threading.Thread(target=_pass_answers, args=arguments, daemon=True).start()
            is_cut = False
            while data := client.recv(_CHUNK_BYTES):
                fault = self._next_fault(data)
                if fault is Fault.REJECT:
                    client.sendall(_REJECTED)
                    return
                if fault is Fault.CUT_ANSWER:
                    cut_answer.set()
                head, end, body = data.partition(b"\r\n\r\n") if fault else (b"", b"", data)
                is_cut = is_cut or fault is Fault.CUT
                if is_cut and body:
                    server.sendall(head + end + body[: len(body) // 2])
                    return
                server.sendall(data)

    def _next_fault(self, data: bytes) -> Fault | None:
        """The fault of the request that begins with `data`, if it is the begin of one."""
        if not data.startswith(_METHODS):
            return None
        time.sleep(self.delay_seconds)
        with self._lock:
            self.requests += 1
            if not self.remaining or not data.startswith(self.method):
                return None
            self.remaining -= 1
            self.faults += 1
            return self.fault


def _pass_answers(server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
    with suppress(OSError):
        while data := server.recv(_CHUNK_BYTES):
            if cut.is_set():
                client.sendall(data[: len(data) // 2])
                break
            client.sendall(data)
    with suppress(OSError):  # also if the server was killed, which resets its connection
        client.shutdown(socket.SHUT_RDWR)


@contextmanager
def faulty_proxy(endpoint: str) -> Iterator[FaultyProxy]:
    """A proxy on the loopback interface for the server at `endpoint`, at first without faults."""
    host, _, port = endpoint.rpartition("/")[2].partition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = FaultyProxy((host, int(port)), address=listener.getsockname())
        threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
        yield proxy
