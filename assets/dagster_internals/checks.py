"""Check results as events.

The UI shows a result in gray unless it refers to the newest materialization of its asset.
"""

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)


def evaluation_of(
    result: dg.AssetCheckResult,
    *,
    partition: str | None = None,
    target: AssetCheckEvaluationTargetMaterializationData | None = None,
) -> dg.AssetCheckEvaluation:
    """The event of a check result about one partition, or about a materialization of its asset."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
        description=result.description,
        partition=partition,
        target_materialization_data=target,
    )


def newest_materialization(
    key: dg.AssetKey, instance: dg.DagsterInstance
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """The newest materialization of an asset as the target of a check, or None."""
    for record in instance.fetch_materializations(key, limit=1).records:
        return AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
    return None
