"""Asset checks of every stage, shown beside it in the Dagster UI."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import dagster as dg

from assets.stages.base import AnyStage
from videomme_pipeline.project.partitions import Partition

COMPLETE = "complete"
LISTED_FAILURES = 200


def is_complete(stage: AnyStage) -> dg.AssetCheckResult:
    """The check that no partition of a stage failed at its last attempt; lists those that did."""
    failures = stage.failures.read()
    metadata: dict[str, Any] = {"failed": len(failures)}
    if failures:
        metadata["failures"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "partition": str(stage.key_of_partition(partition) or stage.name),
                        "reason": reason,
                    }
                )
                for partition, reason in sorted(failures.items(), key=lambda item: str(item[0]))
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
    stage: AnyStage, tried: Iterable[Partition], failed_before: Collection[Partition]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield a check per partition that failed now, or was built after it had failed.

    The result of a run over several partitions names none of them.
    """
    failures = stage.failures.read()
    for partition in tried:
        key = stage.key_of_partition(partition)
        if key is not None and (partition in failures or partition in failed_before):
            yield dg.AssetCheckEvaluation(
                asset_key=stage.asset_key,
                check_name=COMPLETE,
                passed=partition not in failures,
                partition=key,
                description=failures.get(partition, "built after it had failed"),
            )


def completeness_check(stage: AnyStage) -> dg.AssetCheckSpec:
    """The specification of the check that every asset run reports."""
    return dg.AssetCheckSpec(
        COMPLETE,
        asset=stage.asset_key,
        description="No partition failed at its last attempt; lists those that did.",
    )


def evaluation_of(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """The event of a check's result, for a run that is no asset run."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
    )
