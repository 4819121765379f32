"""The journal: stored answers, claims, and errors of the disk."""

import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.support.journal_rows import NOW, SERVED, answer, attempt, committed, not_asked
from tests.support.postgres_server import drop_journal
from tests.support.projects import needs_postgres
from videomme_pipeline.errors import StorageError, UnstorableError
from videomme_pipeline.models.video_llm import FailureKind, Reply, ResponseFailure, Usage
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.journal_databases import JournalDatabase, Session, SqliteJournal
from videomme_pipeline.responses.journal_postgres import PostgresJournal


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.slow, needs_postgres])]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> JournalDatabase:
    """An empty journal, once per kind of database."""
    if request.param == "sqlite":
        return SqliteJournal(tmp_path / "journal")
    url = request.getfixturevalue("postgres_url")
    drop_journal(url)
    return PostgresJournal(url)


def test_a_stored_answer_equals_the_received_one(database: JournalDatabase) -> None:
    with Journal(database) as journal:
        committed(journal.record(attempt("a"), answer("a")))
    with Journal(database) as journal:
        unanswered = [not_asked("a"), not_asked("b")]
        assert journal.stored_responses(unanswered) == {"a": answer("a")}
        assert journal.attempts(["a"]) == [attempt("a")]


def test_a_failure_is_stored_as_an_attempt_and_does_not_settle_the_request(
    database: JournalDatabase,
) -> None:
    failed = attempt("a", status=500, failure=FailureKind.SERVER_ERROR, error="HTTP 500")
    with Journal(database) as journal:
        committed(journal.record(failed, None))
        assert journal.settled(["a"]) == set()
        assert journal.attempts(["a"]) == [failed]


def test_a_refusal_settles_a_request_without_an_answer(database: JournalDatabase) -> None:
    reply = Reply(text="", usage=Usage(prompt_tokens=7))
    refusal = ResponseFailure(FailureKind.REFUSED, "no", reply=reply)
    with Journal(database) as journal:
        failed = not_asked("a").with_failure(refusal, SERVED)
        committed(journal.record(attempt("a", failure=FailureKind.REFUSED), failed))
        stored = journal.stored_responses([not_asked("a")])["a"]
    assert stored == failed
    assert (stored.raw_output, stored.failure) == (None, FailureKind.REFUSED)
    assert stored.usage.prompt_tokens == 7


def test_one_request_serves_every_evaluation_that_sends_it(database: JournalDatabase) -> None:
    with Journal(database) as journal:
        committed(journal.record(attempt("a"), answer("a")))
        stored = journal.stored_responses([not_asked("a", evaluation="other")])["a"]
    assert (stored.evaluation, stored.raw_output) == ("other", "B")


def test_a_body_is_stored_once(tmp_path: Path) -> None:
    failed = attempt("a", failure=FailureKind.MALFORMED, body="oops")
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(failed, None))
        committed(journal.record(attempt("a", body="B, I think"), answer("a")))
    with closing(sqlite3.connect(tmp_path / "journal")) as connection:
        bodies = connection.execute("select body from attempts order by rowid").fetchall()
        assert bodies == [("oops",), (None,)]
        assert connection.execute("select body from responses").fetchall() == [("B, I think",)]


def test_the_first_answer_is_never_replaced(database: JournalDatabase) -> None:
    with Journal(database) as journal:
        committed(journal.record(attempt("a"), answer("a", "B")))
        committed(journal.record(attempt("a"), answer("a", "C")))
        assert journal.stored_responses([not_asked("a")]) == {"a": answer("a", "B")}
        assert len(journal.attempts(["a"])) == 2


def test_costs_are_counted_per_attempt_under_the_name_of_the_evaluation(
    database: JournalDatabase,
) -> None:
    with Journal(database) as journal:
        committed(journal.record(attempt("a"), None))
        committed(journal.record(attempt("a"), answer("a")))
        committed(journal.record(attempt("b", evaluation="other"), answer("b")))
        assert journal.costs("test")[0] == 0.5
        assert journal.costs("none") == (0.0, None)


