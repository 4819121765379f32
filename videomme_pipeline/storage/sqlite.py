"""SQLite files of a project: where they may be, how they are opened, and signs of damage."""

import os
import re
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import psutil

from videomme_pipeline.errors import StorageError
from videomme_pipeline.storage.objects import HOW_TO_SHARE
from videomme_pipeline.storage.publish import writing

_NETWORK_DISK = re.compile(
    r"afs|beegfs|ceph|cifs|glusterfs|gpfs|lustre|nfs4?|panfs|smb3|smbfs|wekafs"
    r"|fuse\.(ceph|gcsfuse|glusterfs|goofys|juicefs|mount-s3|rclone|s3fs|seaweedfs|sshfs)"
)
"""Types of network file systems, as the operating system names them."""
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a statement. SQLite's message about a damaged file may not be UTF-8."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB)
"""Errors about the content of the file. SQLITE_ERROR is a table or column with another name."""
_RETRY_SECONDS = 0.01


def is_damage(error: Exception) -> bool:
    """True if `error` shows that the content of the file is damaged."""
    # A text that is not UTF-8 is an error without a code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return isinstance(error, SQLITE_ERRORS) and code & 0xFF in _DAMAGE


def advice(path: Path) -> str:
    """Advice about an error of SQLite that does not mean damage."""
    may_write = os.access(path if path.exists() else path.parent, os.W_OK)
    return "free some space or check the disk" if may_write else HOW_TO_SHARE


def open_database(
    path: Path,
    prepare: Callable[[sqlite3.Connection], None],
    *,
    timeout_seconds: float,
    synchronous: str,
) -> sqlite3.Connection:
    """A connection to the SQLite file at `path`, which `prepare` creates if there is none.

    Errors of SQLite are raised as they are, after the connection is closed. Raises StorageError if
    the folder cannot be created, or is on a network file system.
    """
    refuse_network_disk(
        path,
        "set VIDEOMME_LOCAL_DISK to a folder on a local disk, and move the file there if it exists",
    )
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(path):  # SQLite reports a link to itself
            path.touch()  # with the umask. SQLite would let only this user write its files.
    connection = sqlite3.connect(
        path, timeout=timeout_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        use_write_ahead_log(connection, timeout_seconds)
        connection.execute(f"pragma synchronous = {synchronous}")
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def use_write_ahead_log(connection: sqlite3.Connection, timeout_seconds: float) -> None:
    """Let one process write the file while others read it.

    When two processes do this to a new file at the same time, SQLite fails for one of them at once,
    whatever the timeout of its connection. So the statement is repeated. Raises
    sqlite3.OperationalError if the file is still locked after `timeout_seconds`.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            is_locked = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_locked or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def network_kind(path: Path, mounts: Mapping[str, str] | None = None) -> str | None:
    """The type of the network file system that contains `path`, or None if it is on a local disk.

    `mounts` are the types of file systems by mount point, by default of this machine's.
    """
    mounts = _mounts() if mounts is None else mounts
    path = Path(os.path.realpath(path))  # Path.resolve raises an error for a loop of links
    holder = next(str(folder) for folder in (path, *path.parents) if str(folder) in mounts)
    return mounts[holder] if _NETWORK_DISK.fullmatch(mounts[holder]) else None


def refuse_network_disk(path: Path, remedy: str) -> None:
    """Raise StorageError, which ends with `remedy`, if `path` is on a network file system."""
    if kind := network_kind(path):
        raise StorageError(
            f"{path}: an SQLite file on a network file system ({kind}) can be damaged by two "
            f"machines; {remedy}"
        )


@cache
def _mounts() -> dict[str, str]:
    mounts = {disk.mountpoint: disk.fstype for disk in psutil.disk_partitions(all=True)}
    return {"/": "", **mounts}
