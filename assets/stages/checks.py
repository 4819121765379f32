"""Asset checks of every stage, for the Dagster UI."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import dagster as dg

from assets.stages.base import AnyStage
from videomme_pipeline.project.partitions import Partition

COMPLETE = "complete"
LISTED_FAILURES = 200


def is_complete(stage: AnyStage) -> dg.AssetCheckResult:
    """The result of the completeness check, with a list of the failed partitions."""
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
    stage: AnyStage, attempted: Iterable[Partition], failed_before: Collection[Partition]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield a check result per partition that failed, or was built after it had failed.

    Dagster attaches the result that an asset returns to no partition if a run has several.
    """
    failures = stage.failures.read()
    for partition in attempted:
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
    """The specification of the check that every run of an asset reports."""
    return dg.AssetCheckSpec(
        COMPLETE,
        asset=stage.asset_key,
        description="No partition failed at its last attempt. The metadata lists failures.",
    )


def evaluation_of(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """The event of a check result, for a run that does not materialize assets itself."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
    )
