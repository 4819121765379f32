"""Locks of runs on several machines, in the PostgreSQL database that they share."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from videomme_pipeline.project.runs.locks import Lock, Locks, Resource


@dataclass(frozen=True, slots=True)
class _Session:
    """A session of the database that has one lock. The end of the session releases it too."""

    connection: Connection

    def has_ended(self) -> bool:
        """True if the session cannot be used any more, so that the server released its locks."""
        if not self.connection.closed:
            try:
                self.connection.execute(_PING)
            except DBAPIError:
                self.connection.close()
        return self.connection.closed

    def release(self) -> None:
        if self.connection.closed:
            return
        # After a close alone, the server releases the lock only when it notices the close.
        # An error means that the server was restarted, which released the lock, or that the network
        # is cut. The server then ends the session itself.
        with suppress(DBAPIError), self.connection:
            self.connection.execute(_UNLOCK)


class PostgresLocks(Locks):
    """Locks among all processes that use the same PostgreSQL database, on any machine.

    A slot is an advisory lock of a session with the name of the run. If the session ends, for
    example at a restart of the server, other runs may use the resource. `check` notices that.
    """

    spans_processes = True

    def __init__(self, url: str, *, run: str, on_wait: Callable[[str], None]) -> None:
        super().__init__(run=run, on_wait=on_wait)
        self._engine = create_engine(
            url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"application_name": run, "options": _OPTIONS, **_CLIENT_OPTIONS},
        )

    def users(self, resource: Resource) -> tuple[str, ...]:
        with self._engine.connect() as connection:
            names = (connection.execute(_USER, name).scalar() for name in _slots(resource))
            return tuple(name for name in names if name is not None)

    def _is_lost(self, lock: Lock) -> bool:
        return isinstance(lock, _Session) and lock.has_ended()

    def _lock_slot(self, resource: Resource) -> _Session | None:
        connection = self._engine.connect()
        for name in _slots(resource):
            if connection.execute(_LOCK, name).scalar():
                return _Session(connection)
        connection.close()
        return None


_OPTIONS = (
    "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 "
    "-c idle_session_timeout=0"
)
"""The server detects within a minute that the machine of a session is gone."""
_CLIENT_OPTIONS = {"keepalives_idle": 30, "keepalives_interval": 10, "tcp_user_timeout": 60_000}
"""This process detects within a minute that the server cannot be reached any more."""
_LOCK = text("select pg_try_advisory_lock(hashtextextended(:name, 0))")
_PING = text("select 1")
_UNLOCK = text("select pg_advisory_unlock_all()")
_USER = text(
    "select application_name from pg_locks join pg_stat_activity using (pid) "
    "where locktype = 'advisory' and granted and objsubid = 1 "
    "and (classid::bigint << 32 | objid::bigint) = hashtextextended(:name, 0)"
)


def _slots(resource: Resource) -> list[dict[str, str]]:
    """The names of the slots, whose hashes are the keys of their locks."""
    return [{"name": f"videomme {resource.file_stem} {slot}"} for slot in range(resource.slots)]
