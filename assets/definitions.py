"""Assembly of the graph: the stages of each benchmark, and the results that all of them share."""

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import cast

import dagster as dg
from dagster import DagsterInvalidConfigError

from videomme_pipeline.assets.checkpoints import (
    checkpoint_job,
    checkpoint_sensor,
    checkpoints_asset,
    checkpoints_key,
)
from videomme_pipeline.assets.dagster_internals.events import EventBatch, output_without_event
from videomme_pipeline.assets.planning.freshness import newest_event, recorded_versions
from videomme_pipeline.assets.processes import recording_process
from videomme_pipeline.assets.race import race_job, races_asset, races_key
from videomme_pipeline.assets.stages.base import OWNERS, AnyStage, SharedStage, group_name
from videomme_pipeline.assets.stages.chain import all_stages, steps
from videomme_pipeline.assets.stages.checks import check_events, check_specs, unanswered
from videomme_pipeline.assets.stages.metadata import code_reference, column_schema
from videomme_pipeline.assets.stages.nightly import nightly_asset, nightly_key
from videomme_pipeline.assets.stages.refresh import DATA_VERSION_TAG, refresh
from videomme_pipeline.assets.step import (
    SERVERS,
    WORKERS,
    resources_of,
    servers_resource,
    within_step,
    workers_resource,
)
from videomme_pipeline.assets.triggers.automation import (
    automation_sensors,
    when_inputs_changed,
    when_results_changed,
)
from videomme_pipeline.assets.triggers.jobs import refresh_job
from videomme_pipeline.assets.triggers.recent import recent_checks, recent_sensors
from videomme_pipeline.assets.triggers.retention import retention_job
from videomme_pipeline.assets.triggers.schedules import nightly_job, schedules
from videomme_pipeline.assets.triggers.sensors import sensors
from videomme_pipeline.assets.triggers.up_to_date import up_to_date_check, up_to_date_sensor
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.checkpoints import read_training_runs
from videomme_pipeline.project.nightly.tracked import (
    NightlySpec,
    TrackedEvaluation,
    read_nightly,
    refused_files,
    tracked_evaluations,
)
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.project.runs.settings import IN_PROCESS, RUNS_FILE, RunsSpec
from videomme_pipeline.project.state.partitions import WHOLE
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

NO_VALUE = cast("dg.DagsterType", dg.Nothing)
"""The type of every output. Data is in the store, so outputs have no value and no I/O manager.
Dagster accepts the marker `Nothing`, although its signature requires a type."""


def build_definitions(
    project: Project, executor: dg.ExecutorDefinition = dg.in_process_executor
) -> dg.Definitions:
    """Assets, checks, jobs, schedules and sensors of a project."""
    stages = all_stages(project)
    keys = {stage.asset_key for stage in stages}
    nightly, tracked = _nightly_of(project)
    nightly_keys = [nightly_key(evaluation) for evaluation in tracked]
    nightly_jobs = nightly_job(tracked)
    has_training_runs = _has_training_runs(project)
    results = [
        *nightly_keys,
        *([checkpoints_key(project)] if has_training_runs else []),
        races_key(project),
    ]
    return dg.Definitions(
        assets=[
            *(_asset(stage, keys, results) for stage in stages),
            *(nightly_asset(evaluation) for evaluation in tracked),
            *([checkpoints_asset(project)] if has_training_runs else []),
            races_asset(project),
        ],
        jobs=[
            refresh_job(steps(project), project, executor),
            retention_job,
            *nightly_jobs,
            *([checkpoint_job(project)] if has_training_runs else []),
            race_job(project),
        ],
        schedules=schedules(nightly, nightly_jobs, tracked),
        sensors=[
            *automation_sensors(),
            *sensors(project),
            up_to_date_sensor(project),
            *recent_sensors(tracked),
            *([checkpoint_sensor(project)] if has_training_runs else []),
        ],
        asset_checks=[up_to_date_check(project), *recent_checks(tracked)],
        resources={SERVERS: servers_resource(project), WORKERS: workers_resource(project)},
        executor=executor,
    )


def _nightly_of(project: Project) -> tuple[NightlySpec, Sequence[TrackedEvaluation]]:
    """The settings of nightly runs. A `nightly.yaml` with mistakes tracks nothing."""
    try:
        return read_nightly(project.configuration), tracked_evaluations(project)
    except ConfigurationError:
        return NightlySpec(), []


def _has_training_runs(project: Project) -> bool:
    """True if `checkpoints.yaml` has entries. A file with mistakes counts as empty."""
    try:
        return bool(read_training_runs(project.configuration))
    except ConfigurationError:
        return False