def test_a_claim_excludes_others_until_it_expires(database: JournalDatabase) -> None:
    with Journal(database) as first, Journal(database) as second:
        assert first.claim(["a", "b"], NOW, 60) == {"a", "b"}
        assert second.claim(["a", "b", "c"], NOW, 60) == {"c"}
        first.release(["b"])
        assert second.claim(["b"], NOW, 60) == {"b"}
        later = NOW + timedelta(seconds=61)
        first.renew_claims(NOW + timedelta(seconds=30), 60)
        assert second.claim(["a"], later, 60) == set()
        assert second.claim(["a"], later + timedelta(seconds=60), 60) == {"a"}


def test_claims_are_kept_in_a_block_and_its_errors_are_reported(
    database: JournalDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed, errors = threading.Event(), list[StorageError]()
    renew_claims = Journal.renew_claims

    def renew_and_fail(journal: Journal, now: datetime, seconds: float) -> None:
        renew_claims(journal, now, seconds)
        renewed.set()
        raise StorageError("the disk is full")

    monkeypatch.setattr(Journal, "renew_claims", renew_and_fail)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    with Journal(database) as first, Journal(database) as second:
        first.claim(["a"], yesterday, 60)
        with first.renewing_claims(0.03, errors.append):
            assert renewed.wait(30)
        assert second.claim(["a"], yesterday + timedelta(minutes=2), 60) == set()
    assert str(errors[0]) == "the disk is full"


def test_an_answered_request_cannot_be_claimed(database: JournalDatabase) -> None:
    with Journal(database) as first, Journal(database) as second:
        first.claim(["a"], NOW, 60)
        committed(first.record(attempt("a"), answer("a")))
        assert second.claim(["a"], NOW, 60) == set()


def test_closing_releases_claims(database: JournalDatabase) -> None:
    with Journal(database) as first:
        first.claim(["a"], NOW, 60)
    with Journal(database) as second:
        assert second.claim(["a"], NOW, 60) == {"a"}


def test_the_claims_of_a_dead_process_are_free(tmp_path: Path) -> None:
    code = (
        "import os, sys; from datetime import datetime, UTC; from pathlib import Path\n"
        "from videomme_pipeline.responses.journal import Journal\n"
        "Journal(Path(sys.argv[1])).claim(['a'], datetime(2026, 11, 21, 12, tzinfo=UTC), 1e9)\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "journal")], check=False)
    with Journal(tmp_path / "journal") as journal:
        assert journal.claim(["a"], NOW, 60) == {"a"}


@pytest.mark.parametrize("owner", ["", "someone", "a-b-c-d-e", "a-b-c-1-2.0.0-f"])
def test_a_claim_of_an_unknown_owner_ends_only_with_the_lease(tmp_path: Path, owner: str) -> None:
    path = tmp_path / "folder" / "within" / "journal"
    with Journal(path) as journal:
        with closing(sqlite3.connect(path)) as database, database:
            claim = ("a", owner, NOW.timestamp() + 60)
            database.execute("insert into claims values (?, ?, ?)", claim)
        assert journal.claim(["a"], NOW, 60) == set()
        assert journal.claim(["a"], NOW + timedelta(seconds=60), 60) == {"a"}


@pytest.fixture
def _tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is in the time zone of Tokyo."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_tokyo")
def test_times_are_stored_as_iso_text_with_their_zone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    zone = timezone(timedelta(hours=2))
    with Journal(path) as journal:
        committed(journal.record(attempt("a", started_at=NOW.astimezone(zone)), None))
        (stored,) = journal.attempts(["a"])
    assert (stored.started_at, stored.started_at.tzinfo) == (NOW, UTC)
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("select started_at from attempts").fetchall()
    assert rows == [("2026-11-21T14:00:00+02:00",)]


@pytest.mark.parametrize(("arguments", "level"), [({}, 2), ({"flushes_every_commit": False}, 1)])
def test_only_commits_of_answers_that_cost_money_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, bool], level: int
) -> None:
    """The levels are those of SQLite: 2 is full, 1 is normal. Claims never wait."""
    opened: list[Session] = []
    connect = SqliteJournal.connect

    def connect_and_keep(database: SqliteJournal, *, is_durable: bool) -> Session:
        opened.append(connect(database, is_durable=is_durable))
        return opened[-1]

    monkeypatch.setattr(SqliteJournal, "connect", connect_and_keep)
    with Journal(tmp_path / "journal", **arguments):
        levels = [session.execute("pragma synchronous")[0][0] for session in opened]
    assert levels == [1, level]


