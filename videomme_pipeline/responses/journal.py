"""The journal: a database that stores every response as soon as it arrives.

An acknowledged response survives `kill -9` and is never requested again. Answers and final
failures (a refusal, a content filter) settle a request and are stored once per request
fingerprint. Every attempt, failed or not, is stored for audit. Claims prevent two processes from
sending the same request. The database is an SQLite file, or PostgreSQL for several machines.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from videomme_pipeline.errors import StorageError, UnstorableError
from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.responses.journal_databases import (
    CHECKED,
    COLUMNS,
    RESPONSE_COLUMNS,
    JournalDatabase,
    Result,
    Session,
    SqliteJournal,
    Values,
    checked,
    insert,
)
from videomme_pipeline.responses.response import Attempt, Response
from videomme_pipeline.rows import Row, from_values, to_values

_MAX_RECORDS_PER_COMMIT = 256
_COPIED_ROWS_PER_COMMIT = 500
_NEWEST_ANSWERS = 1_000
_ADD_CLAIM = (
    "insert into claims (request_fingerprint, owner, expires_at) values (?, ?, ?) "
    "on conflict (request_fingerprint) do update "
    "set owner = excluded.owner, expires_at = excluded.expires_at"
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The row of an attempt that waits for the next commit, and of the response that settled it."""

    fingerprint: str
    attempt: Values
    response: Values | None
    done: "Future[None]"


