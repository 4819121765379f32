"""Locks of runs on several machines, in the PostgreSQL database that they share."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from videomme_pipeline.project.runs.locks import Lock, Locks, Resource
from videomme_pipeline.storage import postgres

_LOCK = (
    "select 1 from unnest(%s) name where pg_try_advisory_lock(hashtextextended(name, 0)) limit 1"
)
"""One row if a free slot is locked now."""
_USERS = """
select application_name from unnest(%s) name
join pg_locks on locktype = 'advisory' and granted and objsubid = 1
and (classid::bigint << 32 | objid::bigint) = hashtextextended(name, 0)
join pg_stat_activity using (pid)"""


@dataclass(frozen=True, slots=True)
class _Session:
    """A session of the database that has one lock. The end of the session releases it too."""

    connection: Any

    def release(self) -> None:
        # After a close alone, the server releases the lock only when it notices the close.
        # An error means that the server was restarted, which released the lock, or that the network
        # is cut. The server then ends the session itself.
        with suppress(postgres.library().Error):
            postgres.rows_of(self.connection, "select pg_advisory_unlock_all()")
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
        session, rows = self._ask(_USERS, resource)
        session.release()
        return tuple(str(name) for (name,) in rows)

    def _is_lost(self, lock: Lock) -> bool:
        with suppress(postgres.library().Error):
            return isinstance(lock, _Session) and not postgres.rows_of(lock.connection, "select 1")
        lock.release()
        return True

    def _lock_slot(self, resource: Resource) -> _Session | None:
        session, rows = self._ask(_LOCK, resource)
        if rows:
            return session
        session.release()
        return None

    def _ask(self, sql: str, resource: Resource) -> tuple[_Session, list[tuple[object, ...]]]:
        """A new session, and what it reads about the slots of a resource."""
        slots = [f"videomme {resource.file_stem} {slot}" for slot in range(resource.slots)]
        connect = partial(postgres.connect, self._url, name=self._run)
        with postgres.explaining(self._url):
            session = postgres.await_connection(connect, postgres.library().OperationalError)
            return _Session(session), postgres.rows_of(session, sql, slots)
