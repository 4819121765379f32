"""Servers that a process has started."""

from urllib.parse import urlsplit

import psutil


def server_at(url: str, parent: psutil.Process | None = None) -> psutil.Process:
    """The server of `url`: a child of `parent`, by default this process, with the URL's port."""
    port = str(urlsplit(url).port)
    children = (parent or psutil.Process()).children(recursive=True)
    servers = [child for child in children if port in child.cmdline()]
    return min(servers, key=lambda server: server.create_time())
