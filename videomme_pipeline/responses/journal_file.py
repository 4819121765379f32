"""A journal in an SQLite file, which the processes of one machine share.

When a process opens a file for the first time, the structure and every row are verified.
"""

import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from videomme_pipeline.errors import StorageError
from videomme_pipeline.responses.journal_tables import (
    TABLES,
    JournalDatabase,
    Result,
    Session,
    Values,
    expected_shape,
    shape_of,
)
from videomme_pipeline.storage.objects import listing
from videomme_pipeline.storage.sqlite import SQLITE_ERRORS, advice, is_damage, open_database

BUSY_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SqliteSession(Session):
    """A connection to the file."""

    connection: sqlite3.Connection

    def execute(self, sql: str, *values: object) -> list[Values]:
        return self.connection.execute(sql, values).fetchall()

    def execute_many(self, sql: str, rows: Iterable[Values]) -> None:
        self.connection.executemany(sql, rows)

    def transact(self, work: Callable[[], Result]) -> Result:
        # This waits for the lock at the start of the transaction, not at the first write.
        self.connection.execute("begin immediate")
        try:
            result = work()
            self.connection.execute("commit")
        except BaseException:
            if self.connection.in_transaction:  # SQLite ends it itself if the disk is full
                self.connection.execute("rollback")
            raise
        return result

    def rows(self, sql: str) -> Iterator[Values]:
        return self.connection.execute(sql)

    def close(self) -> None:
        self.connection.close()


@dataclass(frozen=True, slots=True)
class SqliteJournal(JournalDatabase):
    """The file at `path`, which is created if there is none."""

    path: Path
    is_shared = False
    listed = "select value from json_each(?)"
    key = "hex(request_fingerprint)"
    last_resort = "move it away together with its -wal and -shm files"

    @property
    def title(self) -> str:
        return str(self.path)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return SQLITE_ERRORS

    def exists(self) -> bool:
        with listing(self.path.parent):
            return self.path.exists()

    def connect(self, *, is_durable: bool) -> Session:
        def prepare(connection: sqlite3.Connection) -> None:
            _create_tables(connection)
            status = self.path.stat()
            _verify_once(self.path, status.st_dev, status.st_ino)

        with self.explaining():
            connection = open_database(
                self.path,
                prepare,
                timeout_seconds=BUSY_TIMEOUT_SECONDS,
                synchronous="full" if is_durable else "normal",
            )
        return SqliteSession(connection)

    def verify(self) -> None:
        """Check the structure of the file if it exists, and compare each row with its checksum."""
        if not self.exists():
            return
        with (
            self.explaining(),
            closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_SECONDS)) as file,
        ):
            (result,) = file.execute("pragma integrity_check(1)").fetchone()
            if result != "ok":
                raise self.damaged(" ".join(str(result).split()))
            # A damaged text may be no UTF-8. It must still be read to find the damaged row.
            file.text_factory = lambda data: data.decode(errors="surrogateescape")
            self.verify_rows(SqliteSession(file))

    def unusable(self, error: Exception) -> StorageError:
        if is_damage(error):
            return self.damaged(str(error))
        return StorageError(
            f"{self.path}: the journal cannot be written ({error}); {advice(self.path)}, then run "
            "again. All stored responses are kept."
        )

    def repair(self, statement: str | None) -> str:
        path = shlex.quote(str(self.path))
        if statement is not None:
            return (
                "remove these rows (an answer among them is asked again): "
                f"sqlite3 {path} {shlex.quote(statement)}"
            )
        new = shlex.quote(str(self.path.with_name(f"recovered-{self.path.name}")))
        return (
            f"recover what is readable and rename the result to {self.path.name}: "
            f"sqlite3 {path} .recover | sqlite3 {new}"
        )


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new journal. Raise DatabaseError for tables of another kind."""
    if shape_of(connection) == expected_shape():
        return
    connection.execute("begin immediate")
    if unknown := shape_of(connection).keys() - expected_shape().keys():
        raise sqlite3.DatabaseError(f"unknown tables {sorted(unknown)}")
    for statement in TABLES:
        connection.execute(statement)
    if shape_of(connection) != expected_shape():
        raise sqlite3.DatabaseError("it does not have the columns of a journal")
    connection.execute("commit")


@cache
def _verify_once(path: Path, device: int, inode: int) -> None:  # noqa: ARG001 - identify the file
    SqliteJournal(path).verify()
