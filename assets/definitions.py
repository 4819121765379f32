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
from videomme_pipeline.assets.keys import OWNERS, asset_key, group_name, key_in
from videomme_pipeline.assets.partitions import partitions_of
from videomme_pipeline.assets.processes import recording_process
from videomme_pipeline.assets.race import race_job, races_asset, races_key
from videomme_pipeline.assets.reporter import DATA_VERSION_TAG
from videomme_pipeline.assets.runner import run_stage
from videomme_pipeline.assets.stages.checks import check_specs, unanswered
from videomme_pipeline.assets.stages.metadata import code_reference, column_schema
from videomme_pipeline.assets.stages.nightly import nightly_asset, nightly_key
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
from videomme_pipeline.assets.triggers.jobs import refresh_job, report_job
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
from videomme_pipeline.stages.chain import all_stages, chain, steps
from videomme_pipeline.stages.plan import upstream_of
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage, SharedStage
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

NO_VALUE = cast("dg.DagsterType", dg.Nothing)
"""The type of every output. Data is in the store, so outputs have no value and no I/O manager.
Dagster accepts the marker `Nothing`, although its signature requires a type."""


def build_definitions(
    project: Project, executor: dg.ExecutorDefinition = dg.in_process_executor
) -> dg.Definitions:
    """Assets, checks, jobs, schedules and sensors of a project."""
    stages = all_stages(project)
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
            *(_asset(stage, results) for stage in stages),
            *(nightly_asset(evaluation) for evaluation in tracked),
            *([checkpoints_asset(project)] if has_training_runs else []),
            races_asset(project),
        ],
        jobs=[
            refresh_job(steps(project), project, executor),
            report_job(project),
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


def _asset(stage: AnyStage, result_keys: Sequence[dg.AssetKey]) -> dg.AssetsDefinition:
    """The asset of a stage, which runs the stage for the partitions of a run.

    The shared results also depend on `result_keys`, the assets of nightly runs, of checkpoints and
    of races.
    """
    is_result = not isinstance(stage, BenchmarkStage)
    partitions: dg.PartitionsDefinition[str] | None = None
    metadata: dict[str, object] = {}
    kinds = stage.kinds if isinstance(stage, SharedStage) else stage.stage.kinds
    description = stage.description if isinstance(stage, SharedStage) else stage.stage.description
    if isinstance(stage, BenchmarkStage):
        partitions = partitions_of(stage).definition(stage.stage.dimensions)
        metadata["dagster/column_schema"] = column_schema(stage.stage.row_class)
        metadata["dagster/code_references"] = code_reference(stage.stage.build)
    else:
        metadata["dagster/code_references"] = code_reference(type(stage))

    @dg.asset(
        key=asset_key(stage),
        description=description,
        group_name=group_name(f"{stage.project.runs.prefix}{stage.group}"),
        kinds=set(kinds),
        tags={"stage": stage.name, "benchmark": group_name(stage.group)},
        owners=list(OWNERS),
        code_version=stage.code_version,
        partitions_def=partitions,
        backfill_policy=_backfill_policy(stage) if partitions else None,
        deps=[*_deps(stage), *(dg.AssetDep(key) for key in result_keys if is_result)],
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
            [stage.parse_key(key) for key in context.partition_keys] if partitions else [WHOLE]
        )
        several = len(requested) > 1
        single: list[dg.AssetMaterialization] = []
        with (
            within_step(stage.project, context, needs_machine=not stage.asks_models),
            EventBatch(context.op_execution_context) as events,
        ):
            report = events.add if several else single.append
            checks = run_stage(context.instance, stage, requested, report, reports_all=True)
        yield from map(_result, single)
        for evaluation in checks.of_partitions:
            context.log_event(evaluation)
        yield from checks.of_asset
        if several:
            yield output_without_event()
        if stage.asks_models and (reasons := [*unanswered(stage, requested)]):
            raise dg.Failure("; ".join(reasons), allow_retries=False)

    return compute


def _deps(stage: AnyStage) -> list[dg.AssetDep]:
    """The assets upstream of a stage, with the mappings to parent partitions."""
    if not isinstance(stage, BenchmarkStage):
        return [dg.AssetDep(key_in(stage.project, label)) for label in upstream_of(stage)]
    upstream = [
        other
        for other in chain(stage.project, stage.benchmark.name)
        if other.label in stage.upstream
    ]
    return [
        dg.AssetDep(
            asset_key(other),
            partition_mapping=partitions_of(stage).mapping(
                other.stage.dimensions, stage.stage.dimensions
            ),
        )
        for other in upstream
    ]


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
