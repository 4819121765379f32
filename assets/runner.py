"""The runner: brings partitions of one stage up to date and reports every result to Dagster.

Assets, the job `refresh_stale` and the job `report_stored` all call `run_stage`.
"""

from collections.abc import Sequence

import dagster as dg

from videomme_pipeline.assets.dagster_internals.events import EventBatch
from videomme_pipeline.assets.partitions import update_video_partitions
from videomme_pipeline.assets.reporter import ShownVersions, materialization
from videomme_pipeline.assets.stages.checks import check_results
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.stages.refresh import NotSelected, refresh, show_scores
from videomme_pipeline.stages.stage import AnyStage, BuildResult, Target


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
    shown = ShownVersions.of(instance, stage)
    newest = instance.event_log_storage.get_maximum_record_id()
    with EventBatch(context) as events:
        for event in refresh(stage, requested, builds=builds):
            if (
                isinstance(event, Target)
                and not reports_all
                and shown.has(event.partition, event.fingerprint)
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
