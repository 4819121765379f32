"""Locks of runs on several machines, in the PostgreSQL database that they share."""

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from videomme_pipeline.project.runs.locks import Lock, Locks, Resource
from videomme_pipeline.storage.postgres import await_connection, connect, explaining, library

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812 - its name is a class


_LOCK = "select pg_try_advisory_lock(hashtextextended(%s, 0))"
_USER = (
    "select application_name from pg_locks join pg_stat_activity using (pid) "
    "where locktype = 'advisory' and granted and objsubid = 1 "
    "and (classid::bigint << 32 | objid::bigint) = hashtextextended(%s, 0)"
)


@dataclass(frozen=True, slots=True)
class _Session:
    """A session of the database that has one lock. The end of the session releases it too."""

    connection: "Connection"

    def has_ended(self) -> bool:
        """True if the session cannot be used any more, so that the server released its locks."""
        with suppress(library().Error):
            _rows(self.connection, "select 1")
            return False
        self.connection.close()
        return True

    def release(self) -> None:
        # After a close alone, the server releases the lock only when it notices the close.
        # An error means that the server was restarted, which released the lock, or that the network
        # is cut. The server then ends the session itself.
        with suppress(library().Error):
            _rows(self.connection, "select pg_advisory_unlock_all()")
        self.connection.close()


class PostgresLocks(Locks):
    """Locks among all processes that use the same PostgreSQL database, on any machine.

    A slot is an advisory lock of a session with the name of the run. If the session ends, for
    example at a restart of the server, other runs may use the resource. `check` notices that.
    """

    spans_machines = True

    def __init__(self, url: str, *, run: str, on_wait: Callable[[str], None]) -> None:
        super().__init__(run=run, on_wait=on_wait)
        self._url = url

    def users(self, resource: Resource) -> tuple[str, ...]:
        with explaining(self._url), closing(self._connect()) as connection:
            rows = [row for name in _slots(resource) for row in _rows(connection, _USER, name)]
        return tuple(str(name) for (name,) in rows)

    def _is_lost(self, lock: Lock) -> bool:
        return isinstance(lock, _Session) and lock.has_ended()

    def _lock_slot(self, resource: Resource) -> _Session | None:
        with explaining(self._url):
            connection = self._connect()
            for name in _slots(resource):
                if _rows(connection, _LOCK, name) == [(True,)]:
                    return _Session(connection)
            connection.close()
        return None

    def _connect(self) -> "Connection":
        open_session = partial(connect, self._url, name=self._run)
        return await_connection(open_session, library().OperationalError)


def _rows(connection: "Connection", sql: str, *values: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor)


def _slots(resource: Resource) -> list[str]:
    """The names of the slots, whose hashes are the keys of their locks."""
    return [f"videomme {resource.file_stem} {slot}" for slot in range(resource.slots)]
