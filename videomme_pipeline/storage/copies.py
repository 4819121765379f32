"""Local copies of objects: for content that is read again, and for decoders that need a path.

The name of a copy contains the size and version of its object, so a changed object gets another
copy. A copy appears whole or not at all. The copies of all processes of a machine have a common
size limit, and those that were not used for the longest time are removed first. A lock protects a
copy that is in use, or not complete yet. The lock ends with its process, so another process can
remove the copies that a killed process left.
"""

import errno
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from upath import UPath

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.storage import objects

with suppress(ImportError):  # only Unix has it, and reading results does not need it
    import fcntl

FOLDER_VARIABLE = "VIDEOMME_CACHE"
LIMIT_VARIABLE = "VIDEOMME_CACHE_GIGABYTES"
_DEFAULT_GIGABYTES = 20.0
_NEW = ".videomme-"
"""Prefix of a copy that is not complete yet."""
_NAME = re.compile(r"[0-9a-f]{24}-[0-9a-f]{24}-.+|\.videomme-.+", re.DOTALL)
"""The names that this module uses. Other files in the folder are never removed."""


class LocalCopies:
    """Copies of objects in `folder`, of about `limit_bytes` together unless more are in use."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder, self._limit_bytes = folder, limit_bytes
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, path: UPath, listed: objects.FileState | None = None) -> Iterator[Path]:
        """Yield a copy of an object, which is kept during the block.

        The copy has the state `listed`, or else the current state of the object. Raises
        FileNotFoundError if there is no such object, and OSError if the store cannot be reached,
        the disk is full, or the state is not `listed`.
        """
        state = listed or objects.object_state(path)
        while (lock := _lock_shared(copy := self._copy_of(path, state), state.bytes)) is None:
            state = self._fetch(path, state)
            if listed and state != listed:
                raise OSError(errno.ESTALE, "it changed after it was listed", str(path))
        try:
            os.utime(copy)
            yield copy
        finally:
            os.close(lock)

    def remove(self, path: UPath) -> None:
        """Remove the copies of an object."""
        for copy in self._folder.glob(f"{_prefix(path)}*"):
            copy.unlink(missing_ok=True)

    def _copy_of(self, path: UPath, state: objects.FileState) -> Path:
        return self._folder / f"{_prefix(path)}{fingerprint(state)}-{path.name}"

    def _fetch(self, path: UPath, state: objects.FileState) -> objects.FileState:
        """Fetch an object, and return its state. The copy is kept only if that state is `state`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._make_room(state.bytes)
        with NamedTemporaryFile(dir=self._folder, prefix=_NEW, delete=False) as locked:
            new = Path(locked.name)
            fcntl.flock(locked, fcntl.LOCK_EX)
            try:
                with objects.reaching(path):
                    path.fs.get_file(path.path, str(new))
                current = objects.object_state(path)
                if current == state and new.stat().st_size == state.bytes:
                    new.replace(self._copy_of(path, state))
                return current
            finally:
                new.unlink(missing_ok=True)

    def _make_room(self, needed_bytes: int) -> None:
        """Remove unused copies, the oldest use first, until there is room for more bytes."""
        with os.scandir(self._folder) as entries:
            states = [(e.stat(), e.path) for e in entries if _NAME.fullmatch(e.name)]
        copies = sorted((state.st_mtime_ns, state.st_size, path) for state, path in states)
        room = self._limit_bytes - sum(size for _, size, _ in copies)
        for _, size, copy in copies:
            if room >= needed_bytes:
                break
            if _remove_unused(Path(copy)):
                room += size


def local_copies() -> LocalCopies:
    """The local copies of this machine, in VIDEOMME_CACHE (by default `~/.cache/videomme/copies`).

    Raises ConfigurationError if VIDEOMME_CACHE_GIGABYTES is not a number of at least 0.
    """
    folder = os.environ.get(FOLDER_VARIABLE) or Path.home() / ".cache" / "videomme" / "copies"
    limit = os.environ.get(LIMIT_VARIABLE) or str(_DEFAULT_GIGABYTES)
    try:
        limit_bytes = int(float(limit) * 1e9)
    except (ValueError, OverflowError):
        limit_bytes = -1
    if limit_bytes < 0:
        raise ConfigurationError(
            f"{LIMIT_VARIABLE} is {limit!r}, which is not a size; set it to a number of gigabytes "
            f"(default: {_DEFAULT_GIGABYTES:g})"
        )
    return _local_copies(Path(folder).expanduser().absolute(), limit_bytes)


_local_copies = cache(LocalCopies)


@contextmanager
def on_local_disk(file: Path | UPath | objects.RemoteFile) -> Iterator[Path]:
    """Yield a local file as it is, or a copy of a remote one, which is kept during the block.

    Raises OSError if the copy cannot be fetched, or the object changed after it was listed.
    """
    if not isinstance(file, objects.RemoteFile) and objects.is_local(file):
        yield file
        return
    path, state = (file.path, file.state) if isinstance(file, objects.RemoteFile) else (file, None)
    with local_copies().hold(path, state) as copy:
        yield copy


def _prefix(path: UPath) -> str:
    return f"{fingerprint(str(path))}-"


def _lock_shared(copy: Path, size: int) -> int | None:
    """An open descriptor of `copy` with a shared lock, or None if there is no whole copy."""
    try:
        lock = os.open(copy, os.O_RDONLY)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        status = copy.stat()
    except FileNotFoundError:  # removed before it was locked
        status = None
    if status and os.path.samestat(os.fstat(lock), status) and status.st_size == size:
        return lock
    os.close(lock)
    return None


def _remove_unused(copy: Path) -> bool:
    """Remove a copy. Return False if a process uses it, or another one has removed it."""
    try:
        with copy.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            copy.unlink()
    except (FileNotFoundError, BlockingIOError):
        return False
    return True
