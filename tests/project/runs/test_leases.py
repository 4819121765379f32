"""Leases: several runs share the videos of one evaluation in groups, and each is done once."""

from pathlib import Path

import pytest

from videomme_pipeline.project.runs import journal
from videomme_pipeline.project.runs.journal import MIN_GROUP, leased
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.responses.journal_databases import SqliteJournal

JOBS = {number: (f"frames {number}",) for number in range(3 * MIN_GROUP)}


def test_two_runs_share_the_jobs_in_groups(tmp_path: Path) -> None:
    database = SqliteJournal(tmp_path / "journal.sqlite")
    first, second = (leased(JOBS, database, ignore) for _ in range(2))
    groups = [next(first), next(second), next(first)]
    assert [number for group in groups for number in group] == list(JOBS)
    assert [len(group) for group in groups] == [MIN_GROUP] * 3


def test_jobs_of_another_run_follow_once_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_POLL_SECONDS", 0.01)
    database = SqliteJournal(tmp_path / "journal.sqlite")
    messages: list[str] = []

    def end_other(message: str) -> None:
        messages.append(message)
        other.close()

    other = leased(JOBS, database, ignore)
    first_group = next(other)
    rest = [number for group in leased(JOBS, database, end_other) for number in group]
    assert rest == [*range(len(first_group), len(JOBS)), *first_group]
    assert messages == [f"Waiting for videos that another run is working on: {len(first_group)}"]


def test_groups_are_larger_with_more_tasks_at_the_same_time(tmp_path: Path) -> None:
    database = SqliteJournal(tmp_path / "journal.sqlite")
    assert next(leased(JOBS, database, ignore, lambda: MIN_GROUP)) == list(JOBS)
