"""The runner: brings partitions of one stage up to date and reports every result to Dagster.

Assets, the job `refresh_stale` and the job `report_stored` all call `run_stage`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import dagster as dg

from videomme_pipeline.assets.partitions import update_video_partitions
from videomme_pipeline.assets.reporter import ShownVersions, materialization, newest_event
from videomme_pipeline.assets.stages.checks import check_events
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.stages.refresh import NotSelected, Stored, refresh, show_scores
from videomme_pipeline.stages.stage import AnyStage, BuildResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChecks:
    """The check results after a run: of partitions that changed, and of the whole asset."""

    of_partitions: Sequence[dg.AssetCheckEvaluation] = field(default_factory=list)
    of_asset: Sequence[dg.AssetCheckResult] = field(default_factory=list)


def run_stage(  # noqa: PLR0913 - what the three callers differ in
    instance: dg.DagsterInstance,
    stage: AnyStage,
    requested: Sequence[Partition],
    report: Callable[[dg.AssetMaterialization], None],
    *,
    builds: bool = True,
    reports_all: bool = False,
) -> RunChecks:
    """Build the stale partitions among `requested`, and report them.

    Stored partitions are reported, too, if Dagster does not show them, or all with `reports_all`:
    a backfill counts a partition without an event as failed. Without `builds`, nothing is built.
    """
    stage.invalidate()
    stage.project.on_log = dg.get_dagster_logger().info
    shown = ShownVersions.of(instance, stage)
    newest = newest_event(instance)
    failed_before = stage.failures.reasons()
    for event in refresh(stage, requested, builds=builds):
        if (
            isinstance(event, Stored)
            and not reports_all
            and shown.has(event.target.partition, event.target.fingerprint)
        ):
            continue
        report(materialization(stage, event, newest))
        if not isinstance(event, NotSelected):
            is_built = isinstance(event, BuildResult)
            counted = stage.project.built if is_built else stage.project.registered
            counted[stage.label] += 1
    update_video_partitions(stage, instance)
    if stage.is_cited:
        show_scores(stage.project, [str(partition.variant) for partition in requested])
    of_partitions, of_asset = check_events(stage, requested, failed_before)
    return RunChecks(of_partitions=of_partitions, of_asset=of_asset)