def test_the_thread_of_an_open_journal_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal"):
        assert [t.daemon for t in threading.enumerate() if t.name == "journal"] == [True]


def test_a_record_is_stored_even_if_the_caller_stops_waiting(database: JournalDatabase) -> None:
    with Journal(database) as journal:
        for number in range(50):
            journal.record(attempt(str(number)), answer(str(number))).cancel()
        committed(journal.record(attempt("last"), answer("last")))
        assert len(journal.settled([*map(str, range(50)), "last"])) == 51


def test_queued_records_share_a_commit(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        blocker = sqlite3.connect(tmp_path / "journal", isolation_level=None)
        blocker.execute("begin immediate")
        futures = [journal.record(attempt(str(n)), answer(str(n))) for n in range(100)]
        blocker.execute("commit")
        for item in futures:
            committed(item)
        size_before = (tmp_path / "journal-wal").stat().st_size
        committed(journal.record(attempt("one"), answer("one")))
        one_commit = (tmp_path / "journal-wal").stat().st_size - size_before
        blocker.close()
    assert size_before < 20 * one_commit


def test_a_record_that_cannot_be_written_raises_an_error(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(attempt("a"), answer("a")))
        other = sqlite3.connect(tmp_path / "journal")
        other.execute("drop table attempts")
        other.commit()
        other.close()
        with pytest.raises(StorageError, match="no such table: attempts"):
            journal.record(attempt("b"), answer("b")).result(timeout=10)
        assert journal.settled(["a", "b"]) == {"a"}


class Unknown:
    """A value that SQLite cannot store."""


@pytest.mark.parametrize(
    "usage_json",
    [Unknown(), ["a list"], 2**63, "lone surrogate \ud800"],
    ids=lambda v: str(type(v)),
)
@pytest.mark.parametrize("count", [1, 20])
def test_a_value_that_cannot_be_stored_fails_only_its_own_record(
    tmp_path: Path, usage_json: object, count: int
) -> None:
    names = [str(number) for number in range(count)]
    with Journal(tmp_path / "journal") as journal:
        blocker = sqlite3.connect(tmp_path / "journal", isolation_level=None)
        blocker.execute("begin immediate")
        first = journal.record(attempt("first"), answer("first"))
        time.sleep(0.1)  # its commit waits for the blocker, and all others share the next one
        odd = journal.record(attempt("odd", usage_json=usage_json), answer("odd"))
        others = [journal.record(attempt(name), answer(name)) for name in names]
        blocker.execute("commit")
        blocker.close()
        with pytest.raises(UnstorableError, match="cannot store a value"):
            odd.result(timeout=10)
        for record in (first, *others):
            committed(record)
        assert journal.settled(["odd", *names]) == set(names)


def test_records_are_stored_again_after_a_disk_was_full(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        committed(journal.record(attempt("a"), answer("a")))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (tmp_path / "journal-wal").stat().st_size
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
            with pytest.raises(StorageError, match="free some space"):
                journal.record(attempt("b"), answer("b" * 10_000)).result(timeout=10)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        committed(journal.record(attempt("b"), answer("b")))
        assert journal.settled(["a", "b"]) == {"a", "b"}
