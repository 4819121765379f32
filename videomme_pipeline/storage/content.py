"""The bytes of stored files: on a disk, in an object store, or in a local copy of an object."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from upath import UPath

from videomme_pipeline.errors import DamagedFileError
from videomme_pipeline.storage.copies import local_copies
from videomme_pipeline.storage.objects import (
    WHAT_TO_CHECK,
    FileState,
    cannot,
    get,
    is_local,
    reaching,
)

_STALE_PAUSES_SECONDS = (0.1, 0.4, 1.6)
"""Pauses before a file is read again that is being replaced on a network file system."""
_NO_FILE = (errno.EISDIR, errno.ELOOP)


def read(path: UPath | Path) -> bytes:
    """All bytes of the file at `path`.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        DamagedFileError: if there is a folder or a loop of links.
        StorageError: if the file cannot be read for another reason.
    """
    return _explained(path, lambda: path.read_bytes() if is_local(path) else get(path))


def read_end(path: UPath | Path, count: int) -> bytes:
    """The last `count` bytes of a file, or all if the file is smaller. Errors are those of `read`.

    The bytes are those of one version of the file, even if the file is replaced meanwhile.
    """
    return _explained(path, lambda: _last_bytes(path, count))


def read_copy(path: UPath | Path, state: FileState | None = None) -> bytes:
    """All bytes of a file, from a local copy if the file is in an object store.

    The copy is fetched if there is none of the object's `state` (by default the current state of
    the object). Errors are those of `read`.
    """
    if is_local(path):
        return read(path)
    remote = path
    return _explained(remote, lambda: _copied(remote, state))


def remove_copies(path: UPath | Path) -> bool:
    """Remove the local copies of an object. Return False if there were none."""
    return not is_local(path) and local_copies().remove(path)


def _last_bytes(path: UPath | Path, count: int) -> bytes:
    if not is_local(path):
        return get(path, last_bytes=count)
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()


def _copied(path: UPath, state: FileState | None) -> bytes:
    with reaching(path), local_copies().hold(path, state) as copy:
        return copy.read_bytes()


def _explained(path: UPath | Path, read_once: Callable[[], bytes]) -> bytes:
    """The result of `read_once`, whose errors are turned into errors that name `path`."""
    try:
        return _retrying_stale_handles(read_once)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _NO_FILE:
            raise DamagedFileError(f"{path}: the file is damaged ({error.strerror})") from error
        advice = "check the file and its permissions" if is_local(path) else WHAT_TO_CHECK
        raise cannot("read", path, error, advice) from error


def _retrying_stale_handles(read_once: Callable[[], bytes]) -> bytes:
    for pause_seconds in _STALE_PAUSES_SECONDS:
        try:
            return read_once()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            time.sleep(pause_seconds)
    return read_once()
