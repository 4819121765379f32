"""The journal: one SQLite file (WAL) that stores every response as soon as it arrives.

An acknowledged response survives `kill -9` and is never requested again. Answers and final
failures (a refusal, a content filter) settle a request and are stored once per request
fingerprint. Every attempt, failed or not, is stored for audit. Claims prevent two processes from
sending the same request. `collect` decides which requests are sent.

Write-ahead logging needs a local disk: all processes that share a journal run on one machine.
"""

import json
import queue
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.responses.journal_file import (
    ATTEMPT_COLUMNS,
    RESPONSE_COLUMNS,
    checked,
    explaining,
    insert,
    is_about_a_value,
    not_usable,
    open_file,
)
from videomme_pipeline.responses.response import Attempt, Response
from videomme_pipeline.rows import Row, from_values, to_values

_MAX_RECORDS_PER_COMMIT = 256
_LISTED = "request_fingerprint in (select value from json_each(?))"
_ADD_RESPONSE = insert("responses", if_new=True)
_ADD_ATTEMPT = insert("attempts")


@dataclass(frozen=True, slots=True)
class _Entry:
    """An attempt that waits for the next commit, with the response if it settled the request."""

    attempt: Attempt
    response: Response | None
    done: "Future[None]"


class Journal:
    """One process's connection to the journal file. Any number of processes may open it.

    Reads and claims run in the caller's thread. Records are queued for one writer thread. It
    commits all that are in the queue together, so that they share one flush to disk.

    With `flushes_every_commit` a commit waits for the disk and survives a power failure.
    Without it, a commit survives only a crash of the process, which is enough for free models.
    """

    def __init__(self, path: Path, *, flushes_every_commit: bool = True) -> None:
        self.path = path
        self.owner = _Owner.here(journal=uuid4().hex[:8]).as_json()
        self._lock = threading.Lock()
        # Claims may be lost in a power failure, so they do not wait for the disk.
        self._connection = open_file(path, "normal")
        self._connection.row_factory = sqlite3.Row
        synchronous = "full" if flushes_every_commit else "normal"
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._writer = threading.Thread(
            target=self._write_all,
            args=(open_file(path, synchronous),),
            name="journal",
            daemon=True,
        )
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit the queue, release this process's claims and close the file."""
        self._queue.put(None)
        self._writer.join()
        with self._transaction() as connection:
            connection.execute("delete from claims where owner = ?", (self.owner,))
        self._connection.close()

    def settled(self, fingerprints: Iterable[str]) -> set[str]:
        """The `fingerprints` that have an answer or a final failure."""
        sql = f"select request_fingerprint from responses where {_LISTED}"
        return {fingerprint for (fingerprint,) in self._rows(sql, fingerprints)}

    def stored_responses(self, unanswered: Iterable[Response]) -> dict[str, Response]:
        """The settled responses among `unanswered`, with the stored result, by fingerprint."""
        by_fingerprint = {response.request_fingerprint: response for response in unanswered}
        sql = f"select {', '.join(RESPONSE_COLUMNS)} from responses where {_LISTED}"
        results = {}
        for row in self._rows(sql, by_fingerprint):
            fingerprint = row["request_fingerprint"]
            unanswered_values = to_values(by_fingerprint[fingerprint])
            results[fingerprint] = _from_sql(unanswered_values | dict(row), Response)
        return results

    def attempts(self, fingerprints: Iterable[str]) -> list[Attempt]:
        """Every attempt at `fingerprints`, in the order in which they were recorded."""
        sql = f"select {', '.join(ATTEMPT_COLUMNS)} from attempts where {_LISTED} order by rowid"
        return [_from_sql(dict(row), Attempt) for row in self._rows(sql, fingerprints)]

    def spent_dollars(self, evaluation: str) -> float:
        """The cost of all attempts of `evaluation` so far, in every run and process."""
        with self._lock, explaining(self.path):
            (spent,) = self._connection.execute(
                "select coalesce(sum(cost_dollars), 0.0) from attempts where evaluation = ?",
                (evaluation,),
            ).fetchone()
        return float(spent)

    def record(self, attempt: Attempt, response: Response | None) -> "Future[None]":
        """Store an attempt and, if it settled the request, its response.

        The future ends when both are committed. Only then is the response acknowledged. It raises
        StorageError if the file cannot be written, and UnstorableError if it cannot contain a
        value of this attempt or response. Other records are then not affected.
        """
        entry = _Entry(attempt, response, Future())
        self._queue.put(entry)
        return entry.done

    def claim(self, fingerprints: Sequence[str], now: datetime, seconds: float) -> set[str]:
        """Claim `fingerprints` for `seconds`, and return those that were free.

        A claim ends when its response is recorded, when it is released, when it expires, or when
        its owner was a process on this machine that has ended.
        """
        listed = json.dumps(list(fingerprints))
        with self._transaction() as connection:
            rows = connection.execute(
                f"select request_fingerprint, owner, expires_at from claims where {_LISTED}",
                (listed,),
            ).fetchall()
            claimed_by_others = {
                fingerprint
                for fingerprint, owner, expires_at in rows
                if owner != self.owner and expires_at > now.timestamp() and not _is_dead(owner)
            }
            settled = connection.execute(
                f"select request_fingerprint from responses where {_LISTED}", (listed,)
            ).fetchall()
            free = set(fingerprints) - claimed_by_others - {name for (name,) in settled}
            expires_at = now.timestamp() + seconds
            connection.executemany(
                "insert or replace into claims values (?, ?, ?)",
                [(fingerprint, self.owner, expires_at) for fingerprint in free],
            )
        return free

    def renew_claims(self, now: datetime, seconds: float) -> None:
        """Extend every claim of this process to `seconds` from `now`."""
        with self._transaction() as connection:
            connection.execute(
                "update claims set expires_at = ? where owner = ?",
                (now.timestamp() + seconds, self.owner),
            )

    def release(self, fingerprints: Iterable[str]) -> None:
        """Release claims, so that another process may send these requests."""
        with self._transaction() as connection:
            connection.execute(
                f"delete from claims where owner = ? and {_LISTED}",
                (self.owner, json.dumps(list(fingerprints))),
            )

    def _rows(self, sql: str, fingerprints: Iterable[str]) -> list[sqlite3.Row]:
        with self._lock, explaining(self.path):
            return self._connection.execute(sql, (json.dumps(list(fingerprints)),)).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, explaining(self.path), _immediate(self._connection) as connection:
            yield connection

    def _write_all(self, connection: sqlite3.Connection) -> None:
        is_closing = False
        while not is_closing:
            group = [self._queue.get()]
            while not self._queue.empty() and len(group) < _MAX_RECORDS_PER_COMMIT:
                group.append(self._queue.get())
            is_closing = None in group
            # An entry is stored even if its caller has cancelled the future.
            entries = [entry for entry in group if entry is not None]
            for entry in entries:
                entry.done.set_running_or_notify_cancel()
            if entries:
                self._commit(connection, entries)
        connection.close()

    def _commit(self, connection: sqlite3.Connection, entries: Sequence[_Entry]) -> None:
        """Commit `entries` together, or one by one if a value of one of them cannot be stored."""
        failure: Exception | None = None
        try:
            _write(connection, entries)
        except Exception as error:  # noqa: BLE001 - without this thread, no future would ever end
            if is_about_a_value(error) and len(entries) > 1:
                for entry in entries:
                    self._commit(connection, [entry])
                return
            failure = not_usable(self.path, error)
        for entry in entries:
            if entry.done.cancelled():
                continue
            if failure is None:
                entry.done.set_result(None)
            else:
                entry.done.set_exception(failure)


