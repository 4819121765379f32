"""Verified files of a dataset repository on the Hugging Face Hub at one commit.

`HF_ENDPOINT`, `HF_TOKEN` and `HF_HUB_OFFLINE` work as in `huggingface_hub`, which sends the
requests. Its `hf_hub_download` restarts a file after a kill, and compares no checksums.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import httpx2
from fsspec.spec import AbstractBufferedFile
from huggingface_hub import HfApi, RepoFile, errors, get_token, hf_hub_url
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_backoff, silent_tqdm  # type: ignore[attr-defined]  # public, but imported lazily
from huggingface_hub.utils.sha import git_hash

from videomme_pipeline.errors import DownloadError, StorageError, VideoMMEError, one_line
from videomme_pipeline.fetch.archives import sha256
from videomme_pipeline.processes.secrets import Redaction

_PARTIAL_CONTENT = 206
_BLOCK_BYTES = 64 << 10
_MAX_PROBLEM_CHARACTERS = 200
_UNWRITABLE = {"ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EEXIST", "ENOTDIR"}


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A dataset repository at one commit. `endpoint` None is the default of `huggingface_hub`."""

    repository: str
    revision: str
    endpoint: str | None = None

    def __str__(self) -> str:
        return f"{self.repository} at {self.revision[:12]}"

    def files(self, paths: Iterable[str]) -> dict[str, RepoFile]:
        """Size and checksum of the files that exist, in one request. Raises DownloadError."""
        with explained(str(self)):
            reported = HfApi(endpoint=self.endpoint).get_paths_info(
                self.repository, list(paths), revision=self.revision, repo_type="dataset"
            )
        return {file.path: file for file in reported if isinstance(file, RepoFile)}

    def download(self, file: RepoFile, target: Path) -> None:
        """Download `file` to `target`, resuming an earlier attempt, and verify its checksum.

        Raises DownloadError if it cannot be fetched, or has another checksum than the hub reports,
        and StorageError if `target` cannot be written.
        """
        partial = target.with_name(f".{target.name}.partial")
        with explained(f"{file.path} of {self}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "ab", opener=_open_no_link) as opened:
                if opened.tell() > file.size:
                    opened.truncate(0)
                    opened.seek(0)
                self._append_rest(file, opened)
            kind, reported = ("sha256", file.lfs.sha256) if file.lfs else ("Git sha1", file.blob_id)
            digest = sha256(partial) if file.lfs else git_hash(partial.read_bytes())
            if digest != reported:
                partial.unlink()
                raise DownloadError(
                    f"{file.path} of {self}: the downloaded file has {kind} {digest}, the hub "
                    f"reports {reported}. The file was deleted; run again, and if that does not "
                    "help, look for a proxy or mirror that changes files (HF_ENDPOINT)."
                )
            partial.replace(target)

    def open(self, file: RepoFile) -> "HubStream":
        """`file` as a seekable binary file that reads by HTTP ranges."""
        return HubStream(self._url(file.path), file.size)

    def _append_rest(self, file: RepoFile, opened: BinaryIO) -> None:
        """Append the missing bytes of `file`, and retry as long as an attempt gets any."""
        while (size := opened.tell()) < file.size:
            try:
                http_get(
                    self._url(file.path),
                    opened,
                    resume_size=size,
                    headers=_headers(),
                    expected_size=file.size,
                    tqdm_class=silent_tqdm,
                )
            except httpx2.ReadError:
                # http_get resumes after other interruptions, but not after a reset.
                if opened.tell() == size:
                    raise

    def _url(self, path: str) -> str:
        return hf_hub_url(
            self.repository,
            path,
            repo_type="dataset",
            revision=self.revision,
            endpoint=self.endpoint,
        )


_REASONS: dict[type[Exception], str] = {
    errors.OfflineModeIsEnabled: "HF_HUB_OFFLINE is set and the file is not on disk yet; unset "
    "it, or use `source: folder` with your own copy",
    errors.GatedRepoError: "the repository is gated; ask for access on its page on the hub, then "
    "set HF_TOKEN to a token of that account",
    errors.RevisionNotFoundError: "the hub has no such revision; remove `revision` to use the "
    "pinned one",
    errors.RepositoryNotFoundError: "the repository does not exist, or your token cannot access "
    "it; check HF_ENDPOINT and HF_TOKEN",
}
"""Specific errors come before general ones."""


@contextmanager
def explained(item: str) -> Iterator[None]:
    """Raise errors of hub and network as DownloadError, and those of the disk as StorageError."""
    try:
        yield
    except VideoMMEError:
        raise
    except tuple(_REASONS) as error:
        reason = next(reason for kind, reason in _REASONS.items() if isinstance(error, kind))
        raise DownloadError(f"{item}: {reason}") from error
    except errors.HfHubHTTPError as error:
        raise DownloadError(
            f"{item}: the hub answered {error.response.status_code} "
            f"({_redacted(error.server_message or error.response.reason_phrase)}); "
            f"{_advice(error.response.status_code)}"
        ) from error
    except httpx2.HTTPError as error:
        problem = _redacted(f"{type(error).__name__}: {error}")
        raise DownloadError(
            f"{item}: the connection failed ({problem}); check the network and HF_ENDPOINT, then "
            "run again: complete files are kept, and a download resumes where it stopped"
        ) from error
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) in _UNWRITABLE:
            raise StorageError(
                f"{item}: cannot be written ({error}); free some space or choose another data "
                "folder, then run again: complete files are kept"
            ) from error
        raise DownloadError(f"{item}: {error}; run again") from error
    except (ValueError, LookupError, TypeError) as error:
        problem = one_line(_redacted(f"{type(error).__name__}: {error}"))[:_MAX_PROBLEM_CHARACTERS]
        raise DownloadError(
            f"{item}: the answer of the hub is not as its documentation says ({problem}); check "
            "HF_ENDPOINT, and whether the request was carried out"
        ) from error


