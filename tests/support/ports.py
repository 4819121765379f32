"""TCP ports of servers on the loopback interface."""

import socket
import time

from videomme_pipeline.serving.replicas import free_ports


def free_port() -> int:
    """A port that no server has."""
    return free_ports(1)[0]


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
