"""Copies of a journal between SQLite and PostgreSQL."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.journal_rows import answer, attempt, committed, not_asked
from tests.support.postgres_server import drop_journal
from tests.support.projects import needs_postgres
from videomme_pipeline.errors import StorageError
from videomme_pipeline.models.video_llm import FailureKind
from videomme_pipeline.responses.journal import CopiedTable, Journal, copy_journal
from videomme_pipeline.responses.journal_databases import JournalDatabase, SqliteJournal
from videomme_pipeline.responses.journal_postgres import PostgresJournal

NAMES = [f"{number:03}" for number in range(600)]
"""More than one commit of a copy."""


@pytest.fixture
def source(tmp_path: Path) -> SqliteJournal:
    """A journal with a failed and a successful attempt at each request."""
    database = SqliteJournal(tmp_path / "journal.sqlite")
    with Journal(database, flushes_every_commit=False) as journal:
        for name in NAMES:
            failed = attempt(name, failure=FailureKind.MALFORMED, body="not\0text", status=500)
            journal.record(failed, None)
            last = journal.record(attempt(name), answer(name))
        committed(last)
    return database


def everything(database: JournalDatabase) -> tuple[object, ...]:
    with Journal(database) as journal:
        stored = journal.stored_responses(not_asked(name) for name in NAMES)
        return stored, journal.attempts(NAMES), journal.costs("test")


def test_a_copy_has_every_response_and_attempt(source: SqliteJournal, tmp_path: Path) -> None:
    target = SqliteJournal(tmp_path / "other.sqlite")
    assert copy_journal(source, target) == [
        CopiedTable(name="responses", copied=600, same=0, different=0),
        CopiedTable(name="attempts", copied=1200, same=0, different=0),
    ]
    assert everything(target) == everything(source)
    assert [table.copied for table in copy_journal(source, target)] == [0, 0]


def test_a_target_that_loses_a_response_is_noticed(source: SqliteJournal, tmp_path: Path) -> None:
    target = SqliteJournal(tmp_path / "other.sqlite")
    Journal(target).close()
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as connection:
        connection.execute(
            "create trigger lose before insert on responses "
            "when new.request_fingerprint like '%007%' begin select raise(ignore); end"
        )
    with pytest.raises(StorageError, match="1 rows of responses were not stored"):
        copy_journal(source, target)


@pytest.mark.slow
@needs_postgres
def test_a_journal_moves_to_postgres_and_back(
    source: SqliteJournal, tmp_path: Path, postgres_url: str
) -> None:
    drop_journal(postgres_url)
    there, back = PostgresJournal(postgres_url), SqliteJournal(tmp_path / "back.sqlite")
    copy_journal(source, there)
    assert everything(there) == everything(source)
    copy_journal(there, back)
    assert everything(back) == everything(source)


def test_a_target_keeps_its_own_responses(source: SqliteJournal, tmp_path: Path) -> None:
    target = SqliteJournal(tmp_path / "other.sqlite")
    with Journal(target) as journal:
        committed(journal.record(attempt("007", cost_dollars=9.0), answer("007", "C")))
    responses, attempts = copy_journal(source, target)
    assert (responses.copied, responses.different) == (599, 1)
    assert (attempts.copied, attempts.different) == (1200, 0)
    with Journal(target) as journal:
        assert journal.stored_responses([not_asked("007")]) == {"007": answer("007", "C")}


def test_a_copy_resumes_where_it_was_interrupted(source: SqliteJournal, tmp_path: Path) -> None:
    target = SqliteJournal(tmp_path / "other.sqlite")
    with Journal(target) as journal:
        for name in NAMES[:400]:
            last = journal.record(attempt(name), answer(name))
        committed(last)
    responses, attempts = copy_journal(source, target)
    assert (responses.copied, responses.same) == (200, 400)
    assert (attempts.copied, attempts.same) == (800, 400)


def test_a_journal_that_is_used_or_missing_is_not_copied(
    source: SqliteJournal, tmp_path: Path
) -> None:
    target = SqliteJournal(tmp_path / "other.sqlite")
    with Journal(source) as journal:
        journal.claim(["new"], datetime.now(UTC), 60)
        with pytest.raises(StorageError, match="a run is asking a model; copy when it has ended"):
            copy_journal(source, target)
    with pytest.raises(StorageError, match="no journal is there"):
        copy_journal(SqliteJournal(tmp_path / "missing"), target)
    assert not (tmp_path / "missing").exists()
