"""SQLite files of a project: how they are opened, and which errors mean damage."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from videomme_pipeline.storage.network_disks import ON_LOCAL_DISK, refuse_network_disk
from videomme_pipeline.storage.publish import writing

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a statement. SQLite's message about a damaged file may not be UTF-8."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB)
"""Errors about the content of the file. SQLITE_ERROR is a table or column with another name."""
_RETRY_SECONDS = 0.01


def is_damage(error: Exception) -> bool:
    """True if `error` means that the content of the file is wrong."""
    # A text that is not UTF-8 is an error without a code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return isinstance(error, SQLITE_ERRORS) and code & 0xFF in _DAMAGE


def open_database(
    path: Path,
    prepare: Callable[[sqlite3.Connection], None],
    *,
    timeout_seconds: float,
    synchronous: str,
) -> sqlite3.Connection:
    """A connection to the SQLite file at `path`, which `prepare` creates if there is none.

    Errors of SQLite are raised as they are, after the connection is closed.

    Raises:
        StorageError: if the folder cannot be created, or is on a network file system.
    """
    refuse_network_disk(path, ON_LOCAL_DISK)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
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

    When two processes do this to a new file at the same time, SQLite fails for one of them at
    once, whatever the timeout of its connection. So the statement is repeated.

    Raises:
        sqlite3.OperationalError: if the file is still locked after `timeout_seconds`.
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
