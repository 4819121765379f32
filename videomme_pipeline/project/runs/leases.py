"""Leases of work on videos, so that several machines with one database do it once."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar

from videomme_pipeline.errors import StorageError
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.journal_tables import JournalDatabase

LEASE_SECONDS = 60.0
"""A killed run on another machine keeps its leases for this time."""
_POLL_SECONDS = 1.0

Job = TypeVar("Job")


def leased(
    jobs: Mapping[Job, Sequence[str]],
    database: JournalDatabase,
    on_wait: Callable[[str], None],
) -> Iterator[list[Job]]:
    """Yield all jobs in groups, each of which no other run is working on.

    The values of `jobs` are the names of their results. The first group has the jobs that are free.
    The others follow as soon as other runs have done them or have ended, so their results may be
    stored by then.
    """
    pending = dict(jobs)
    with Journal(database, flushes_every_commit=False) as journal, _renewing(journal):
        while pending:
            names = [name for results in pending.values() for name in results]
            claimed = journal.claim(names, datetime.now(UTC), LEASE_SECONDS)
            free = [job for job, results in pending.items() if claimed.issuperset(results)]
            for job in free:
                claimed.difference_update(pending.pop(job))
            journal.release(claimed)  # other results of these jobs are built elsewhere
            if free:
                yield free
                journal.release(name for job in free for name in jobs[job])
                if pending:
                    on_wait(f"Waiting for {len(pending):,} videos that another run is working on")
            elif pending:
                time.sleep(_POLL_SECONDS)


@contextmanager
def _renewing(journal: Journal) -> Iterator[None]:
    """Renew the claims of `journal` during the block."""
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(LEASE_SECONDS / 3):
            with suppress(StorageError):  # then another run may repeat the work
                journal.renew_claims(datetime.now(UTC), LEASE_SECONDS)

    thread = threading.Thread(target=renew, name="leases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
