"""The SQLite file of the journal: how it is opened, its checksums, and how damage is reported.

Each row has a checksum of its values. When a process opens a file, SQLite checks its structure, and
every row is compared with its checksum. Claims are short-lived and have no checksums.
"""

import math
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from blake3 import blake3

from videomme_pipeline.errors import StorageError, UnstorableError
from videomme_pipeline.responses.response import Attempt, Response
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.storage.sqlite import SQLITE_ERRORS, advice, is_damage, open_database

BUSY_TIMEOUT_SECONDS = 60.0

_TABLES = Path(__file__).with_name("journal.sql").read_text(encoding="utf-8").split(";")[:-1]
_CHECKED = ("responses", "attempts")
"""Tables whose rows have checksums."""

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
ATTEMPT_COLUMNS = arrow_schema(Attempt).names
_COLUMNS = {"responses": [*RESPONSE_COLUMNS, "body"], "attempts": ATTEMPT_COLUMNS}
"""The columns that a checksum covers, in the order of the checksum."""
_ADDED = {("responses", "text_tokens")}
"""Columns that earlier versions did not have. Checksums leave out their missing values."""
_LISTED_ROWS = 20


def open_file(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection to the journal at `path`, which is created if there is none.

    Raises:
        StorageError: if the file is damaged, cannot be read or written, or is on a network file
            system.
    """

    def prepare(connection: sqlite3.Connection) -> None:
        _create_tables(connection)
        status = path.stat()
        _verify_once(path, status.st_dev, status.st_ino)

    with explaining(path):
        return open_database(
            path, prepare, timeout_seconds=BUSY_TIMEOUT_SECONDS, synchronous=synchronous
        )


def insert(table: str, *, if_new: bool = False) -> str:
    """The statement that inserts the values of `checked` into a table."""
    columns = [*_COLUMNS[table], "checksum"]
    return (
        f"insert {'or ignore ' if if_new else ''}into {table} ({', '.join(columns)}) "
        f"values ({', '.join('?' * len(columns))})"
    )


def checked(table: str, values: Sequence[object]) -> tuple[object, ...]:
    """The values of a row with their checksum.

    Raises:
        TypeError: if SQLite would change a value, because its column has another type.
    """
    for (column, types), value in zip(_types(table).items(), values, strict=True):
        if value is not None and not isinstance(value, types):
            raise TypeError(f"{column} is {value!r}")
    return (*values, _checksum(table, values))


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn an error of SQLite in the block into an error that says what to do."""
    try:
        yield
    except SQLITE_ERRORS as error:
        raise not_usable(path, error) from error


def is_about_a_value(error: Exception) -> bool:
    """True if a value has a type or size that SQLite cannot store, and the file is all right."""
    if isinstance(error, sqlite3.DatabaseError):
        return isinstance(
            error, (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError)
        )
    return not isinstance(error, (OSError, MemoryError, UnicodeDecodeError))


def not_usable(path: Path, error: Exception) -> StorageError | UnstorableError:
    """The error for a journal that is damaged, or cannot be read or written, or store a value."""
    if is_about_a_value(error):
        return UnstorableError(
            f"{path}: the journal cannot store a value that the model returned "
            f"({type(error).__name__}: {error}); report this to the authors of the provider"
        )
    if is_damage(error):
        return _damaged(path, str(error))
    return StorageError(
        f"{path}: the journal cannot be written ({error}); {advice(path)}, then run again. All "
        "stored responses are kept."
    )


def _damaged(path: Path, problem: str, repair: str | None = None) -> StorageError:
    """The error for a damaged journal. `repair` is what to do without a backup."""
    new = path.with_name(f"recovered-{path.name}")
    command = f"sqlite3 {shlex.quote(str(path))} .recover | sqlite3 {shlex.quote(str(new))}"
    repair = repair or f"recover what is readable and rename the result to {path.name}: {command}"
    return StorageError(
        f"{path}: the journal is damaged ({problem}). It contains the answers of all models, so it "
        f"is never replaced automatically. Restore it from a backup. Without one, {repair}. As a "
        "last resort, move it away together with its -wal and -shm files, and run again: finished "
        "videos are stored elsewhere and are not asked again, but the answers of unfinished videos "
        "and the record of attempts and costs are lost."
    )


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new journal.

    Raises:
        sqlite3.DatabaseError: if the tables are not those of a journal.
    """
    if _shape(connection) == _expected_shape():
        return
    connection.execute("begin immediate")
    unknown = _shape(connection).keys() - _expected_shape().keys()
    if unknown:
        raise sqlite3.DatabaseError(f"unknown tables {sorted(unknown)}")
    for statement in _TABLES:
        connection.execute(statement)
    for table, column in _ADDED:
        if column not in {name for name, *_ in _shape(connection)[table]}:
            connection.execute(f"alter table {table} add column {column} integer")
    if _shape(connection) != _expected_shape():
        raise sqlite3.DatabaseError("other columns than those of a journal")
    connection.execute("commit")


@cache
def _types(table: str) -> dict[str, tuple[type, ...]]:
    """The types of the values of each column that a checksum covers."""
    kinds: dict[object, tuple[type, ...]] = {
        "TEXT": (str,),
        "INTEGER": (int,),
        "REAL": (float, int),
    }
    types = {column: kinds[kind] for column, kind, *_ in _expected_shape()[table]}
    return {column: types[column] for column in _COLUMNS[table]}


def _shape(connection: sqlite3.Connection) -> dict[str, set[tuple[object, ...]]]:
    """The columns of each table: name, type, not null, default and primary key."""
    tables = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    return {
        table: {
            tuple(column)
            for _, *column in connection.execute("select * from pragma_table_info(?)", (table,))
        }
        for (table,) in tables
    }


@cache
def _expected_shape() -> dict[str, set[tuple[object, ...]]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _TABLES:
            connection.execute(statement)
        return _shape(connection)


@cache
def _verify_once(path: Path, device: int, inode: int) -> None:  # noqa: ARG001 - identify the file
    """Verify the file, unless this process has done so before."""
    verify(path)


def verify(path: Path) -> None:
    """Check the structure of the file if it exists, and compare each row with its checksum.

    Raises:
        StorageError: if the file is damaged.
    """
    if not path.exists():
        return
    with explaining(path), closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS)) as file:
        (result,) = file.execute("pragma integrity_check(1)").fetchone()
        if result != "ok":
            raise _damaged(path, " ".join(str(result).split()))
        # A damaged text may be no UTF-8. It must still be read to find the damaged row.
        file.text_factory = lambda data: data.decode(errors="surrogateescape")
        for table in _CHECKED:
            columns = ", ".join(_COLUMNS[table])
            rows = file.execute(
                f"select hex(request_fingerprint), {columns}, checksum from {table}"
            )
            damaged = [
                key for key, *values, checksum in rows if _checksum(table, values) != checksum
            ]
            if damaged:
                raise _damaged(path, *_rows_message(path, table, damaged))


def _rows_message(path: Path, table: str, damaged: Sequence[object]) -> tuple[str, str | None]:
    """The problem of a table with damaged rows, and the command that removes the damaged rows."""
    problem = f"rows of {table} that differ from their checksums: {len(damaged):,}"
    if len(damaged) > _LISTED_ROWS:
        return problem, None
    keys = ", ".join(f"'{key}'" for key in damaged)
    statement = f"delete from {table} where hex(request_fingerprint) in ({keys})"
    return problem, (
        "remove these rows (an answer among them is asked again): "
        f"sqlite3 {shlex.quote(str(path))} {shlex.quote(statement)}"
    )


def _checksum(table: str, values: Sequence[object]) -> str:
    """Checksum of the values of a row, equal before and after they are stored."""
    text = repr(
        [
            _normal(value)
            for column, value in zip(_COLUMNS[table], values, strict=True)
            if value is not None or (table, column) not in _ADDED
        ]
    )
    return blake3(text.encode(errors="surrogateescape")).hexdigest(length=8)


def _normal(value: object) -> object:
    """`value` in a form that does not depend on whether SQLite has stored it.

    SQLite returns a float for an integer in a real column. It has no NaN and no negative zero.
    """
    if not isinstance(value, int | float):
        return value
    if math.isnan(value):
        return None
    return value + 0.0 if isinstance(value, float) or value == float(value) else value
