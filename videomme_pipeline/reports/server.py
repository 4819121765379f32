"""A server of the results page for this machine only: the page, contact sheets and local videos.

The server has a fixed table of URLs and never builds a path from a request. Requests under another
host name are refused, so that no website can read the page through its own host name.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.log import server_logger

from videomme_pipeline.errors import ConfigurationError, DamagedFileError
from videomme_pipeline.reports.stored import FramesKey, ServedPage, contact_sheet
from videomme_pipeline.storage.layout import Store

HOST = "127.0.0.1"
_KEPT_SHEETS = 64
_HEADERS = {
    "Cache-Control": "no-cache",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class PageServer:
    """Serves a page on `port` (0: a free one). Raises ConfigurationError if it cannot be used."""

    def __init__(self, store: Store, port: int) -> None:
        try:
            self._socket = socket.create_server((HOST, port))
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"port {port}: cannot listen on it ({error}); choose another one with --port"
            ) from error
        self.document: Callable[[], bytes] = bytes
        self.sheets: Mapping[str, FramesKey] = {}
        self.videos: Mapping[str, Path] = {}
        self.sheet = lru_cache(_KEPT_SHEETS)(lambda key: contact_sheet(store, key))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}/"

    def show(self, page: ServedPage) -> None:
        """Serve this page and its files from now on."""
        self.document = page.document.encode
        self.sheets = {f"/{url}": key for url, key in page.sheets.items()}
        self.videos = {f"/{url}": path for url, path in page.videos.items()}

    def show_stored(self, path: Path) -> None:
        """Serve the file `path` as it is at each request, and no other file."""
        self.document = path.read_bytes

    async def serve(self) -> None:
        """Answer requests until the task is canceled."""
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None)
        server_logger.addFilter(_is_fault_of_ours)
        await runner.setup()
        try:
            await web.SockSite(runner, self._socket).start()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Host") not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            raise web.HTTPMisdirectedRequest
        url = request.raw_path.partition("?")[0]
        if url == "/":
            try:
                body = self.document()
            except FileNotFoundError as error:
                raise web.HTTPNotFound(text="no page yet; build it: videomme run") from error
            return web.Response(
                body=body, content_type="text/html", charset="utf-8", headers=_HEADERS
            )
        if url == "/favicon.ico":  # every browser asks for it
            raise web.HTTPNoContent
        if path := self.videos.get(url):
            kind = guess_type(path)[0] or "video/mp4"
            return web.FileResponse(path, headers={**_HEADERS, "Content-Type": kind})
        if key := self.sheets.get(url):
            try:
                sheet = await asyncio.to_thread(self.sheet, key)
            except (FileNotFoundError, DamagedFileError) as error:
                raise web.HTTPNotFound(text=str(error)) from error
            return web.Response(body=sheet, content_type="image/jpeg", headers=_HEADERS)
        raise web.HTTPNotFound


def _is_fault_of_ours(record: logging.LogRecord) -> bool:
    """False for the traceback about a request that is no HTTP."""
    return not (record.exc_info and isinstance(record.exc_info[1], BadHttpMessage))
