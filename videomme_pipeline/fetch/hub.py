"""One dataset repository on the Hugging Face Hub at one commit, and files of it that are verified.

`HF_ENDPOINT`, `HF_TOKEN` and `HF_HUB_OFFLINE` mean what they mean to `huggingface_hub`, whose
requests these are. Its own `hf_hub_download` is not used: since version 2 it starts a file anew
when the process was killed, and it compares sizes but not checksums. Which files are wanted is
not decided here.
"""

import errno
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import httpx2
from huggingface_hub import HfApi, RepoFile, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, but imported lazily
    build_hf_headers,
    hf_raise_for_status,
    http_backoff,
    tqdm,
)

from videomme_pipeline.errors import DownloadError, StorageError, VideoMMEError

_PARTIAL_CONTENT = 206
_BLOCK_BYTES = 64 << 10
_UNWRITABLE = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EEXIST", "ENOTDIR")
    if hasattr(errno, name)  # Windows has no EDQUOT
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file as the hub states it; the statement is what the bytes are compared with."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A dataset repository at one commit; `endpoint` None is that of `huggingface_hub`."""

    repository: str
    revision: str
    endpoint: str | None = None

    def __str__(self) -> str:
        return f"{self.repository} at {self.revision[:12]}"

    def files(self, paths: Iterable[str]) -> dict[str, HubFile]:
        """Size and sha256 of files, by path, in one request; a path that is not there is left out.

        Raises:
            DownloadError: when the repository cannot be read.
        """
        with explained(str(self)):
            stated = HfApi(endpoint=self.endpoint).get_paths_info(
                self.repository, list(paths), revision=self.revision, repo_type="dataset"
            )
        return {
            file.path: HubFile(path=file.path, size_bytes=file.size, sha256=file.lfs.sha256)
            for file in stated
            if isinstance(file, RepoFile) and file.lfs is not None
        }

    def download(
        self, file: HubFile, target: Path, on_bytes: Callable[[int], None] = lambda _: None
    ) -> Path:
        """Put `file` at `target` once its sha256 is right; go on where an earlier try stopped.

        Raises:
            DownloadError: when it cannot be fetched, or what came is not what the hub states.
            StorageError: when `target` cannot be written.
        """
        partial = target.with_name(f".{target.name}.partial")
        with explained(f"{file.path} of {self}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("ab") as opened:
                if opened.tell() > file.size_bytes:
                    opened.truncate(0)
                    opened.seek(0)
                on_bytes(opened.tell())
                self._append_rest(file, opened, on_bytes)
            with partial.open("rb") as written:
                sha256 = hashlib.file_digest(written, "sha256").hexdigest()
            if sha256 != file.sha256:
                partial.unlink()
                raise DownloadError(
                    f"{file.path} of {self}: what came has sha256 {sha256}, the hub states "
                    f"{file.sha256}. It was deleted; run again, and if it stays so, look for a "
                    "proxy or mirror that changes files (HF_ENDPOINT)."
                )
            partial.replace(target)
        return target

    def open(self, file: HubFile) -> "RemoteFile":
        """`file` as a seekable binary file that reads by HTTP ranges."""
        return RemoteFile(self._url(file.path), file.size_bytes)

    def _append_rest(
        self, file: HubFile, opened: BinaryIO, on_bytes: Callable[[int], None]
    ) -> None:
        """Fetch what `opened` lacks of `file`, for as long as anything comes."""
        while True:
            held = opened.tell()
            try:
                http_get(
                    self._url(file.path),
                    opened,
                    resume_size=held,
                    headers=_headers(),
                    expected_size=file.size_bytes,
                    tqdm_class=_reporting_to(on_bytes),
                )
            except httpx2.ReadError:
                # http_get goes on by itself after other breaks, but not after a reset.
                if opened.tell() == held:
                    raise
            else:
                return

    def _url(self, path: str) -> str:
        return hf_hub_url(
            self.repository,
            path,
            repo_type="dataset",
            revision=self.revision,
            endpoint=self.endpoint,
        )


@contextmanager
def explained(item: str) -> Iterator[None]:
    """Turn what `huggingface_hub`, the network and the disk raise into errors that say what to do.

    Raises:
        DownloadError: naming `item`, what happened and the next step.
        StorageError: when the disk is full or read-only.
    """
    try:
        yield
    except VideoMMEError:
        raise
    except OfflineModeIsEnabled as error:
        raise DownloadError(
            f"{item}: HF_HUB_OFFLINE is set and it is not on disk yet; unset it, or use "
            "`source: folder` with a copy that you have"
        ) from error
    except GatedRepoError as error:
        raise DownloadError(
            f"{item}: the repository is gated; ask for access on its page on the hub, then set "
            "HF_TOKEN to a token of that account"
        ) from error
    except RevisionNotFoundError as error:
        raise DownloadError(
            f"{item}: the hub has no such revision; remove `revision` to use the pinned one"
        ) from error
    except RepositoryNotFoundError as error:
        raise DownloadError(
            f"{item}: the hub knows no such repository, or not for you; check HF_ENDPOINT and "
            "HF_TOKEN"
        ) from error
    except HfHubHTTPError as error:
        raise DownloadError(
            f"{item}: the hub answered {error.response.status_code} "
            f"({error.server_message or error.response.reason_phrase}); "
            f"{_advice(error.response.status_code)}"
        ) from error
    except httpx2.HTTPError as error:
        raise DownloadError(
            f"{item}: the connection failed ({type(error).__name__}: {error}); check the network "
            "and HF_ENDPOINT, then run again: what is complete is kept, and a download goes on "
            "where it stopped"
        ) from error
    except OSError as error:
        if error.errno in _UNWRITABLE:
            raise StorageError(
                f"{item}: cannot be written ({error}); free some space or choose another data "
                "folder, then run again: what is complete is kept"
            ) from error
        raise DownloadError(f"{item}: {error}; run again") from error


def _headers() -> dict[str, str]:
    """The token, where there is one; a content network that compresses would ignore ranges."""
    return {**build_hf_headers(), "Accept-Encoding": "identity"}


def _advice(status: int) -> str:
    if status in (401, 403):
        return "set HF_TOKEN to a token that may read it"
    if status == 404:
        return "the file is not in this revision; remove `revision` to use the pinned one"
    return "run again later: what is complete is kept"


class RemoteFile(io.RawIOBase):
    """A file on the hub, read by HTTP ranges: each as long as asked for, but no shorter than a
    block, which is kept, so that small reads beside one another are one request.

    `HfFileSystem` reads by ranges too, but takes a whole file that comes instead of a range for
    the range, and lists the repository first.
    """

    def __init__(self, url: str, size_bytes: int) -> None:
        super().__init__()
        self._url, self._size, self._place = url, size_bytes, 0
        self._block, self._block_start = b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, origin + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        start, stop = self._place, min(self._place + len(buffer), self._size)
        if start >= stop:
            return 0
        if start < self._block_start or stop > self._block_start + len(self._block):
            # Whoever reads the end of an archive goes on to read its directory just before.
            self._block_start = min(start, max(self._size - _BLOCK_BYTES, 0))
            block_stop = min(max(stop, self._block_start + _BLOCK_BYTES), self._size)
            self._block = self._fetch(self._block_start, block_stop)
        offset = start - self._block_start
        buffer[: stop - start] = self._block[offset : offset + stop - start]
        self._place = stop
        return stop - start

    def _fetch(self, start: int, stop: int) -> bytes:
        headers = _headers() | {"Range": f"bytes={start}-{stop - 1}"}
        response = http_backoff("GET", self._url, headers=headers)
        hf_raise_for_status(response)
        content: bytes = response.content
        if response.status_code != _PARTIAL_CONTENT or len(content) != stop - start:
            raise DownloadError(
                f"{self._url}: asked for bytes {start:,} to {stop:,}, got {len(content):,} bytes "
                f"with status {response.status_code}; the server behind HF_ENDPOINT must serve "
                "HTTP ranges"
            )
        return content


def _reporting_to(on_bytes: Callable[[int], None]) -> type[tqdm]:
    """The hub's progress bar, without the bar: it passes on how many bytes came."""

    class Reporter(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> None:
            on_bytes(int(n or 0))

    return Reporter
