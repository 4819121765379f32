"""Writing of files: a file appears whole or not at all."""

import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from upath import UPath

from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.storage.objects import cannot, is_local, put

_SCRATCH_NAME = re.compile(r"\..*\.((?:[0-9a-f]{8}-){3}\d+-[\d.]+)-[0-9a-f]{8}\.new")
"""The name of a scratch folder, with the process that created it."""
_STEM_BYTES = 100
"""Number of bytes of a file's name in the name of its scratch folder."""
LEFT_BY_OTHERS_SECONDS = 30 * 86_400
"""A scratch folder of another machine that did not change for so long was left by a killed run."""
_NEW_FILE = "new"
"""Name of a file in a scratch folder, until it is finished."""


def publish(path: UPath, data: bytes, *, only_new: bool = False) -> None:
    """Write `data` to `path` so that no reader ever sees a part of it.

    On a local disk, a new file beside `path` is synced and renamed. An object store gets one put
    request. With `only_new`, a file that exists is kept. Raises StorageError if the target cannot
    be written (full, read-only).
    """
    if is_local(path):
        with replacing(Path(path.path), only_new=only_new) as new:
            new.write_bytes(data)
    else:
        with writing(path):
            put(path, data, only_new=only_new)


@contextmanager
def replacing(path: Path, *, only_new: bool = False) -> Iterator[Path]:
    """Yield the path of a new file that replaces `path`, synced to disk, after the block.

    After an error in the block, `path` is unchanged and the new file is removed. The next process
    that writes to the folder removes that of a killed process. Errors are those of `publish`.
    """
    with writing(path):
        if path.is_symlink() and not _takes_bytes(path):
            path = Path(os.path.realpath(path))  # Path.resolve raises an error for a loop of links
        with scratch_folder(None if _takes_bytes(path) else path) as folder:
            new = folder / _NEW_FILE
            yield new
            put_in_place(new, path, only_new=only_new)


@contextmanager
def scratch_folder(path: Path | None) -> Iterator[Path]:
    """Yield a new empty folder beside `path`, or in TMPDIR, and remove it after the block.

    A killed process leaves its folder, which the next process that writes beside it removes.
    """
    if path is None:
        with tempfile.TemporaryDirectory(prefix="videomme-") as name:
            yield Path(name)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep_once(os.getpid(), path.parent.absolute())
    stem = path.name.encode()[:_STEM_BYTES].decode(errors="ignore")
    folder = path.with_name(f".{stem}.{_owner(os.getpid())}-{secrets.token_hex(4)}.new")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _owner(pid: int) -> str:  # noqa: ARG001 - a forked process is another one
    return ProcessIdentity.here().as_name()


def remove_left_over(root: Path) -> None:
    """Remove the scratch folders under `root` that killed processes have left."""
    for parent, _, _ in os.walk(root):
        _sweep(Path(parent))


@cache
def _sweep_once(pid: int, parent: Path) -> None:  # noqa: ARG001 - a forked process sweeps again
    _sweep(parent)


def _sweep(parent: Path) -> None:
    """Remove the scratch folders in `parent` that killed processes have left.

    Those of other machines, whose processes cannot be seen, are removed after a month.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            name = _SCRATCH_NAME.fullmatch(entry.name)
            if name is None or not entry.is_dir(follow_symlinks=False):
                continue
            is_old = entry.stat().st_mtime < time.time() - LEFT_BY_OTHERS_SECONDS
            if is_old or ProcessIdentity.from_name(name[1]).is_dead:
                shutil.rmtree(entry.path, ignore_errors=True)


def _takes_bytes(path: Path) -> bool:
    """True if `path` is, or names, something other than a file: a device, a pipe, a terminal."""
    return path.exists() and not path.is_file() and not path.is_dir()


def put_in_place(new: Path, path: Path, *, only_new: bool = False) -> None:
    """Sync a finished file to disk and rename it to `path`, or write it into a device or pipe.

    With `only_new`, a file that exists is kept. Of several writers at most one succeeds, except on
    a file system without hard links.
    """
    if _takes_bytes(path):
        with new.open("rb") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
        return
    with new.open("rb") as file:
        os.fsync(file.fileno())
    if only_new:
        with suppress(OSError):
            path.hardlink_to(new)
        if path.exists():
            return
    new.replace(path)


def place_copy(source: Path, target: Path) -> None:
    """Place the bytes of `source` at `target`, as a hard link if the file system allows it."""
    with replacing(target) as new:
        try:
            os.link(source, new)
        except OSError:  # on another disk
            shutil.copyfile(source, new)


@contextmanager
def writing(path: Path | UPath) -> Iterator[None]:
    """Turn an error of the file system in the block into a `StorageError` that names `path`."""
    try:
        yield
    except OSError as error:
        raise cannot(
            "write", path, error, "free some space or choose another data folder"
        ) from error
