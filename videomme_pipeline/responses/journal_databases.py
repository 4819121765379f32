"""The databases of a journal: tables, checksums, damaged rows, and the journal in an SQLite file.

Statements are SQL that SQLite and PostgreSQL both understand, with `?` for parameters. The
processes of one machine share a file. When a process opens a file for the first time, the structure
and every row are verified.
"""

import math
import shlex
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from blake3 import blake3

from videomme_pipeline.errors import StorageError
from videomme_pipeline.responses.response import Attempt, Response
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.storage.objects import listing
from videomme_pipeline.storage.sqlite import SQLITE_ERRORS, advice, is_damage, open_database

Result = TypeVar("Result")
Values = Sequence[Any]

TABLES = Path(__file__).with_name("journal.sql").read_text(encoding="utf-8").split(";")[:-1]
CHECKED = ("responses", "attempts")
"""Tables whose rows have checksums. Claims are short-lived and have none."""

_NOT_IN_JOURNAL = (
    "benchmark",
    "evaluation",
    "video_id",
    "question_id",
    "repeat",
    "model",
    "num_frames",
    "observation",
    "server",
)
"""Columns of a response that are not in the journal. Most differ between evaluations that share a
request, and a request has only one server."""
RESPONSE_COLUMNS = [n for n in arrow_schema(Response).names if n not in _NOT_IN_JOURNAL]
COLUMNS = {"responses": [*RESPONSE_COLUMNS, "body"], "attempts": arrow_schema(Attempt).names}
"""The columns that a checksum covers, in the order of the checksum."""
_LISTED_ROWS = 20
BUSY_TIMEOUT_SECONDS = 60.0


class Session(ABC):
    """One connection to the database of a journal, which one thread at a time uses.

    `clock_offset` is the seconds that the clock of the database is ahead of this machine's. Errors
    are those of the database's own library.
    """

    clock_offset: float = 0.0

    @abstractmethod
    def execute(self, sql: str, *values: object) -> list[Values]:
        """The rows of a statement. Inside of `transact` it belongs to the transaction."""

    @abstractmethod
    def execute_many(self, sql: str, rows: Iterable[Values]) -> None:
        """Execute a statement for each of `rows`."""

    @abstractmethod
    def transact(self, work: Callable[[], Result]) -> Result:
        """The result of `work` in one transaction. No other transaction runs at the same time.

        A database on another machine may be lost and come back. Then `work` is called again.
        """

    @abstractmethod
    def rows(self, sql: str) -> Iterator[Values]:
        """Yield the rows of a statement, which need not fit into memory."""

    @abstractmethod
    def close(self) -> None: ...


