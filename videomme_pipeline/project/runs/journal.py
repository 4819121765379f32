"""The journal of a project, in PostgreSQL or an SQLite file, and the leases of videos in it."""

import os
import shlex
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.responses.journal import CopiedTable, Journal, copy_journal
from videomme_pipeline.responses.journal_databases import JournalDatabase, SqliteJournal
from videomme_pipeline.responses.journal_postgres import PostgresJournal
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.objects import listing
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

COPIED = ".copied"
"""The suffix of the SQLite file of a journal whose rows were copied to PostgreSQL."""
LEASE_SECONDS = 60.0
"""A killed run on another machine keeps its leases for this time."""
MIN_GROUP = 24
"""Jobs of one group, if there are so many."""
_POLL_SECONDS = 1.0
Job = TypeVar("Job")


def journal_of(store: Store) -> JournalDatabase:
    """The journal of the project with this store. Raises StorageError if its folder is unreadable.

    Raises ConfigurationError if the project has a journal with paid answers elsewhere.
    """
    file, target = store.journal, _place(store)
    copied = file.with_name(file.name + COPIED)
    with listing(file.parent):
        is_here, is_copied = file.exists(), copied.exists()
    if target.is_shared and is_here:
        raise ConfigurationError(
            f"{file}: the journal contains paid answers, but {POSTGRES_VARIABLE} is set, so it "
            f"belongs into PostgreSQL; run `videomme cache journal {shlex.quote(str(file))}`, "
            "which copies and verifies it"
        )
    if not target.is_shared and is_copied and not is_here:
        raise ConfigurationError(
            f"{copied}: the journal was copied to PostgreSQL, but {POSTGRES_VARIABLE} is not set; "
            "set it, or copy the journal back with `videomme cache journal URL`"
        )
    return target


def copy_into(store: Store, source: str) -> list[CopiedTable]:
    """Copy the journal `source`, a file or a URL, into the journal of the project with this store.

    A file is renamed afterwards, so that no run uses it. Raises StorageError as `copy_journal`, and
    ConfigurationError if `source` is the journal of the project.
    """
    target = _place(store)
    origin = PostgresJournal(source) if "://" in source else SqliteJournal(Path(source).resolve())
    if origin == target:
        raise ConfigurationError(
            f"{origin.title}: this is the journal of the project already; to move it to "
            f"PostgreSQL, set {POSTGRES_VARIABLE}"
        )
    copied = copy_journal(origin, target)
    if isinstance(origin, SqliteJournal):
        origin.path.rename(origin.path.with_name(origin.path.name + COPIED))
    return copied


def _place(store: Store) -> JournalDatabase:
    url = os.environ.get(POSTGRES_VARIABLE)
    return PostgresJournal(url) if url else SqliteJournal(store.journal.resolve())


def leased(
    jobs: Mapping[Job, Sequence[str]],
    database: JournalDatabase,
    on_wait: Callable[[str], None],
    tasks: Callable[[], int] = lambda: 1,
) -> Generator[list[Job]]:
    """Yield all jobs in groups, each of which no other run is working on.

    The values of `jobs` are the names of their results. A group has some dozens of jobs, so that
    several runs share them, or four times as many as this run has `tasks` at once. Jobs of other
    runs follow when those have ended or done them, so their results may be stored by then.
    """
    pending = dict(jobs)
    with (
        Journal(database, flushes_every_commit=False) as journal,
        journal.renewing_claims(LEASE_SECONDS, ignore),  # after an error, work may be repeated
    ):
        while pending:
            if free := _claim_group(list(pending), jobs, journal, max(MIN_GROUP, 4 * tasks())):
                yield free
                journal.release(name for job in free for name in jobs[job])
                for job in free:
                    del pending[job]
            else:
                on_wait(f"Waiting for videos that another run is working on: {len(pending):,}")
                time.sleep(_POLL_SECONDS)


def _claim_group(
    pending: Sequence[Job], jobs: Mapping[Job, Sequence[str]], journal: Journal, most: int
) -> list[Job]:
    for start in range(0, len(pending), most):
        group = pending[start : start + most]
        names = [name for job in group for name in jobs[job]]
        claimed = journal.claim(names, datetime.now(UTC), LEASE_SECONDS)
        free = [job for job in group if claimed.issuperset(jobs[job])]
        # Other results of a job that is not free are built elsewhere.
        journal.release(claimed.difference(name for job in free for name in jobs[job]))
        if free:
            return free
    return []