def _open_no_link(path: str, flags: int) -> int:
    """Open a partial file, but not a file elsewhere that a link of this name leads to."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _redacted(text: str) -> str:
    return Redaction(get_token()).redact(text)


def _headers() -> dict[str, str]:
    """The headers, with the token if one is set. No compression, which would disable ranges."""
    return {**build_hf_headers(), "Accept-Encoding": "identity"}


def _advice(status: int) -> str:
    if status in (401, 403):
        return "set HF_TOKEN to a token that may access it"
    if status == 404:
        return "the file is not in this revision; remove `revision` to use the pinned one"
    return "run again later: complete files are kept"


class HubStream(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file on the hub that is read by HTTP ranges of at least a block, which is kept.

    `HfFileSystem` does not notice when a server ignores the range and sends the whole file.
    """

    def __init__(self, url: str, size_bytes: int) -> None:
        super().__init__(None, url, cache_type="none", size=size_bytes)
        self._block, self._block_start = b"", 0

    def _fetch_range(self, start: int, end: int) -> bytes:
        if start < self._block_start or end > self._block_start + len(self._block):
            # zipfile reads the end of an archive first, then the directory just before it.
            self._block_start = min(start, max(self.size - _BLOCK_BYTES, 0))
            block_end = min(max(end, self._block_start + _BLOCK_BYTES), self.size)
            self._block = self._request(self._block_start, block_end)
        return self._block[start - self._block_start : end - self._block_start]

    def _request(self, start: int, end: int) -> bytes:
        headers = _headers() | {"Range": f"bytes={start}-{end - 1}"}
        response = http_backoff("GET", self.path, headers=headers)
        hf_raise_for_status(response)
        content: bytes = response.content
        if response.status_code != _PARTIAL_CONTENT or len(content) != end - start:
            raise DownloadError(
                f"{self.path}: asked for bytes {start:,} to {end:,}, got {len(content):,} bytes "
                f"with status {response.status_code}; the server of HF_ENDPOINT must support "
                "HTTP ranges"
            )
        return content
