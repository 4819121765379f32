"""Asset checks of every stage, for the Dagster UI."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import dagster as dg

from videomme_pipeline.assets.keys import asset_key, partition_key
from videomme_pipeline.assets.stages.metadata import table_of
from videomme_pipeline.errors import NotReadyError, Status, listed
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.scoring.findings.run import BLOCKED, CitationFinding
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage

COMPLETE = "complete"
CITATION = "citation"
LISTED_PARTITIONS = 200
_DESCRIPTIONS = {
    COMPLETE: "No partition failed at its last attempt. The metadata lists failures.",
    CITATION: "No score is blocked from being cited. The metadata lists what was found.",
}


def check_specs(stage: AnyStage) -> list[dg.AssetCheckSpec]:
    """The specifications of the checks that every run of an asset reports."""
    names = [COMPLETE, CITATION] if stage.is_cited else [COMPLETE]
    return [
        dg.AssetCheckSpec(name, asset=asset_key(stage), description=_DESCRIPTIONS[name])
        for name in names
    ]


def check_results(stage: AnyStage) -> list[dg.AssetCheckResult]:
    """The results of the checks after a run of a stage."""
    if not stage.is_cited:
        return [is_complete(stage)]
    from videomme_pipeline.warehouse.database import findings_of  # noqa: PLC0415 - DuckDB

    assert isinstance(stage, BenchmarkStage)
    findings = findings_of(stage.project.store, stage.benchmark.name)
    return [is_complete(stage), citation_result(stage, findings)]


def citation_result(stage: AnyStage, findings: Sequence[CitationFinding]) -> dg.AssetCheckResult:
    """The result of the citation check. It fails as an error only if a score is blocked."""
    problems = [
        f"{finding.evaluation}, {finding.check_name}: {finding.summary}"
        for finding in findings
        if finding.status != Status.OK
    ]
    blocked = any(finding.status == BLOCKED for finding in findings)
    records = [
        {
            "evaluation": finding.evaluation,
            "check": finding.check_name,
            "status": finding.status,
            "found": finding.summary,
            "what to do": finding.advice,
        }
        for finding in findings
    ]
    return dg.AssetCheckResult(
        passed=not problems,
        check_name=CITATION,
        asset_key=asset_key(stage),
        severity=dg.AssetCheckSeverity.ERROR if blocked else dg.AssetCheckSeverity.WARN,
        description="; ".join(problems) or None,
        metadata={"findings": table_of(records)} if records else {},
    )


def is_complete(stage: AnyStage) -> dg.AssetCheckResult:
    """The result of the completeness check, with a list of the failed partitions."""
    failures = stage.failures.reasons()
    with suppress(NotReadyError):  # before the first questions
        current = set(stage.partitions())
        failures = {p: reason for p, reason in failures.items() if p in current}
    metadata: dict[str, Any] = {"failed": len(failures)}
    by_reason: dict[str, list[str]] = defaultdict(list)
    for partition, reason in sorted(failures.items(), key=lambda item: str(item[0])):
        by_reason[reason].append(partition_key(stage, partition) or stage.name)
    if failures:
        metadata["failures"] = table_of(
            {"partitions": listed(names), "number": len(names), "reason": reason}
            for reason, names in [*by_reason.items()][:LISTED_PARTITIONS]
        )
    return dg.AssetCheckResult(
        passed=not failures,
        check_name=COMPLETE,
        asset_key=asset_key(stage),
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{len(failures)} failed: {listed(list(by_reason), 2)}" if failures else None,
        metadata=metadata,
    )


def unanswered(stage: AnyStage, requested: Iterable[Partition]) -> Iterator[str]:
    """Yield a sentence for each evaluation of which every requested partition failed."""
    failures = stage.failures.reasons()
    by_evaluation: dict[str | None, list[str | None]] = defaultdict(list)
    for partition in requested:
        by_evaluation[partition.variant].append(failures.get(partition))
    for evaluation, reasons in by_evaluation.items():
        if reasons and reasons[0] and all(reasons):
            yield f"{evaluation}: no video has all of its answers: {reasons[0]}"
