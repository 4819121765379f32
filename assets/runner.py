"""The runner: brings partitions of one stage up to date and reports every result to Dagster.

Assets, the job `refresh_stale` and the job `report_stored` all call `run_stage`. Dagster shows and
triggers; it never decides. A partition is reported if Dagster has no event about it, shows it with
another data version, or shows its last attempt as failed. The data version is the fingerprint,
which contains the code version.
"""

from collections.abc import Sequence

import dagster as dg

from videomme_pipeline.assets.dagster_internals import EventBatch
from videomme_pipeline.assets.keys import asset_key, key_in, partition_key, update_video_partitions
from videomme_pipeline.assets.stages.checks import check_results
from videomme_pipeline.assets.stages.metadata import metadata_of, table_metadata
from videomme_pipeline.project.state.partitions import WHOLE, Partition
from videomme_pipeline.stages.refresh import NotSelected, RefreshEvent, refresh, show_scores
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage, BuildResult, Target

DATA_VERSION_TAG = "dagster/data_version"
USER_PROVIDED_TAG = "dagster/data_version_is_user_provided"
SEVERAL_PARENTS = "several"
"""Reported as input version of an asset in which a partition has more than one parent."""
NOT_SELECTED = "not-selected"
"""The data version of a partition that is not built, because the evaluation does not select its
video. The UI can request such a partition, and a backfill counts a partition without an event as
failed."""
INCOMPLETE = "-incomplete"
"""Ends the data version of a partition that lacks answers."""


def shown_versions(instance: dg.DagsterInstance, stage: AnyStage) -> dict[Partition, str]:
    """The data versions that Dagster shows, without partitions that it shows as failed."""
    key = asset_key(stage)
    if not isinstance(stage, BenchmarkStage) or not stage.stage.dimensions:
        event = instance.get_latest_materialization_event(key)
        materialization = event.asset_materialization if event else None
        tags = materialization.tags or {} if materialization else {}
        return {WHOLE: tags[DATA_VERSION_TAG]} if DATA_VERSION_TAG in tags else {}
    tagged = instance.event_log_storage.get_latest_tags_by_partition(
        key, event_type=dg.DagsterEventType.ASSET_MATERIALIZATION, tag_keys=[DATA_VERSION_TAG]
    )
    versions = {stage.parse_key(name): tags[DATA_VERSION_TAG] for name, tags in tagged.items()}
    failed = failed_attempts(instance, stage)
    return {partition: versions[partition] for partition in versions if partition not in failed}


def materialization(
    stage: AnyStage, event: RefreshEvent, newest: int | None
) -> dg.AssetMaterialization:
    """The event that reports a partition and the versions of its inputs to Dagster.

    `newest` is the id of the newest event when the build began. Dagster shows a partition as
    unsynced if a later event reports another data version of a parent.
    """
    if isinstance(event, NotSelected):
        return dg.AssetMaterialization(
            asset_key=asset_key(stage),
            partition=partition_key(stage, event.partition),
            tags={DATA_VERSION_TAG: NOT_SELECTED, USER_PROVIDED_TAG: "true"},
            metadata={"selected": False},
        )
    if isinstance(event, BuildResult):
        target, facts = event.target, event.facts
    else:
        target, facts = event, {**stage.facts(event), "already_stored": True}
    is_incomplete = isinstance(event, BuildResult) and event.incomplete
    tags = {
        DATA_VERSION_TAG: target.fingerprint + (INCOMPLETE if is_incomplete else ""),
        "dagster/code_version": stage.code_version,
        USER_PROVIDED_TAG: "true",
    }
    for label in stage.upstream:
        key = key_in(stage.project, label).to_user_string()
        version = target.inputs.get(label.rpartition("/")[2], SEVERAL_PARENTS)
        tags[f"dagster/input_data_version/{key}"] = version
        tags[f"dagster/input_event_pointer/{key}"] = "NULL" if newest is None else str(newest)
    return dg.AssetMaterialization(
        asset_key=asset_key(stage),
        partition=partition_key(stage, target.partition),
        tags=tags,
        metadata=metadata_of(facts) | table_metadata(stage, facts),
    )


def failed_attempts(instance: dg.DagsterInstance, stage: AnyStage) -> set[Partition]:
    """The partitions that Dagster shows as failed because a run that planned them has ended.

    After an interrupted run of a range, Dagster shows all partitions of the range as failed, even
    fresh ones.
    """
    storage = instance.event_log_storage
    attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        asset_key(stage)
    )
    if not attempts:
        return set()
    run_ids = list({run_id for run_id, _ in attempts.values()})
    runs = instance.get_runs(dg.RunsFilter(run_ids=run_ids))
    ended = {run.run_id for run in runs if run.is_finished}
    return {stage.parse_key(key) for key, (run_id, _) in attempts.items() if run_id in ended}


def run_stage(
    context: dg.OpExecutionContext,
    stage: AnyStage,
    requested: Sequence[Partition],
    *,
    builds: bool = True,
    reports_all: bool = False,
) -> Sequence[dg.AssetCheckResult]:
    """Build the stale partitions among `requested`, and report each one as an event.

    Stored partitions are reported, too, if Dagster does not show them, or all with `reports_all`: a
    backfill counts a partition without an event as failed. Returns the results of the checks.
    """
    project, instance = stage.project, context.instance
    stage.invalidate()
    project.on_log = dg.get_dagster_logger().info
    shown = shown_versions(instance, stage)
    newest = instance.event_log_storage.get_maximum_record_id()
    with EventBatch(context) as events:
        for event in refresh(stage, requested, builds=builds):
            if (
                isinstance(event, Target)
                and not reports_all
                and shown.get(event.partition) == event.fingerprint
            ):
                continue
            events.add(materialization(stage, event, newest))
            if not isinstance(event, NotSelected):
                is_built = isinstance(event, BuildResult) and not event.by_others
                counted = project.built if is_built else project.registered
                counted[stage.label] += 1
    update_video_partitions(stage, instance)
    if stage.is_cited:
        show_scores(project, [str(partition.variant) for partition in requested])
    return check_results(stage)