class Journal(AbstractContextManager["Journal"]):
    """One process's connection to the journal. Any number of processes may open it.

    Reads and claims run in the caller's thread. Records are queued for one writer thread, which
    commits all that are in the queue together. With `flushes_every_commit` a commit waits for the
    disk and survives a power failure. Without it, a commit survives only a crash of the process,
    which is enough for free models.
    """

    def __init__(
        self, database: JournalDatabase | Path, *, flushes_every_commit: bool = True
    ) -> None:
        self._database = SqliteJournal(database) if isinstance(database, Path) else database
        self.owner = f"{ProcessIdentity.here().as_name()}-{uuid4().hex[:8]}"
        self._lock = threading.Lock()
        # Claims may be lost in a power failure, so they do not wait for the disk.
        self._session = self._database.connect(is_durable=False)
        self._listed = f"request_fingerprint in ({self._database.listed})"
        self._settled = f"select request_fingerprint from responses where {self._listed}"
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._writer = threading.Thread(
            target=self._write_all,
            args=(self._database.connect(is_durable=flushes_every_commit),),
            name="journal",
            daemon=True,
        )
        self._writer.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit the queue, release this process's claims and close the database."""
        self._queue.put(None)
        self._writer.join()
        with suppress(StorageError):  # claims that cannot be released end with this process
            self._change("delete from claims where owner = ?", self.owner)
        self._session.close()

    def settled(self, fingerprints: Iterable[str]) -> set[str]:
        """The `fingerprints` that have an answer or a final failure."""
        rows = self._execute(self._settled, _as_json(fingerprints))
        return {fingerprint for (fingerprint,) in rows}

    def stored_responses(self, unanswered: Iterable[Response]) -> dict[str, Response]:
        """The settled responses among `unanswered`, with the stored result, by fingerprint."""
        by_fingerprint = {response.request_fingerprint: response for response in unanswered}
        sql = f"select {', '.join(RESPONSE_COLUMNS)} from responses where {self._listed}"
        results = {}
        for row in self._execute(sql, _as_json(by_fingerprint)):
            stored = dict(zip(RESPONSE_COLUMNS, row, strict=True))
            fingerprint = stored["request_fingerprint"]
            unanswered_values = to_values(by_fingerprint[fingerprint])
            results[fingerprint] = _from_sql(unanswered_values | stored, Response)
        return results

    def attempts(self, fingerprints: Iterable[str]) -> list[Attempt]:
        """Every attempt at `fingerprints`, in the order in which they were recorded."""
        columns = COLUMNS["attempts"]
        sql = f"select {', '.join(columns)} from attempts where {self._listed} order by rowid"
        rows = self._execute(sql, _as_json(fingerprints))
        return [_from_sql(dict(zip(columns, row, strict=True)), Attempt) for row in rows]

    def costs(self, evaluation: str) -> tuple[float, float | None]:
        """The cost of all attempts of `evaluation` in all runs, and the highest cost of one."""
        sql = "select sum(cost_dollars), max(cost_dollars) from attempts where evaluation = ?"
        ((spent, highest),) = self._execute(sql, evaluation)
        return float(spent or 0.0), None if highest is None else float(highest)

    def newest_answers(self, evaluation: str) -> list[tuple[datetime, float, int | None]]:
        """Start, latency in seconds, and tokens of the text of the newest answers, if counted."""
        sql = (
            "select started_at, a.latency_seconds, text_tokens from attempts a join responses "
            "using (request_fingerprint) where evaluation = ? and a.failure is null "
            f"order by a.rowid desc limit {_NEWEST_ANSWERS}"
        )
        rows = self._execute(sql, evaluation)
        return [(datetime.fromisoformat(start), *others) for start, *others in rows]

    def record(self, attempt: Attempt, response: Response | None) -> "Future[None]":
        """Store an attempt and, if it settled the request, its response.

        The future ends when both are committed. Only then is the response acknowledged. It raises
        StorageError if the journal cannot be written, and UnstorableError if it cannot contain a
        value of this attempt or response. Other records are then not affected.
        """
        done: Future[None] = Future()
        body = attempt.body
        if attempt.failure is None:
            attempt = replace(attempt, body=None)  # it is stored with the response
        try:
            settling = None if response is None else _row("responses", response, body)
            row = _row("attempts", attempt, attempt.body)
        except Exception as error:  # noqa: BLE001 - a provider may return values of any type
            problem = f"{type(error).__name__}: {error}"
            message = (
                f"{self._database.title}: the journal cannot store a value that the model returned "
                f"({problem}); report this to the authors of the provider"
            )
            done.set_exception(UnstorableError(message))
        else:
            self._queue.put(_Entry(attempt.request_fingerprint, row, settling, done))
        return done

    def claim(self, fingerprints: Sequence[str], now: datetime, seconds: float) -> set[str]:
        """Claim `fingerprints` for `seconds`, and return those that were free.

        A claim ends when its response is recorded, when it is released, when it expires, or when
        its owner was a process on this machine that has ended. `now` is the time of this machine.
        """
        execute, listed = self._session.execute, _as_json(fingerprints)

        def claim_free() -> set[str]:
            timestamp = now.timestamp() + self._session.clock_offset
            owners = execute(
                f"select request_fingerprint, owner, expires_at from claims where {self._listed}",
                listed,
            )
            claimed_by_others = {
                fingerprint
                for fingerprint, owner, expires_at in owners
                if owner != self.owner and expires_at > timestamp and not is_dead(owner)
            }
            settled = {fingerprint for (fingerprint,) in execute(self._settled, listed)}
            free = set(fingerprints) - claimed_by_others - settled
            claims = [(fingerprint, self.owner, timestamp + seconds) for fingerprint in free]
            self._session.execute_many(_ADD_CLAIM, claims)
            return free

        return self._transact(claim_free)

    def renew_claims(self, now: datetime, seconds: float) -> None:
        """Extend every claim of this process to `seconds` from `now`."""
        end = now.timestamp() + self._session.clock_offset + seconds
        self._change("update claims set expires_at = ? where owner = ?", end, self.owner)

    @contextmanager
    def renewing_claims(
        self, seconds: float, on_error: Callable[[StorageError], object]
    ) -> Iterator[None]:
        """Keep the claims of this process during the block, by extending them to `seconds`.

        `on_error` is called in another thread if the journal cannot be written.
        """
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(seconds / 3):
                try:
                    self.renew_claims(datetime.now(UTC), seconds)
                except StorageError as error:
                    on_error(error)

        thread = threading.Thread(target=renew, name="claims", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def release(self, fingerprints: Iterable[str]) -> None:
        """Release claims, so that another process may send these requests."""
        sql = f"delete from claims where owner = ? and {self._listed}"
        self._change(sql, self.owner, _as_json(fingerprints))

    def _change(self, sql: str, *values: object) -> None:
        self._transact(lambda: self._session.execute(sql, *values))

    def _execute(self, sql: str, *values: object) -> list[Values]:
        with self._lock, self._database.explaining():
            return self._session.execute(sql, *values)

    def _transact(self, work: Callable[[], Result]) -> Result:
        with self._lock, self._database.explaining():
            return self._session.transact(work)

    def _write_all(self, session: Session) -> None:
        is_closing = False
        while not is_closing:
            group = [self._queue.get()]
            while not self._queue.empty() and len(group) < _MAX_RECORDS_PER_COMMIT:
                group.append(self._queue.get())
            is_closing = None in group
            if entries := [entry for entry in group if entry is not None]:
                self._commit(session, entries)
        session.close()

    def _commit(self, session: Session, entries: Sequence[_Entry]) -> None:
        # An entry is stored even if its caller has cancelled the future.
        awaited = [item.done for item in entries if item.done.set_running_or_notify_cancel()]
        try:
            session.transact(lambda: _write(session, entries))
        except Exception as error:  # noqa: BLE001 - without this thread, no future would ever end
            for done in awaited:
                done.set_exception(self._database.unusable(error))
        else:
            for done in awaited:
                done.set_result(None)


def _write(session: Session, entries: Sequence[_Entry]) -> None:
    session.execute_many(insert("attempts"), [entry.attempt for entry in entries])
    responses = [entry.response for entry in entries if entry.response is not None]
    session.execute_many(insert("responses"), responses)
    settled = [(entry.fingerprint,) for entry in entries if entry.response is not None]
    session.execute_many("delete from claims where request_fingerprint = ?", settled)


def _as_json(fingerprints: Iterable[str]) -> str:
    return json.dumps(list(fingerprints))


def _row(table: str, row: Response | Attempt, body: str | None) -> Values:
    values = {**to_values(row), "body": body}
    picked = (values[name] for name in COLUMNS[table])
    return checked(table, [v.isoformat() if isinstance(v, datetime) else v for v in picked])


def _from_sql(values: dict[str, Any], row_class: type[Row]) -> Row:
    times = {
        name: datetime.fromisoformat(values[name]).astimezone(UTC)
        for name in ("started_at", "answered_at")
        if values.get(name) is not None
    }
    return from_values(values | times, row_class)


def is_dead(owner: str) -> bool:
    """True if the process of a journal, the `owner` of a claim, has certainly ended."""
    try:
        return ProcessIdentity.from_name(owner.rpartition("-")[0]).is_dead
    except ValueError:
        return False  # written by another version, so the claim ends only when it expires


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """Numbers of rows that were copied, that the target had, and that it keeps `different`."""

    name: str
    copied: int
    same: int
    different: int


def copy_journal(source: JournalDatabase, target: JournalDatabase) -> list[CopiedTable]:
    """Add the rows of `source` to `target`, and verify both. An interrupted copy can be repeated.

    Raises StorageError if there is no `source`, a process uses it, or a journal is damaged.
    """
    if not source.exists():
        raise StorageError(f"{source.title}: no journal is there; name another file or URL")
    source.verify()
    with (
        source.explaining(),
        closing(source.connect(is_durable=False)) as reader,
        target.explaining(),
        closing(target.connect(is_durable=True)) as writer,
    ):
        claims = reader.execute("select owner from claims where expires_at > ?", time.time())
        if any(not is_dead(owner) for (owner,) in claims):
            raise StorageError(f"{source.title}: a run is asking a model; copy when it has ended")
        copied = [_copy(table, reader, writer) for table in CHECKED]
    target.verify()
    return copied


def _copy(table: str, reader: Session, writer: Session) -> CopiedTable:
    expected, before = _stored(table, reader), _stored(table, writer)
    order = " order by rowid" if table == "attempts" else ""
    rows = reader.rows(f"select {', '.join(COLUMNS[table])} from {table}{order}")
    while batch := [checked(table, values) for values in islice(rows, _COPIED_ROWS_PER_COMMIT)]:
        new = [row for row in batch if row[-1] not in before]
        writer.transact(partial(writer.execute_many, insert(table), new))
    after = _stored(table, writer)
    others = expected.keys() - after.keys()
    answered = set(after.values()) if table == "responses" else set()
    if lost := [key for key in others if expected[key] not in answered]:
        raise StorageError(f"{len(lost):,} rows of {table} were not stored; run the copy again")
    same = len(expected.keys() & before.keys())
    copied = len(expected) - same - len(others)
    return CopiedTable(name=table, copied=copied, same=same, different=len(others))


def _stored(table: str, session: Session) -> dict[object, object]:
    """The request fingerprint of each row, by the checksum of the row."""
    rows = session.rows(f"select checksum, request_fingerprint from {table}")
    return dict(map(tuple, rows))
