"""Removal of old runs and their events.

The latest materialization of a partition records the versions of its inputs, so the run that
contains it is kept regardless of its age. Dagster itself removes old ticks (dagster.yaml).
"""

from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import Field

from videomme_pipeline.assets.processes import recording_process

_AT_A_TIME = 200


class Retention(dg.Config):
    """Configuration of the removal: the age of runs in days."""

    keep_days: int = Field(default=90, ge=1)


def remove_old_runs(instance: dg.DagsterInstance, before: datetime) -> list[str]:
    """Remove finished old runs that contain no latest materialization, and return their ids."""
    needed = _runs_with_latest_materializations(instance)
    records = instance.get_run_records(dg.RunsFilter(created_before=before))
    runs = [record.dagster_run for record in records]
    old = [run.run_id for run in runs if run.is_finished and run.run_id not in needed]
    for run_id in old:
        instance.delete_run(run_id)
    return old


def _runs_with_latest_materializations(instance: dg.DagsterInstance) -> set[str]:
    """The ids of the runs that contain the latest materialization of at least one partition."""
    needed = set[str]()
    for key in instance.all_asset_keys():
        latest = instance.get_latest_materialization_event(key)
        if latest is not None:
            needed.add(latest.run_id)
        by_partition = instance.event_log_storage.get_latest_storage_id_by_partition(
            key, dg.DagsterEventType.ASSET_MATERIALIZATION
        )
        ids = list(by_partition.values())
        for start in range(0, len(ids), _AT_A_TIME):
            filters = dg.AssetRecordsFilter(
                asset_key=key, storage_ids=ids[start : start + _AT_A_TIME]
            )
            materializations = instance.fetch_materializations(filters, limit=_AT_A_TIME)
            needed.update(record.run_id for record in materializations.records)
    return needed


@dg.op
def remove_runs(context: dg.OpExecutionContext, config: Retention) -> None:
    """Remove the runs that are older than `keep_days`."""
    before = datetime.now(UTC) - timedelta(days=config.keep_days)
    removed = remove_old_runs(context.instance, before)
    context.log.info(f"removed {len(removed)} runs older than {before:%Y-%m-%d}")


@dg.job(
    description="Remove old runs and their events, except those that partitions still need.",
    executor_def=recording_process(dg.in_process_executor),
)
def retention_job() -> None:
    """Remove old runs in one step."""
    remove_runs()
