"""How files are written: a file appears whole or not at all."""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from upath import UPath

from videomme_pipeline.errors import StorageError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.storage.network_disks import network_kind
from videomme_pipeline.storage.objects import (
    WHAT_TO_CHECK,
    is_local,
    put,
    put_new,
)

_SCRATCH_NAME = re.compile(r"\..+\.\d+")
_MAX_SCRATCH_FOLDERS = 1_000
"""The largest number of scratch folders of one machine beside the same path."""
_NEW_FILE = "new"
"""Name of a file in a scratch folder, until it is finished."""


def publish(path: UPath, data: bytes) -> None:
    """Write `data` to `path` so that no reader ever sees a part of it.

    On a local disk, a new file beside `path` is synced and renamed. An object store gets one
    put request.

    Raises:
        StorageError: if the target cannot be written (full, read-only).
    """
    if is_local(path):
        with replacing(Path(path.path)) as new:
            new.write_bytes(data)
        return
    with writing(path):
        put(path, data)


def publish_new(path: UPath, data: bytes) -> bool:
    """Publish `data` where there was no file. Return False if an object is there now.

    Errors are those of `publish`.
    """
    if is_local(path):
        publish(path, data)
        return True
    with writing(path):
        return put_new(path, data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that replaces `path`, synced to disk, after the block.

    After an error in the block, `path` is unchanged and the new file is removed. So is the new file
    of a process that was killed, when `path` is written again.

    Raises:
        StorageError: if the target cannot be written (full, read-only).
    """
    with writing(path):
        if path.is_symlink() and not _takes_bytes(path):
            path = Path(os.path.realpath(path))  # Path.resolve raises an error for a loop of links
        with scratch_folder(None if _takes_bytes(path) else path) as folder:
            new = folder / _NEW_FILE
            yield new
            put_in_place(new, path)


@contextmanager
def scratch_folder(path: Path | None) -> Iterator[Path]:
    """Yield an empty folder beside `path`, or in TMPDIR, and remove it after the block.

    A process that is killed leaves its folder, but not its lock on it. The next scratch folder of
    the same `path` then takes its place.
    """
    if path is None:
        with tempfile.TemporaryDirectory(prefix="videomme-") as name:
            yield Path(name)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    names = (f".{path.name}.{number}" for number in _own_numbers(path))
    folder, lock = next(found for name in names if (found := _lock_folder(path.with_name(name))))
    try:
        for left in folder.iterdir():
            left.unlink()
        yield folder
    finally:
        _remove_folder(folder, lock)


def remove_left_over(root: Path) -> None:
    """Remove the scratch folders under `root` of processes of this machine that were killed."""
    own = _own_numbers(root)
    for parent, folders, _ in os.walk(root):
        for name in filter(_SCRATCH_NAME.fullmatch, folders):
            if int(name.rpartition(".")[2]) not in own:
                continue
            if found := _lock_folder(Path(parent, name)):
                _remove_folder(*found)


def _own_numbers(path: Path) -> Sequence[int]:
    """The numbers of the scratch folders that this machine uses beside `path`.

    On a network file system a lock may be invisible to other machines, so each machine has its own
    numbers.
    """
    if network_kind(path) is None:
        return range(_MAX_SCRATCH_FOLDERS)
    host = int(fingerprint(ProcessIdentity.here().host), 16) % 10**9
    return range(host * _MAX_SCRATCH_FOLDERS, (host + 1) * _MAX_SCRATCH_FOLDERS)


def _lock_folder(folder: Path) -> tuple[Path, int] | None:
    """Create `folder` and lock it. Return it with its lock, or None if another writer uses it."""
    folder.mkdir(exist_ok=True)
    with suppress(FileNotFoundError, BlockingIOError), ExitStack() as unlocked:
        lock = os.open(folder, os.O_RDONLY)
        unlocked.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.stat()):  # its last user has not removed it
            unlocked.pop_all()
            return folder, lock
    return None


def _remove_folder(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _takes_bytes(path: Path) -> bool:
    """True if `path` is, or names, something other than a file: a device, a pipe, a terminal."""
    return path.exists() and not path.is_file() and not path.is_dir()


def put_in_place(new: Path, path: Path) -> None:
    """Sync a finished file to disk and rename it to `path`, or write it into a device or pipe."""
    if _takes_bytes(path):
        with new.open("rb") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
        return
    with new.open("rb") as file:
        os.fsync(file.fileno())
    new.replace(path)


@contextmanager
def writing(path: Path | UPath) -> Iterator[None]:
    """Turn an error of the file system in the block into a `StorageError` that names `path`."""
    try:
        yield
    except OSError as error:
        advice = "free some space or choose another data folder"
        raise StorageError(
            f"{path}: cannot write ({error.strerror or error}); "
            f"{advice if is_local(path) else WHAT_TO_CHECK}, then run again: everything that is "
            "already stored is kept"
        ) from error
