"""Stored findings of nightly runs."""

from pathlib import Path

from tests.support.scored_rows import v1_evaluation
from videomme_pipeline.scoring.nightly.assess import assess, read_findings, write_findings
from videomme_pipeline.scoring.nightly.history import Observation
from videomme_pipeline.scoring.nightly.policy import RULE_VERSION, AlarmSpec
from videomme_pipeline.storage.layout import Store


def test_findings_are_stored_with_the_version_of_the_rules(tmp_path: Path) -> None:
    store, rows = Store.at(tmp_path), v1_evaluation(1)
    runs = [Observation(name=name, rows=rows) for name in ("reference", "2026-11-20")]
    assessment = assess(runs, AlarmSpec())
    write_findings(store, "videomme", assessment, "f")
    stored = read_findings(store, "videomme", "made-up", "2026-11-20")
    assert tuple(stored or ()) == assessment.findings
    assert {finding.rule_version for finding in assessment.findings} == {RULE_VERSION}


def test_a_nightly_run_that_was_never_assessed_has_no_findings(tmp_path: Path) -> None:
    assert read_findings(Store.at(tmp_path), "videomme", "made-up", "2026-11-20") is None
