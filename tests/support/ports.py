"""TCP ports of servers on the loopback interface."""

import socket
import time
from contextlib import ExitStack


def free_port() -> int:
    """A port that no server has."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """`count` different ports that no server has."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]


def wait_until_open(port: int) -> None:
    """Wait until a server accepts connections at `port`, at most a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"no server accepts connections at port {port}")
