"""Stored findings of nightly runs, which the history on the results page shows."""

from videomme_pipeline.scoring.nightly.assess import Assessment, NightlyFinding
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows, write_rows


def write_findings(store: Store, benchmark: str, assessment: Assessment, fingerprint: str) -> None:
    """Store the findings of a nightly run under the fingerprint of its scores.

    Raises:
        StorageError: if the file cannot be written.
    """
    path = store.findings(benchmark, assessment.evaluation, assessment.date)
    write_rows(path, assessment.findings, NightlyFinding, fingerprint=fingerprint)


def read_findings(
    store: Store, benchmark: str, evaluation: str, date: str
) -> list[NightlyFinding] | None:
    """The stored findings of a nightly run, or None if the run was never assessed."""
    path = store.findings(benchmark, evaluation, date)
    return read_rows(path, NightlyFinding) if path.exists() else None
