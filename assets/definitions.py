"""Assembly of the graph: the stages of each benchmark, and the results that all of them share."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import dagster as dg

from assets.dagster_internals.events import output_without_event
from assets.planning.freshness import newest_event, recorded_versions
from assets.stages.base import DATA_VERSION_TAG, AnyStage, BenchmarkStage, SharedStage, refresh
from assets.stages.checks import check_events, check_specs
from assets.stages.frames import Frames
from assets.stages.nightly import nightly_asset, nightly_key
from assets.stages.prompts import Prompts
from assets.stages.questions import Questions
from assets.stages.reports import ReportPage
from assets.stages.responses import Responses
from assets.stages.scores import Scores
from assets.stages.subtitles import Subtitles
from assets.stages.videos import Videos
from assets.stages.warehouse import Warehouse
from assets.step import within_step
from assets.triggers.automation import automation_sensor, when_inputs_changed
from assets.triggers.jobs import refresh_job
from assets.triggers.retention import retention_job
from assets.triggers.schedules import leaderboard_freshness, nightly_job, schedules
from assets.triggers.sensors import results_after_nightly_runs, sensors
from videomme_pipeline.project.nightly import read_nightly, tracked_evaluations
from videomme_pipeline.project.partitions import WHOLE
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.rows import arrow_schema

CHAIN: tuple[type[BenchmarkStage[Any]], ...] = (
    Questions,
    Videos,
    Frames,
    Subtitles,
    Prompts,
    Responses,
    Scores,
)
"""The stages of a benchmark, in order."""

OWNERS = ("team:evaluation",)

NO_VALUE = cast("dg.DagsterType", dg.Nothing)
"""The type of every output. Data is in the store, so outputs have no value and no I/O manager.
Dagster accepts the marker `Nothing`, although its signature requires a type."""


def chain(project: Project, benchmark: str) -> list[BenchmarkStage[Any]]:
    """The stages of one benchmark, in order, without those that no evaluation needs."""
    stages = [stage(project, benchmark) for stage in CHAIN]
    return [
        stage
        for stage in stages
        if stage.variant_dimension is None or stage.graph.variants(stage.variant_dimension)
    ]


def steps(project: Project) -> dict[str, list[AnyStage]]:
    """Every stage of the project by name, upstream first."""
    by_name: dict[str, list[AnyStage]] = {stage.name: [] for stage in CHAIN}
    for benchmark in project.benchmarks:
        for stage in chain(project, benchmark):
            by_name[stage.name].append(stage)
    by_name |= {stage.name: [stage(project)] for stage in (Warehouse, ReportPage)}
    return {name: stages for name, stages in by_name.items() if stages}


def build_definitions(project: Project) -> dg.Definitions:
    """Assets, checks, jobs, schedules and sensors of a project."""
    by_step = steps(project)
    stages = [stage for members in by_step.values() for stage in members]
    keys = {stage.asset_key for stage in stages}
    nightly, tracked = read_nightly(project.configuration), tracked_evaluations(project)
    nightly_keys = [nightly_key(evaluation) for evaluation in tracked]
    refresh_stale, nightly_jobs = refresh_job(by_step, project), nightly_job(tracked)
    return dg.Definitions(
        assets=[
            *(
                _asset(stage, keys, nightly_keys, leaderboard_freshness(nightly), project)
                for stage in stages
            ),
            *(nightly_asset(evaluation) for evaluation in tracked),
        ],
        jobs=[refresh_stale, retention_job, *nightly_jobs],
        schedules=schedules(nightly, nightly_jobs),
        sensors=[
            automation_sensor(),
            *sensors(project),
            *results_after_nightly_runs(nightly, nightly_jobs, refresh_stale),
        ],
        executor=dg.in_process_executor,
    )


def _asset(
    stage: AnyStage,
    known: set[dg.AssetKey],
    nightly_keys: Sequence[dg.AssetKey],
    freshness: dg.FreshnessPolicy | None,
    project: Project,
) -> dg.AssetsDefinition:
    """The asset of a stage, which calls `refresh` for the partitions of a run.

    The shared results also depend on `nightly_keys`, the assets of nightly runs, and have a
    freshness policy.
    """
    partitions = stage.partitions_def
    is_result = isinstance(stage, SharedStage)
    deps = [dep for dep in stage.deps() if dep.asset_key in known]
    deps += [dg.AssetDep(key) for key in nightly_keys if is_result]
    schema = _column_schema(stage)

    @dg.asset(
        key=stage.asset_key,
        description=stage.description,
        group_name=stage.group,
        kinds=set(stage.kinds),
        owners=list(OWNERS),
        code_version=stage.code_version,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run() if partitions else None,
        deps=deps,
        freshness_policy=freshness if is_result else None,
        automation_condition=when_inputs_changed(),
        metadata={"dagster/column_schema": schema} if schema else None,
        dagster_type=NO_VALUE,
        output_required=False,
        check_specs=check_specs(stage),
    )
    def compute(
        context: dg.AssetExecutionContext,
    ) -> Iterator[
        dg.AssetMaterialization | dg.MaterializeResult[None] | dg.AssetCheckResult | dg.Output[None]
    ]:
        requested = (
            [stage.parse_partition(key) for key in context.partition_keys]
            if partitions
            else [WHOLE]
        )
        several = len(requested) > 1
        with within_step(project, context, needs_machine=stage.needs_machine):
            stage.invalidate()
            recorded = recorded_versions(context.instance, stage)
            newest = newest_event(context.instance)
            failed_before = stage.failures.read()
            for event in refresh(stage, requested, recorded, newest, report_fresh=True):
                yield event if several else _result(event)
        stage.update_partition_keys(context.instance)
        checks = check_events(stage, requested, failed_before)
        for evaluation in checks.partitions:
            context.log_event(evaluation)
        yield from checks.whole
        if several:
            yield output_without_event()

    return compute


def _result(event: dg.AssetMaterialization) -> dg.MaterializeResult[None]:
    """The event of a run with a single partition, as the result of its asset.

    A result has one data version for all partitions of a run. A run with several partitions
    therefore yields one event per partition, and an output without an event.
    """
    tags = event.tags or {}
    return dg.MaterializeResult(
        asset_key=event.asset_key,
        metadata=event.metadata,
        data_version=dg.DataVersion(tags[DATA_VERSION_TAG]),
    )


def _column_schema(stage: AnyStage) -> dg.TableSchema | None:
    if stage.row_class is None:
        return None
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field.name,
                str(field.type),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in arrow_schema(stage.row_class)
        ]
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions that `workspace.yaml` loads: the project of the working directory."""
    return build_definitions(open_project())
