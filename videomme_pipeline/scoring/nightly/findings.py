"""Stored findings of nightly runs, which the history on the results page shows."""

from dataclasses import dataclass

from videomme_pipeline.scoring.nightly.assess import Assessment
from videomme_pipeline.scoring.nightly.policy import RULE_VERSION
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows, write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyFindingRow:
    """The stored result of one check of one nightly run.

    `rule_version` is the version of the rules that decided it.
    """

    check: str
    severity: str
    passed: bool
    is_new: bool
    summary: str
    rule_version: int


def write_findings(store: Store, benchmark: str, assessment: Assessment, fingerprint: str) -> None:
    """Store the findings of a nightly run under the fingerprint of its scores.

    Raises:
        StorageError: if the file cannot be written.
    """
    rows = [
        NightlyFindingRow(
            check=finding.check.value,
            severity=finding.severity.value,
            passed=finding.passed,
            is_new=finding.is_new,
            summary=finding.summary,
            rule_version=RULE_VERSION,
        )
        for finding in assessment.findings
    ]
    path = store.findings(benchmark, assessment.evaluation, assessment.date)
    write_rows(path, rows, NightlyFindingRow, fingerprint=fingerprint)


def read_findings(
    store: Store, benchmark: str, evaluation: str, date: str
) -> list[NightlyFindingRow] | None:
    """The stored findings of a nightly run, or None if the run was never assessed."""
    path = store.findings(benchmark, evaluation, date)
    return read_rows(path, NightlyFindingRow) if path.exists() else None