def find_executor(spec: RunsSpec) -> dg.ExecutorDefinition:
    """The executor of `spec` with its configuration.

    Raises:
        ConfigurationError: if there is no such executor, its configuration has mistakes, or its
            processes could not share the limits of their run.
    """
    module, _, name = spec.executor.rpartition(".")
    try:
        executor = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{RUNS_FILE}: `executor: {spec.executor}` cannot be imported ({error}); install its "
            "package, or leave it out"
        ) from error
    if not isinstance(executor, dg.ExecutorDefinition):
        raise ConfigurationError(
            f"{RUNS_FILE}: `executor: {spec.executor}` is not a Dagster executor; use one such as "
            "dagster.multiprocess_executor"
        )
    if spec.executor != IN_PROCESS and not os.environ.get(POSTGRES_VARIABLE):
        raise ConfigurationError(
            f"{RUNS_FILE}: `executor: {spec.executor}` starts several processes per run, which "
            f"share their cost limit through PostgreSQL; set {POSTGRES_VARIABLE}"
        )
    executor = recording_process(executor)
    try:
        return executor.configured(spec.executor_config) if spec.executor_config else executor
    except DagsterInvalidConfigError as error:
        raise ConfigurationError(f"{RUNS_FILE}: `executor_config`: {error}") from error


def _asset(
    stage: AnyStage,
    stage_keys: set[dg.AssetKey],
    result_keys: Sequence[dg.AssetKey],
) -> dg.AssetsDefinition:
    """The asset of a stage, which calls `refresh` for the partitions of a run.

    The shared results also depend on `result_keys`, the assets of nightly runs, of checkpoints and
    of races.
    """
    partitions = stage.partitions_def
    is_result = isinstance(stage, SharedStage)
    deps = [dep for dep in stage.deps() if dep.asset_key in stage_keys]
    deps += [dg.AssetDep(key) for key in result_keys if is_result]
    metadata: dict[str, object] = {"dagster/code_references": code_reference(type(stage))}
    if stage.row_class:
        metadata["dagster/column_schema"] = column_schema(stage.row_class)

    @dg.asset(
        key=stage.asset_key,
        description=stage.description,
        group_name=group_name(f"{stage.project.runs.prefix}{stage.group}"),
        kinds=set(stage.kinds),
        tags={"stage": stage.name, "benchmark": group_name(stage.group)},
        owners=list(OWNERS),
        code_version=stage.code_version,
        partitions_def=partitions,
        backfill_policy=_backfill_policy(stage) if partitions else None,
        deps=deps,
        automation_condition=when_results_changed() if is_result else when_inputs_changed(),
        metadata=metadata,
        dagster_type=NO_VALUE,
        output_required=False,
        required_resource_keys=resources_of(stage),
        check_specs=check_specs(stage),
    )
    def compute(
        context: dg.AssetExecutionContext,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult | dg.Output[None]]:
        requested = (
            [stage.parse_partition(key) for key in context.partition_keys]
            if partitions
            else [WHOLE]
        )
        several = len(requested) > 1
        with within_step(stage.project, context, needs_machine=not stage.asks_models):
            stage.invalidate()
            recorded = recorded_versions(context.instance, stage)
            newest = newest_event(context.instance)
            failed_before = stage.failures.read()
            built = refresh(stage, requested, recorded, newest, report_fresh=True)
            if several:
                with EventBatch(context.op_execution_context) as events:
                    for event in built:
                        events.add(event)
            else:
                yield from map(_result, built)
        stage.update_partition_keys(context.instance)
        of_partitions, of_asset = check_events(stage, requested, failed_before)
        for evaluation in of_partitions:
            context.log_event(evaluation)
        yield from of_asset
        if several:
            yield output_without_event()
        if stage.asks_models and (reasons := [*unanswered(stage, requested)]):
            raise dg.Failure("; ".join(reasons), allow_retries=False)

    return compute


def _backfill_policy(stage: AnyStage) -> dg.BackfillPolicy:
    """One run for all partitions of a backfill, or several if `runs.yaml` splits the stage."""
    max_partitions = stage.project.runs.most_partitions(stage.name)
    if max_partitions is None:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(max_partitions)


def _result(event: dg.AssetMaterialization) -> dg.MaterializeResult[None]:
    """The event of a run with a single partition, as the result of its asset.

    A result has one data version for all partitions of a run. A run with several partitions
    therefore stores one event per partition, and yields an output without an event.
    """
    tags = event.tags or {}
    return dg.MaterializeResult(
        asset_key=event.asset_key,
        metadata=event.metadata,
        data_version=dg.DataVersion(tags[DATA_VERSION_TAG]),
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions that `workspace.yaml` loads: the project of the working directory."""
    project = open_project()
    problems = refused_files(project.configuration)
    try:
        read_training_runs(project.configuration)
    except ConfigurationError as error:
        problems.append(str(error))
    for problem in problems:
        dg.get_dagster_logger().warning(f"This file is not used: {problem}")
    return build_definitions(project, find_executor(project.runs))
