"""The journal: every response the moment it arrives, in one SQLite file (WAL).

What is acknowledged here survives `kill -9` and is never asked again. Answers and final
failures (a refusal, a content filter) are kept once per request fingerprint; every attempt,
failed or not, is kept for audit. Claims keep two processes from asking the same question
twice. What to ask, and when, belongs to `collect`.

Write-ahead logging needs a local disk: all processes that share a journal run on one machine.
"""

import json
import queue
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from videomme_pipeline.errors import StorageError
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure
from videomme_pipeline.processes import ProcessIdentity
from videomme_pipeline.responses.response import Attempted, AttemptRow, Response

BUSY_TIMEOUT_SECONDS = 60.0
_GROUP = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of a request: an answer, or a failure that is final.

    `cost_dollars` and `attempts` count every attempt that led here.
    """

    request_fingerprint: str
    raw_output: str | None
    reasoning: str | None
    finish_reason: str | None
    failure: str | None
    error: str | None
    reported_model: str | None
    system_fingerprint: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    usage_json: str | None
    cost_dollars: float | None
    body: str | None
    warning: str | None
    latency_seconds: float | None
    attempts: int
    answered_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Attempted):
    """An attempt as the journal keeps it: with what it asked, and the body that came back."""

    request_fingerprint: str
    usage_json: str | None
    body: str | None

    def row(self, response: Response) -> AttemptRow:
        """As a row of the table of attempts, for the response that it led to."""
        came = {field.name: getattr(self, field.name) for field in fields(Attempted)}
        of_response = ("benchmark", "evaluation", "video_id", "question_id", "sample")
        return AttemptRow(**came | {name: getattr(response, name) for name in of_response})


_SCHEMA = """
create table if not exists responses (
    request_fingerprint text primary key, raw_output text, reasoning text, finish_reason text,
    failure text, error text, reported_model text, system_fingerprint text,
    prompt_tokens integer, completion_tokens integer, cached_tokens integer,
    reasoning_tokens integer, usage_json text, cost_dollars real, body text, warning text,
    latency_seconds real, attempts integer not null, answered_at text not null
) without rowid;
create table if not exists attempts (
    request_fingerprint text not null, evaluation text not null, model text not null,
    question_id text not null, sample integer not null, started_at text not null,
    latency_seconds real not null, status integer, failure text, error text,
    prompt_tokens integer, completion_tokens integer, cached_tokens integer,
    cost_dollars real, usage_json text, body text
);
create index if not exists attempts_of_request on attempts (request_fingerprint);
create index if not exists attempts_of_evaluation on attempts (evaluation);
create table if not exists claims (
    request_fingerprint text primary key, owner text not null, expires_at real not null
) without rowid;
"""

_RESPONSE_COLUMNS = [field.name for field in fields(Recorded)]
_ATTEMPT_COLUMNS = [field.name for field in fields(Attempt)]
_in_columns = attrgetter(*_RESPONSE_COLUMNS)
_ADD_RESPONSE = (
    f"insert or ignore into responses ({', '.join(_RESPONSE_COLUMNS)}) "
    f"values ({', '.join('?' * len(_RESPONSE_COLUMNS))})"
)
_ADD_ATTEMPT = (
    f"insert into attempts ({', '.join(_ATTEMPT_COLUMNS)}) "
    f"values ({', '.join('?' * len(_ATTEMPT_COLUMNS))})"
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One attempt, with the response it gave, waiting for the next commit."""

    attempt: Attempt
    response: Recorded | None
    done: "Future[None]"


