"""The cache of content hashes: one SQLite file, which is replaced if it is damaged."""

import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from videomme_pipeline.benchmarks.locate import MediaFile
from videomme_pipeline.errors import StorageError
from videomme_pipeline.fingerprint import text_fingerprint
from videomme_pipeline.storage.objects import FileState, RemoteFile
from videomme_pipeline.storage.sqlite import SQLITE_ERRORS, advice, is_damage, open_database
from videomme_pipeline.storage.tables import set_aside

_log = logging.getLogger(__name__)


class HashCache(AbstractContextManager["HashCache"]):
    """Content hashes in one SQLite file, by the path and state of a file or an object.

    A change that preserves the state is detected only after `clear`. A damaged cache is replaced by
    an empty one, and a damaged hash counts as missing. Every method can raise StorageError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._known: dict[str, tuple[int, str, str, str]] | None = None
        """Size, version, hash and checksum by path, as they were read last."""

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def clear(self) -> None:
        """Delete all hashes, so that every file is hashed again."""
        self._execute("delete from hashes")
        self._known = {}

    def load(self) -> dict[str, tuple[int, str, str, str]]:
        """Read all hashes again, because other processes may have added some."""
        rows = self._execute("select path, bytes, version, hash, checksum from hashes")
        self._known = {row[0]: row[1:] for row in rows}
        return self._known

    def knows(self, path: MediaFile) -> bool:
        """True if the file was hashed before, in any state."""
        return _key(path) in self._loaded()

    def get(self, path: MediaFile, state: FileState) -> str | None:
        row = _key(path), state.bytes, state.version
        stored = self._loaded().get(row[0])
        if stored is None or stored[:2] != row[1:] or stored[3] != _checksum(*row, stored[2]):
            return None
        return stored[2]

    def put(self, path: MediaFile, state: FileState, value: str) -> None:
        row = _key(path), state.bytes, state.version, value
        stored = *row, _checksum(*row)
        self._execute("insert or replace into hashes values (?, ?, ?, ?, ?)", stored)
        self._loaded()[row[0]] = stored[1:]

    def _loaded(self) -> dict[str, tuple[int, str, str, str]]:
        return self.load() if self._known is None else self._known

    def _execute(
        self, sql: str, parameters: Sequence[object] = (), *, is_replaced: bool = False
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement. A damaged file is replaced by an empty one first."""
        try:
            return self._open().execute(sql, parameters).fetchall()
        except SQLITE_ERRORS as error:
            is_no_file = os.path.lexists(self._path) and not self._path.is_file()
            if is_replaced or not (is_damage(error) or is_no_file):
                raise StorageError(
                    f"{self._path}: the cache of file hashes cannot be used ({error}); "
                    f"{advice(self._path)}, then run again: everything that is already stored is "
                    "kept"
                ) from error
            self._replace(error)
        return self._execute(sql, parameters, is_replaced=True)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            # A damaged cache is only built again, so that no write needs to wait for the disk.
            self._connection = open_database(
                self._path, _create_table, timeout_seconds=30.0, synchronous="off"
            )
        return self._connection

    def _replace(self, error: Exception) -> None:
        """Set the damaged file aside, and delete its log, which SQLite would apply to another."""
        self.close()
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        set_aside(self._path)
        has_no_such_column = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        problem = "has another format" if has_no_such_column else "was damaged"
        _log.warning(
            "%s: the cache of file hashes %s (%s) and is built again", self._path, problem, error
        )


def _create_table(connection: sqlite3.Connection) -> None:
    connection.execute(
        "create table if not exists hashes (path text primary key, bytes integer, "
        "version text, hash text, checksum text) without rowid"
    )


def _key(path: MediaFile) -> str:
    return str(path if isinstance(path, RemoteFile) else path.absolute())


def _checksum(path: str, size: int, version: str, value: object) -> str:
    return text_fingerprint(path, str(size), version, str(value))
