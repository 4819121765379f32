"""A server of the results page for this machine only: the page, contact sheets and local videos.

The server has a fixed table of URLs and never builds a path from a request. Requests under another
host name are refused, so that no website can read the page through its own host name.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from mimetypes import guess_type
from pathlib import Path
from typing import IO, ClassVar

from videomme_pipeline.errors import ConfigurationError, DamagedFileError
from videomme_pipeline.reports.media import FramesKey, contact_sheet
from videomme_pipeline.reports.page import ServedPage
from videomme_pipeline.storage.layout import Store

HOST = "127.0.0.1"
_KEPT_SHEETS = 64
_IDLE_SECONDS = 60
_PART_BYTES = 1 << 18
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class PageServer(ThreadingHTTPServer):
    """Serves the page of the last call of `show`, at `url`. Port 0 chooses a free port.

    Raises:
        ConfigurationError: if the port cannot be used.
    """

    daemon_threads = True

    def __init__(self, store: Store, port: int) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"port {port}: cannot listen on it ({error}); choose another one with --port"
            ) from error
        self.sheet = lru_cache(_KEPT_SHEETS)(lambda key: contact_sheet(store, key))
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def show(self, page: ServedPage) -> None:
        """Serve this page and its files from now on."""
        self.document = page.document.encode()
        self.sheets: Mapping[str, FramesKey] = {f"/{url}": key for url, key in page.sheets.items()}
        self.videos: Mapping[str, Path] = {f"/{url}": path for url, path in page.videos.items()}

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    _headers: ClassVar = {
        "Cache-Control": "no-cache",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
    }

    def do_GET(self) -> None:
        """Answer with the file of this URL."""
        with suppress(ConnectionError):  # a player closes the connection when it seeks
            self._answer()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: the terminal shows only the address."""

    def _answer(self) -> None:
        url = self.path.partition("?")[0]
        if self.headers.get("Host") not in self.server.hosts:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif url == "/":
            self._send(self.server.document, "text/html; charset=utf-8")
        elif url == "/favicon.ico":  # every browser asks for it
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
        elif key := self.server.sheets.get(url):
            self._send_sheet(key)
        elif path := self.server.videos.get(url):
            self._send_video(path)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send_sheet(self, key: FramesKey) -> None:
        try:
            sheet = self.server.sheet(key)
        except (FileNotFoundError, DamagedFileError) as error:
            self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))
        else:
            self._send(sheet, "image/jpeg")

    def _send_video(self, path: Path) -> None:
        try:
            video = path.open("rb")
        except OSError as error:
            self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))
            return
        with video:
            self._send_range(video, path.stat().st_size, guess_type(path)[0] or "video/mp4")

    def _send(self, content: bytes, kind: str) -> None:
        self._send_range(BytesIO(content), len(content), kind)

    def _send_range(self, source: IO[bytes], size: int, kind: str) -> None:
        """Send the requested bytes. A request for several ranges is answered with all bytes."""
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        span = _span(asked, size) if asked else range(size)
        if asked and not span:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self._end_headers({"Content-Range": f"bytes */{size}", "Content-Length": "0"})
            return
        self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(span)),
            "Accept-Ranges": "bytes",
        }
        if asked:
            headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
        self._end_headers(headers)
        if self.command == "GET":
            source.seek(span.start)
            _copy(source, self.wfile, len(span))

    def _end_headers(self, headers: Mapping[str, str]) -> None:
        for name, value in {**self._headers, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _span(asked: re.Match[str], size: int) -> range:
    """The bytes of a file that a range asks for; empty if the range is outside the file."""
    first, last = asked.groups()
    if not first:  # the last bytes
        return range(max(0, size - int(last or 0)), size)
    return range(int(first), min(int(last) + 1, size) if last else size)


def _copy(source: IO[bytes], target: BufferedIOBase, length: int) -> None:
    """Copy `length` bytes."""
    while length and (part := source.read(min(length, _PART_BYTES))):
        target.write(part)
        length -= len(part)