def _write(connection: sqlite3.Connection, entries: Sequence[_Entry]) -> None:
    """Insert all entries in one transaction, and release the claims of settled requests."""
    settled = [entry for entry in entries if entry.response is not None]
    with _immediate(connection):
        connection.executemany(_ADD_ATTEMPT, [_attempt_row(entry) for entry in entries])
        connection.executemany(_ADD_RESPONSE, [_response_row(entry) for entry in settled])
        connection.executemany(
            "delete from claims where request_fingerprint = ?",
            [(entry.attempt.request_fingerprint,) for entry in settled],
        )


@contextmanager
def _immediate(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run a write transaction that waits for the lock at its start, not at its first write."""
    connection.execute("begin immediate")
    try:
        yield connection
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # SQLite ends a transaction itself if the disk is full
            connection.execute("rollback")
        raise


def _response_row(entry: _Entry) -> tuple[Any, ...]:
    values = to_values(entry.response)
    return checked("responses", [*_to_sql(values, RESPONSE_COLUMNS), entry.attempt.body])


def _attempt_row(entry: _Entry) -> tuple[Any, ...]:
    values = to_values(entry.attempt)
    if entry.attempt.failure is None:
        values["body"] = None  # the body of an answer is stored with the response
    return checked("attempts", _to_sql(values, ATTEMPT_COLUMNS))


def _to_sql(values: dict[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    picked = (values[name] for name in columns)
    return tuple(v.isoformat() if isinstance(v, datetime) else v for v in picked)


def _from_sql(values: dict[str, Any], row_class: type[Row]) -> Row:
    times = {
        name: datetime.fromisoformat(values[name]).astimezone(UTC)
        for name in ("started_at", "answered_at")
        if values.get(name) is not None
    }
    return from_values(values | times, row_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner(ProcessIdentity):
    """The owner of a claim: one journal of one process."""

    journal: str


def _is_dead(owner: str) -> bool:
    """True if `owner` is a process that has certainly ended."""
    try:
        return _Owner.from_json(owner).is_dead
    except (TypeError, ValueError):
        return False  # written by another version, so the claim ends only when it expires
