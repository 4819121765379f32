"""Check results as events.

The UI shows a result in gray unless it refers to the newest materialization of its asset.
"""

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
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


def newest_evaluation(
    check: dg.AssetCheckKey, instance: dg.DagsterInstance
) -> dg.AssetCheckEvaluation | None:
    """The newest result of a check, or None if its asset was materialized since."""
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=1)
    shown = history[0].evaluation if history else None
    if not isinstance(shown, dg.AssetCheckEvaluation):
        return None
    newest = newest_materialization(check.asset_key, instance)
    targets = (
        target and target.storage_id for target in (shown.target_materialization_data, newest)
    )
    return shown if len(set(targets)) == 1 else None


def evaluation_of_newest(
    result: dg.AssetCheckResult, instance: dg.DagsterInstance
) -> dg.AssetCheckEvaluation:
    """The event of a check result about the newest materialization of its asset."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        metadata=result.metadata,
        description=result.description,
        target_materialization_data=newest_materialization(result.asset_key, instance),
    )
