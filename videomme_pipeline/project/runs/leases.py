"""Leases of work on videos, so that several machines with one database do it once."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.journal_databases import JournalDatabase

LEASE_SECONDS = 60.0
"""A killed run on another machine keeps its leases for this time."""
MIN_GROUP = 24
"""Jobs of one group, if there are so many."""
_POLL_SECONDS = 1.0

Job = TypeVar("Job")


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
