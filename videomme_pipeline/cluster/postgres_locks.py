"""Locks of runs on several machines, in the PostgreSQL database that they share."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from videomme_pipeline.project.runs.locks import Locks, Resource


@dataclass(frozen=True, slots=True)
class _Session:
    """A session of the database that has one lock. The end of the session releases it too."""

    connection: Connection

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

    A slot is an advisory lock of a session with the name of the run. A restart of the server
    releases all locks, so other runs may then use a resource at the same time.
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
            names = (
                connection.execute(_USER, _lock_key(resource, slot)).scalar()
                for slot in range(resource.slots)
            )
            return tuple(name for name in names if name is not None)

    def _lock_slot(self, resource: Resource) -> _Session | None:
        connection = self._engine.connect()
        for slot in range(resource.slots):
            if connection.execute(_LOCK, _lock_key(resource, slot)).scalar():
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
_LOCK = text("select pg_try_advisory_lock(:first, :second)")
_UNLOCK = text("select pg_advisory_unlock_all()")
_USER = text(
    "select application_name from pg_locks join pg_stat_activity using (pid) "
    "where locktype = 'advisory' and granted and objsubid = 2 "
    "and (classid::bigint, objid::bigint) = (:first & x'ffffffff'::bigint, "
    ":second & x'ffffffff'::bigint)"
)


def _lock_key(resource: Resource, slot: int) -> dict[str, int]:
    """The two signed 32-bit numbers that identify a slot in the database."""
    digest = blake2b(f"videomme {resource.file_stem} {slot}".encode(), digest_size=8).digest()
    first, second = digest[:4], digest[4:]
    return {
        "first": int.from_bytes(first, "big", signed=True),
        "second": int.from_bytes(second, "big", signed=True),
    }
