"""A journal in the schema `videomme` of a PostgreSQL database, shared by several machines.

A connection that is lost is opened again. A commit whose end is unknown is looked up, so that no
attempt is recorded twice.
"""

import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from videomme_pipeline.errors import StorageError
from videomme_pipeline.responses.journal_databases import (
    TABLES,
    JournalDatabase,
    Result,
    Session,
    Values,
)
from videomme_pipeline.storage import postgres

SCHEMA = "videomme"
_DIALECT = {
    " without rowid": "",
    " integer": " bigint",
    " real": " double precision",
    "exists attempts (": "exists attempts (rowid bigint generated always as identity, ",
}
"""Differences of the statements that create the tables. `rowid` is the order of attempts."""
_LOCK = 0x766D6D65
"""The advisory lock of a transaction. As in SQLite, one transaction at a time writes."""
_BEGIN = f"begin; select pg_advisory_xact_lock({_LOCK}), txid_current()"
_POLL_SECONDS = 0.5


class PostgresSession(Session):
    """A connection, which is opened again for up to a minute if it is lost."""

    def __init__(self, url: str, *, is_durable: bool) -> None:
        self._url = url
        commit = "on" if is_durable else "off"
        self._options = f"-c search_path={SCHEMA} -c synchronous_commit={commit}"
        self._is_within = False
        self._open()

    def execute(self, sql: str, *values: object) -> list[Values]:
        if self._is_within:
            return self._execute(sql, *values)
        return self._again(lambda: self._execute(sql, *values))

    def execute_many(self, sql: str, rows: Iterable[Values]) -> None:
        from psycopg2.extras import execute_batch  # noqa: PLC0415 - an extra

        with self._connection.cursor() as cursor:
            execute_batch(cursor, sql.replace("?", "%s"), rows)

    def transact(self, work: Callable[[], Result]) -> Result:
        # A transaction whose commit was lost, and its result.
        unknown: list[tuple[int, Result]] = []

        def attempt() -> Result:
            if unknown and self._is_committed(unknown[0][0]):
                return unknown[0][1]
            ((_, number),) = self._execute(_BEGIN)
            self._is_within = True
            try:
                result = work()
            except BaseException:
                with suppress(Exception):
                    self._execute("rollback")
                raise
            finally:
                self._is_within = False
            unknown[:] = [(number, result)]
            self._execute("commit")
            return result

        return self._again(attempt)

    def rows(self, sql: str) -> Iterator[Values]:
        with self._connection.cursor("rows", withhold=True) as cursor:
            cursor.execute(sql)
            yield from cursor

    def close(self) -> None:
        self._connection.close()

    def has_tables(self) -> bool:
        ((exists,),) = self.execute(f"select to_regclass('{SCHEMA}.claims') is not null")
        return bool(exists)

    def _open(self) -> None:
        self._connection = postgres.connect(
            self._url, name="videomme journal", options=self._options
        )
        ((seconds,),) = self._execute("select extract(epoch from clock_timestamp())::float8")
        self.clock_offset = seconds - time.time()

    def _execute(self, sql: str, *values: object) -> list[Values]:
        return postgres.rows_of(self._connection, sql.replace("?", "%s"), *values)

    def _again(self, attempt: Callable[[], Result]) -> Result:
        """The result of `attempt`, which is repeated after each loss of the connection."""
        psycopg2 = postgres.library()
        while True:
            if self._connection.closed:
                postgres.await_connection(self._open, psycopg2.OperationalError)
            try:
                return attempt()
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                if not self._connection.closed:
                    raise

    def _is_committed(self, number: int) -> bool:
        """True if a transaction was committed. The server ends one that is silent for long."""
        while True:
            ((status,),) = self._execute("select txid_status(?)", number)
            if status != "in progress":
                return bool(status == "committed")
            time.sleep(_POLL_SECONDS)


@dataclass(frozen=True, slots=True)
class PostgresJournal(JournalDatabase):
    """The schema `videomme` of the database at `url`, which is created if there is none."""

    url: str
    is_shared = True
    listed = "select json_array_elements_text(?::json)"
    key = "upper(encode(convert_to(request_fingerprint, 'UTF8'), 'hex'))"
    last_resort = f"rename the schema `{SCHEMA}`"

    @property
    def title(self) -> str:
        return postgres.location(self.url)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (postgres.library().Error,)

    def exists(self) -> bool:
        with self.explaining(), closing(PostgresSession(self.url, is_durable=False)) as session:
            return session.has_tables()

    def connect(self, *, is_durable: bool) -> Session:
        with self.explaining():
            session = PostgresSession(self.url, is_durable=is_durable)
            if not session.has_tables():
                statements = ";".join([f"create schema if not exists {SCHEMA}", *TABLES])
                for ours, theirs in _DIALECT.items():
                    statements = statements.replace(ours, theirs)
                session.transact(lambda: session.execute(statements))
        return session

    def unusable(self, error: Exception) -> StorageError:
        return postgres.unusable(self.url, error)

    def repair(self, statement: str | None) -> str:
        if statement is None:
            return "check the disk of the database"
        command = shlex.quote(f"set search_path = {SCHEMA}; {statement}")
        return f"psql {shlex.quote(self.title)} -c {command}"
