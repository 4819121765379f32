"""Stored findings of nightly runs."""

from dataclasses import dataclass
from pathlib import Path

from tests.support.scored_rows import v1_evaluation
from videomme_pipeline.scoring.nightly.assess import assess
from videomme_pipeline.scoring.nightly.findings import read_findings, write_findings
from videomme_pipeline.scoring.nightly.observation import Observation
from videomme_pipeline.scoring.nightly.policy import RULE_VERSION, AlarmSpec
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingOfVersion1:
    """The columns of a finding before the version of the rules was stored."""

    check: str
    severity: str
    passed: bool
    is_new: bool
    summary: str


def test_findings_are_stored_with_the_version_of_the_rules(tmp_path: Path) -> None:
    store, rows = Store.at(tmp_path), v1_evaluation(1)
    runs = [Observation(name=name, rows=rows) for name in ("baseline", "2026-11-20")]
    write_findings(store, "videomme", assess(runs, AlarmSpec()), "f")
    found = read_findings(store, "videomme", "made-up", "2026-11-20")
    assert found
    assert {finding.rule_version for finding in found} == {RULE_VERSION}


def test_a_nightly_run_that_was_never_assessed_has_no_findings(tmp_path: Path) -> None:
    assert read_findings(Store.at(tmp_path), "videomme", "made-up", "2026-11-20") is None


def test_findings_of_version_1_are_still_read(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    path = store.findings("videomme", "old", "2026-11-20")
    old = FindingOfVersion1(
        check="accuracy", severity="error", passed=False, is_new=True, summary="lower"
    )
    write_rows(path, [old], FindingOfVersion1, fingerprint="f")
    (found,) = read_findings(store, "videomme", "old", "2026-11-20") or []
    assert (found.summary, found.rule_version) == ("lower", 1)
