"""Asset checks of every stage, for the Dagster UI."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import dagster as dg

from videomme_pipeline.assets.dagster_internals.checks import evaluation_of
from videomme_pipeline.assets.stages.base import AnyStage
from videomme_pipeline.assets.stages.metadata import table_of
from videomme_pipeline.errors import NotReadyError, Status, listed
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.scoring.findings.run import BLOCKED, CitationFinding

COMPLETE = "complete"
CITATION = "citation"
LISTED_PARTITIONS = 200


def check_specs(stage: AnyStage) -> list[dg.AssetCheckSpec]:
    """The specifications of the checks that every run of an asset reports."""
    complete = dg.AssetCheckSpec(
        COMPLETE,
        asset=stage.asset_key,
        description="No partition failed at its last attempt. The metadata lists failures.",
    )
    citation = dg.AssetCheckSpec(
        CITATION,
        asset=stage.asset_key,
        description="No score is blocked from being cited. The metadata lists what was found.",
    )
    return [complete, *([citation] if stage.is_cited else [])]


def check_events(
    stage: AnyStage, attempted: Collection[Partition], failed_before: Mapping[Partition, str]
) -> tuple[Sequence[dg.AssetCheckEvaluation], Sequence[dg.AssetCheckResult]]:
    """The results per partition, and of the whole asset, after a run that attempted `attempted`."""
    partitions, whole = [*partition_checks(stage, attempted, failed_before)], [is_complete(stage)]
    if stage.is_cited:
        findings = stage.citation_findings()
        by_evaluation: dict[str | None, list[CitationFinding]] = defaultdict(list)
        for finding in findings:
            by_evaluation[finding.evaluation].append(finding)
        for partition in attempted:
            own = by_evaluation.get(partition.variant)
            if own:
                key = stage.key_of_partition(partition)
                partitions.append(evaluation_of(citation_result(stage, own), partition=key))
        whole.append(citation_result(stage, findings))
    return partitions, whole


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
        asset_key=stage.asset_key,
        severity=dg.AssetCheckSeverity.ERROR if blocked else dg.AssetCheckSeverity.WARN,
        description="; ".join(problems) or None,
        metadata={"findings": table_of(records)} if records else {},
    )


def is_complete(stage: AnyStage) -> dg.AssetCheckResult:
    """The result of the completeness check, with a list of the failed partitions."""
    failures = stage.failures.read()
    with suppress(NotReadyError):  # before the first questions
        current = set(stage.partitions())
        failures = {p: reason for p, reason in failures.items() if p in current}
    metadata: dict[str, Any] = {"failed": len(failures)}
    by_reason: dict[str, list[str]] = defaultdict(list)
    for partition, reason in sorted(failures.items(), key=lambda item: str(item[0])):
        by_reason[reason].append(stage.key_of_partition(partition) or stage.name)
    if failures:
        metadata["failures"] = table_of(
            {"partitions": listed(names), "number": len(names), "reason": reason}
            for reason, names in [*by_reason.items()][:LISTED_PARTITIONS]
        )
    return dg.AssetCheckResult(
        passed=not failures,
        check_name=COMPLETE,
        asset_key=stage.asset_key,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{len(failures)} failed: {listed(list(by_reason), 2)}" if failures else None,
        metadata=metadata,
    )


def unanswered(stage: AnyStage, requested: Iterable[Partition]) -> Iterator[str]:
    """Yield a sentence for each evaluation of which every requested partition failed."""
    failures = stage.failures.read()
    by_evaluation: dict[str | None, list[str | None]] = defaultdict(list)
    for partition in requested:
        by_evaluation[partition.variant].append(failures.get(partition))
    for evaluation, reasons in by_evaluation.items():
        if reasons and reasons[0] and all(reasons):
            yield f"{evaluation}: no video has all of its answers: {reasons[0]}"


def partition_checks(
    stage: AnyStage, attempted: Iterable[Partition], failed_before: Mapping[Partition, str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield a check result per partition that failed for a new reason, or no longer fails.

    If a run has several partitions, Dagster attaches the result that an asset returns to none of
    them. Check results cannot be stored in batches, so unchanged results are not stored again.
    """
    failures = stage.failures.read()
    for partition in attempted:
        key = stage.key_of_partition(partition)
        if key is not None and failures.get(partition) != failed_before.get(partition):
            yield dg.AssetCheckEvaluation(
                asset_key=stage.asset_key,
                check_name=COMPLETE,
                passed=partition not in failures,
                partition=key,
                description=failures.get(partition, "built after it had failed"),
            )
