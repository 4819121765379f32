"""Asset checks: what must hold of each stage, shown beside it in the Dagster UI."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import dagster as dg

from assets.partitions import Cell
from assets.stages.base import Stage

COMPLETE = "complete"
LISTED_FAILURES = 200


def is_complete(stage: Stage) -> dg.AssetCheckResult:
    """Whether no partition of a stage failed when it was last tried; else which, and why."""
    failures = stage.failures.read()
    metadata: dict[str, Any] = {"failed": len(failures)}
    if failures:
        metadata["failures"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {"partition": str(stage.partition_key(cell) or stage.name), "reason": reason}
                )
                for cell, reason in sorted(failures.items(), key=lambda item: str(item[0]))
            ][:LISTED_FAILURES]
        )
    return dg.AssetCheckResult(
        passed=not failures,
        check_name=COMPLETE,
        asset_key=stage.asset_key,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=metadata,
    )


def partition_checks(
    stage: Stage, tried: Iterable[Cell], failed_before: Collection[Cell]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Of each partition that failed now, and of each that was made after it had failed.

    A run over several partitions has one result of its own, which names none of them.
    """
    failures = stage.failures.read()
    for cell in tried:
        partition = stage.partition_key(cell)
        if partition is not None and (cell in failures or cell in failed_before):
            yield dg.AssetCheckEvaluation(
                asset_key=stage.asset_key,
                check_name=COMPLETE,
                passed=cell not in failures,
                partition=partition,
                description=failures.get(cell, "made after it had failed"),
            )


def completeness_check(stage: Stage) -> dg.AssetCheckSpec:
    """The check that an asset run reports with its partitions."""
    return dg.AssetCheckSpec(
        COMPLETE,
        asset=stage.asset_key,
        description="No partition failed when it was last tried; those that did are listed.",
    )


def evaluation_of(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A check's result as the event that a run which is no asset run reports."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
    )
