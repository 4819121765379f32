"""A Hugging Face Hub on the loopback interface: the HTTP API of repositories, and its failures.

For a dataset at a commit it lists files with their SHA-256 (`paths-info`) and serves their bytes
(`resolve`), whole or by range. As on the real hub, `resolve` redirects to another host. A commit to
a model repository becomes a pull request (`proposed`). Set `HF_ENDPOINT` to `url`. Tests add the
files and switch on the faults that they need.
"""

import hashlib
import json
import re
import socket
import struct
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs, unquote, urlsplit

_PATHS_INFO = re.compile(r"/api/datasets/([^/]+/[^/]+)/paths-info/([^/]+)")
_RESOLVE = re.compile(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_COMMIT = re.compile(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main")
_CONTENT = re.compile(r"/content/([^/]+/[^/]+)/([^/]+)/(.+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True, slots=True)
class HubRequest:
    """One received request: path, range and credentials."""

    method: str
    path: str
    range: str | None
    authorization: str | None

    @property
    def length(self) -> int:
        """Number of bytes in the requested range."""
        start, _, end = (self.range or "").removeprefix("bytes=").partition("-")
        return int(end) - int(start) + 1


@dataclass
class HubServer:
    """The hub's files, by (repository, revision) and path, and its faults."""

    url: str = ""
    files: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    requests: list[HubRequest] = field(default_factory=list)
    proposed: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    """The repository and the files of each pull request."""
    commit_answer: bytes | None = None
    """If set, the answer to a commit in place of the documented one."""

    outside_lfs: set[str] = field(default_factory=set)
    """Paths of small files that Git itself stores, so that no SHA-256 is listed."""
    token: str | None = None
    """If set, requests without it are refused, as for a private repository."""
    gated: bool = False
    """Refuse the files (not their listing), as for a gated repository."""
    ignores_ranges: bool = False
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    """By path, the number of body bytes to send before closing, one entry per request."""
    resets: bool = False
    """Reset connections that are cut, instead of closing them."""
    stall_after: dict[str, int] = field(default_factory=dict)
    """By path, the number of body bytes to send before waiting for `go_on`, once."""
    stalled: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)
    altered: dict[str, bytes] = field(default_factory=dict)
    """By path, bytes to serve instead of those whose SHA-256 is listed."""
    broken: dict[str, int] = field(default_factory=dict)
    """By path, a status to answer with instead of the file. The message repeats the token."""

    def add(self, repository: str, revision: str, path: str, data: bytes) -> None:
        self.files.setdefault((repository, revision), {})[path] = data

    def content_requests(self, path: str) -> list[HubRequest]:
        """Requests for the bytes of `path`, in order."""
        return [
            request
            for request in self.requests
            if request.path.startswith("/content/") and request.path.endswith("/" + path)
        ]


@contextmanager
def running_hub() -> Iterator[HubServer]:
    """Run a hub until the block ends."""
    hub = HubServer()

    class Handler(_Handler):
        state = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _lfs(data: bytes) -> dict[str, object]:
    return {
        "oid": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "pointerSize": 134,
    }


class _Handler(BaseHTTPRequestHandler):
    state: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing: requests are stored in `requests`."""

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.state.requests.append(
            HubRequest(
                self.command, path, self.headers.get("Range"), self.headers.get("Authorization")
            )
        )
        if match := _CONTENT.fullmatch(path):
            self._send_content(*match.groups())
        elif self.state.token and self.headers.get("Authorization") != f"Bearer {self.state.token}":
            self._refuse(401, "RepoNotFound", "Repository not found")
        elif match := _PATHS_INFO.fullmatch(path):
            self._send_paths_info(match[1], match[2], body)
        elif match := _RESOLVE.fullmatch(path):
            self._redirect_to_content(*match.groups())
        elif match := _COMMIT.fullmatch(path):
            self._accept_commit(match[1], match[2], body)
        else:
            self._refuse(404, "RepoNotFound", "Repository not found")

    def _accept_commit(self, repository: str, step: str, body: bytes) -> None:
        if step == "preupload":
            modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self._send_json({"files": modes})
            return
        assert parse_qs(urlsplit(self.path).query)["create_pr"] == ["1"]
        files = [
            line["value"] for line in map(json.loads, body.splitlines()) if line["key"] == "file"
        ]
        self.state.proposed.append(
            (repository, {file["path"]: b64decode(file["content"]) for file in files})
        )
        if self.state.commit_answer is not None:
            self._send(200, self.state.commit_answer, {"Content-Type": "application/json"})
            return
        page, oid = f"{self.state.url}/{repository}", "0" * 40
        self._send_json(
            {
                "commitUrl": f"{page}/commit/{oid}",
                "commitOid": oid,
                "pullRequestUrl": f"{page}/discussions/{len(self.state.proposed)}",
            }
        )

    def _files(self, repository: str, revision: str) -> dict[str, bytes] | None:
        """Files of a revision, or None after refusing the request."""
        if not any(name == repository for name, _ in self.state.files):
            self._refuse(404, "RepoNotFound", "Repository not found")
        elif (repository, revision) not in self.state.files:
            self._refuse(404, "RevisionNotFound", "Invalid rev id")
        else:
            return self.state.files[repository, revision]
        return None

    def _send_paths_info(self, repository: str, revision: str, body: bytes) -> None:
        files = self._files(repository, revision)
        if files is None:
            return
        stated = [
            {
                "type": "file",
                "path": path,
                "size": len(files[path]),
                "oid": _git_id(files[path]),
            }
            | ({} if path in self.state.outside_lfs else {"lfs": _lfs(files[path])})
            for path in parse_qs(body.decode())["paths"]
            if path in files
        ]
        self._send_json(stated)

    def _redirect_to_content(self, repository: str, revision: str, path: str) -> None:
        files = self._files(repository, revision)
        if files is None:
            return
        if self.state.gated:
            self._refuse(403, "GatedRepo", "Access to this dataset is restricted")
        elif path in self.state.broken:
            message = f"The hub has a bad day with {self.headers['Authorization']}"
            self._refuse(self.state.broken[path], "", message)
        elif path not in files:
            self._refuse(404, "EntryNotFound", "Entry not found")
        else:
            # Another host name, so that tests notice a client that forwards its token.
            host = f"http://localhost:{urlsplit(self.state.url).port}"
            self._send(
                302,
                b"",
                {
                    "Location": f"{host}/content/{repository}/{revision}/{path}",
                    "X-Repo-Commit": revision,
                    "X-Linked-Size": str(len(files[path])),
                    "X-Linked-Etag": f'"{hashlib.sha256(files[path]).hexdigest()}"',
                },
            )

    def _send_content(self, repository: str, revision: str, path: str) -> None:
        data = self.state.altered.get(path, self.state.files[repository, revision][path])
        match = _RANGE.fullmatch(self.headers.get("Range") or "")
        if match is None or self.state.ignores_ranges:
            self._send(200, data, {}, path)
            return
        start = int(match.group(1))
        stop = min(int(match.group(2) or len(data)) + 1, len(data))
        self._send(
            206, data[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}, path
        )

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._send(status, b"{}", headers)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str], path: str = "") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        cuts = self.state.cut_after.get(path, [])
        if cuts:
            self.wfile.write(body[: cuts.pop(0)])
            self.close_connection = True
            if self.state.resets:
                time.sleep(0.2)  # a reset drops bytes that have not arrived yet
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.connection.close()
        elif path in self.state.stall_after:
            self.wfile.write(body[: self.state.stall_after.pop(path)])
            self.state.stalled.set()
            self.state.go_on.wait(timeout=60)
            self.close_connection = True
        else:
            self.wfile.write(body)