class Journal:
    """One process's hold on the journal file; any number of processes may hold it.

    Reads and claims happen at once on the caller's thread. Records go through one writer
    thread that commits whatever has queued up since its last commit, so that a flush to disk
    is shared by all requests that ended meanwhile.

    With `flushes_every_commit` a commit waits for the disk: it survives a power failure too.
    Without, it survives the death of the process only, which is enough where answers are free.
    """

    def __init__(self, path: Path, *, flushes_every_commit: bool = True) -> None:
        self.path = path
        self.owner = _Owner.here(journal=uuid4().hex[:8]).as_json()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        # Claims may be lost with the power; only responses are worth waiting for the disk.
        self._connection = self._open("normal")
        self._synchronous = "full" if flushes_every_commit else "normal"
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is queued, give up this process's claims and let go of the file."""
        self._queue.put(None)
        self._writer.join()
        with self._transaction() as connection:
            connection.execute("delete from claims where owner = ?", (self.owner,))
        self._connection.close()

    def answered(self, fingerprints: Iterable[str]) -> dict[str, Recorded]:
        """What is settled of `fingerprints`: answers and final failures."""
        columns = ", ".join(_RESPONSE_COLUMNS)
        with self._lock:
            rows = self._connection.execute(
                f"select {columns} from responses "
                "where request_fingerprint in (select value from json_each(?))",
                (json.dumps(list(fingerprints)),),
            ).fetchall()
        found = (Recorded(**dict(zip(_RESPONSE_COLUMNS, row, strict=True))) for row in rows)
        return {item.request_fingerprint: item for item in found}

    def settled(self, fingerprints: Iterable[str]) -> set[str]:
        """Those of `fingerprints` that have an answer or a final failure."""
        with self._lock:
            rows = self._connection.execute(
                "select request_fingerprint from responses "
                "where request_fingerprint in (select value from json_each(?))",
                (json.dumps(list(fingerprints)),),
            ).fetchall()
        return {fingerprint for (fingerprint,) in rows}

    def attempts(self, fingerprints: Iterable[str]) -> list[Attempt]:
        """Every attempt at `fingerprints`, in the order in which they were recorded."""
        with self._lock:
            rows = self._connection.execute(
                f"select {', '.join(_ATTEMPT_COLUMNS)} from attempts "
                "where request_fingerprint in (select value from json_each(?)) order by rowid",
                (json.dumps(list(fingerprints)),),
            ).fetchall()
        return [_attempt_of(dict(zip(_ATTEMPT_COLUMNS, row, strict=True))) for row in rows]

    def spent_dollars(self, evaluation: str) -> float:
        """What all attempts of `evaluation` cost so far, in every run and process."""
        with self._lock:
            (spent,) = self._connection.execute(
                "select coalesce(sum(cost_dollars), 0.0) from attempts where evaluation = ?",
                (evaluation,),
            ).fetchone()
        return float(spent)

    def record(self, attempt: Attempt, response: Recorded | None) -> "Future[None]":
        """Keep an attempt and, when it settled the question, its response.

        The future ends when both are committed: only then is the response acknowledged.
        """
        entry = _Entry(attempt, response, Future())
        self._queue.put(entry)
        return entry.done

    def claim(self, fingerprints: Sequence[str], now: datetime, lease_seconds: float) -> set[str]:
        """Those of `fingerprints` that this process may ask now, for `lease_seconds`.

        A claim ends when its response is recorded, when it is released, when it runs out, or
        at once when its owner was a process of this machine that no longer lives.
        """
        wanted = json.dumps(list(fingerprints))
        with self._transaction() as connection:
            rows = connection.execute(
                "select request_fingerprint, owner, expires_at from claims "
                "where request_fingerprint in (select value from json_each(?))",
                (wanted,),
            ).fetchall()
            taken = {
                fingerprint
                for fingerprint, owner, expires_at in rows
                if owner != self.owner and expires_at > now.timestamp() and not _is_dead(owner)
            }
            settled = connection.execute(
                "select request_fingerprint from responses "
                "where request_fingerprint in (select value from json_each(?))",
                (wanted,),
            ).fetchall()
            free = set(fingerprints) - taken - {fingerprint for (fingerprint,) in settled}
            expires_at = now.timestamp() + lease_seconds
            connection.executemany(
                "insert or replace into claims values (?, ?, ?)",
                [(fingerprint, self.owner, expires_at) for fingerprint in free],
            )
        return free

    def renew_claims(self, now: datetime, lease_seconds: float) -> None:
        """Hold every claim of this process for `lease_seconds` from `now`."""
        with self._transaction() as connection:
            connection.execute(
                "update claims set expires_at = ? where owner = ?",
                (now.timestamp() + lease_seconds, self.owner),
            )

    def release(self, fingerprints: Iterable[str]) -> None:
        """Give up claims, so that another process may ask."""
        with self._transaction() as connection:
            connection.execute(
                "delete from claims where owner = ? "
                "and request_fingerprint in (select value from json_each(?))",
                (self.owner, json.dumps(list(fingerprints))),
            )

    def _open(self, synchronous: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {synchronous}")
        connection.executescript(_SCHEMA)
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock, _immediately(self._connection) as connection:
                yield connection
        except sqlite3.Error as error:
            raise self._not_written(error) from error

    def _write_all(self) -> None:
        connection = self._open(self._synchronous)
        ended = False
        while not ended:
            group = [self._queue.get()]
            while not self._queue.empty() and len(group) < _GROUP:
                group.append(self._queue.get())
            ended = None in group
            entries = [entry for entry in group if entry is not None]
            if entries:
                self._commit(connection, entries)
        connection.close()

    def _commit(self, connection: sqlite3.Connection, entries: Sequence[_Entry]) -> None:
        # Whoever stopped waiting is not told, but what came is kept all the same.
        told = [entry.done for entry in entries if entry.done.set_running_or_notify_cancel()]
        try:
            with _immediately(connection):
                connection.executemany(
                    _ADD_ATTEMPT, [_attempt_values(entry.attempt) for entry in entries]
                )
                settled = [entry.response for entry in entries if entry.response is not None]
                connection.executemany(_ADD_RESPONSE, [_in_columns(item) for item in settled])
                connection.executemany(
                    "delete from claims where request_fingerprint = ?",
                    [(item.request_fingerprint,) for item in settled],
                )
        except sqlite3.Error as error:
            for done in told:
                done.set_exception(self._not_written(error))
        else:
            for done in told:
                done.set_result(None)

    def _not_written(self, error: sqlite3.Error) -> StorageError:
        return StorageError(
            f"{self.path}: the journal cannot be written ({error}); free some space or check the "
            "disk, then run again: what is already stored is kept"
        )


def recorded_reply(
    fingerprint: str, reply: Reply, *, latency_seconds: float, now: datetime
) -> Recorded:
    """An answer as it is recorded when its first attempt gave it."""
    return Recorded(
        request_fingerprint=fingerprint,
        raw_output=reply.text,
        reasoning=reply.reasoning,
        finish_reason=reply.finish_reason,
        failure=None,
        error=None,
        reported_model=reply.reported_model,
        system_fingerprint=reply.system_fingerprint,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
        reasoning_tokens=reply.reasoning_tokens,
        usage_json=reply.usage_json,
        cost_dollars=reply.cost_dollars,
        body=reply.body,
        warning=reply.warning,
        latency_seconds=latency_seconds,
        attempts=1,
        answered_at=now.isoformat(),
    )


def recorded_failure(
    fingerprint: str, failure: ResponseFailure, *, latency_seconds: float, now: datetime
) -> Recorded:
    """A failure as it is recorded when it is final: what came with it, but no answer."""
    came = failure.reply or Reply(text="")
    values: Mapping[str, Any] = {
        **{name: getattr(came, name) for name in _RESPONSE_COLUMNS if hasattr(came, name)},
        "request_fingerprint": fingerprint,
        "raw_output": None,
        "failure": failure.kind.value,
        "error": str(failure),
        "latency_seconds": latency_seconds,
        "attempts": 1,
        "answered_at": now.isoformat(),
    }
    return Recorded(**values)


@contextmanager
def _immediately(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One write transaction, which waits for its turn at its start and not half-way."""
    connection.execute("begin immediate")
    try:
        yield connection
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _attempt_values(attempt: Attempt) -> tuple[Any, ...]:
    values = {name: getattr(attempt, name) for name in _ATTEMPT_COLUMNS}
    values["started_at"] = attempt.started_at.isoformat()
    values["failure"] = None if attempt.failure is None else attempt.failure.value
    return tuple(values.values())


def _attempt_of(row: dict[str, Any]) -> Attempt:
    failure = None if row["failure"] is None else FailureKind(row["failure"])
    started_at = datetime.fromisoformat(row["started_at"]).astimezone(UTC)
    return Attempt(**{**row, "failure": failure, "started_at": started_at})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner(ProcessIdentity):
    """Who claims: a process, and which of its journals."""

    journal: str


def _is_dead(owner: str) -> bool:
    """Whether `owner` was a process that certainly no longer lives."""
    try:
        return _Owner.from_json(owner).is_dead
    except (TypeError, ValueError):
        return False  # written by another version: its lease runs out