class JournalDatabase(ABC):
    """The place of a journal."""

    is_shared: ClassVar[bool]
    """True if several machines can use the journal at the same time."""
    listed: ClassVar[str]
    """SQL of the texts in a parameter that is a JSON list."""
    key: ClassVar[str]
    """SQL of the fingerprint of a row as hexadecimal digits."""
    last_resort: ClassVar[str]
    """Advice for a journal that cannot be repaired."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of the place in messages."""

    @property
    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors of the database's library."""

    @abstractmethod
    def exists(self) -> bool:
        """True unless no journal was opened here."""

    @abstractmethod
    def connect(self, *, is_durable: bool) -> Session:
        """A connection. The tables are created if there are none. Raises StorageError.

        A transaction that `is_durable` survives a power failure, others a crash of this process.
        """

    @abstractmethod
    def unusable(self, error: Exception) -> StorageError:
        """The error for a journal that is damaged, or cannot be read or written."""

    @abstractmethod
    def repair(self, statement: str | None) -> str:
        """The shell command that runs an SQL `statement`, or other advice for None."""

    def verify(self) -> None:
        """Raise StorageError if there is a journal that is damaged."""
        if self.exists():
            with self.explaining(), closing(self.connect(is_durable=False)) as session:
                self.verify_rows(session)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Turn an error of the database in the block into an error that says what to do."""
        try:
            yield
        except self.errors as error:
            raise self.unusable(error) from error

    def damaged(self, problem: str, statement: str | None = None) -> StorageError:
        """The error for a damaged journal. `statement` removes what is damaged."""
        repair = self.repair(statement)
        if statement is not None:
            repair = f"remove these rows (an answer among them is asked again): {repair}"
        return StorageError(
            f"{self.title}: the journal is damaged ({problem}). It contains the answers of all "
            "models, so it is never replaced automatically. Restore it from a backup. Without one, "
            f"{repair}. As a last resort, {self.last_resort}, and run again: "
            "finished videos are stored elsewhere and are not asked again, but the answers of "
            "unfinished videos and the record of attempts and costs are lost."
        )

    def verify_rows(self, session: Session) -> None:
        """Raise StorageError if a row differs from its checksum."""
        for table in CHECKED:
            columns = ", ".join(COLUMNS[table])
            rows = session.rows(f"select {self.key}, {columns}, checksum from {table}")
            damaged = [
                key for key, *values, checksum in rows if checksum_of(table, values) != checksum
            ]
            if damaged:
                problem = f"rows of {table} that differ from their checksums: {len(damaged):,}"
                keys = ", ".join(f"'{key}'" for key in damaged)
                deletion = f"delete from {table} where {self.key} in ({keys})"
                raise self.damaged(problem, deletion if len(damaged) <= _LISTED_ROWS else None)


def insert(table: str) -> str:
    """The statement that inserts the values of `checked` into a table. The first response wins."""
    columns = [*COLUMNS[table], "checksum"]
    is_new = " on conflict do nothing" if table == "responses" else ""
    return (
        f"insert into {table} ({', '.join(columns)}) "
        f"values ({', '.join('?' * len(columns))}){is_new}"
    )


def checked(table: str, values: Values) -> tuple[object, ...]:
    """The values of a row as they are stored, with their checksum.

    PostgreSQL stores no text with a zero character, and SQLite no NaN, so both are replaced. Raises
    TypeError or ValueError if no value of the column's type can be stored.
    """
    for (column, types), value in zip(_types(table).items(), values, strict=True):
        if value is not None and not isinstance(value, types):
            raise TypeError(f"{column} is {value!r}")
    stored = [_storable(value) for value in values]
    return (*stored, checksum_of(table, stored))


def _storable(value: object) -> object:
    if isinstance(value, str):
        value.encode()  # raises an error if it is not Unicode
        return value.replace("\0", "\ufffd")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{value} needs more than 64 bits")
    return None if isinstance(value, float) and math.isnan(value) else value


@cache
def _types(table: str) -> dict[str, tuple[type, ...]]:
    kinds: dict[object, tuple[type, ...]] = {
        "TEXT": (str,),
        "INTEGER": (int,),
        "REAL": (float, int),
    }
    types = {column: kinds[kind] for column, kind, *_ in expected_shape()[table]}
    return {column: types[column] for column in COLUMNS[table]}


Shape = Mapping[str, set[tuple[object, ...]]]
"""The columns of each table: name, type, not null, default and primary key."""


def shape_of(connection: sqlite3.Connection) -> Shape:
    """The tables of an SQLite file."""
    tables = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    return {
        table: {
            tuple(column)
            for _, *column in connection.execute("select * from pragma_table_info(?)", (table,))
        }
        for (table,) in tables
    }


@cache
def expected_shape() -> Shape:
    """The tables of a journal."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in TABLES:
            connection.execute(statement)
        return shape_of(connection)


def checksum_of(table: str, values: Values) -> str:
    """Checksum of the values of a row, equal before and after they are stored."""
    text = repr([table, *map(_normal, values)])
    return blake3(text.encode(errors="surrogateescape")).hexdigest(length=8)


def _normal(value: object) -> object:
    """`value` as a database may return it: a float for an integer, without NaN and -0.0."""
    if not isinstance(value, int | float):
        return value
    if math.isnan(value):
        return None
    return value + 0.0 if isinstance(value, float) or value == float(value) else value


@dataclass(frozen=True, slots=True)
class SqliteSession(Session):
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
    errors = SQLITE_ERRORS

    @property
    def title(self) -> str:
        return str(self.path)

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
            return f"sqlite3 {path} {shlex.quote(statement)}"
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
