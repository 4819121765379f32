"""Servers that a process has started."""

from contextlib import suppress
from urllib.parse import urlsplit

import httpx2
import psutil


def server_at(url: str, parent: psutil.Process | None = None) -> psutil.Process:
    """The server of `url`: a child of `parent`, by default this process, with the URL's port."""
    port = str(urlsplit(url).port)
    children = (parent or psutil.Process()).children(recursive=True)
    servers = []
    for child in children:
        with suppress(psutil.Error):  # it has ended
            servers += [child] if port in child.cmdline() else []
    return min(servers, key=lambda server: server.create_time())


def is_answering(url: str) -> bool:
    """True if the endpoint `url` lists its models."""
    try:
        return httpx2.get(f"{url}/models").status_code == 200
    except httpx2.TransportError:
        return False
