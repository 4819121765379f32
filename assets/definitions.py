"""Assembly of the graph: the stages of each benchmark, and the results that all of them share."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

import dagster as dg

from videomme_pipeline.assets.checkpoints import checkpoint_definitions, checkpoints_key
from videomme_pipeline.assets.dagster_internals import output_without_event
from videomme_pipeline.assets.keys import asset_key, group_name, key_in, parents_of, partitions_of
from videomme_pipeline.assets.processes import recording_process
from videomme_pipeline.assets.race import race_job
from videomme_pipeline.assets.runner import run_stage
from videomme_pipeline.assets.stages.checks import check_specs, unanswered
from videomme_pipeline.assets.stages.metadata import TABLES, column_schema
from videomme_pipeline.assets.stages.nightly import nightly_definitions, nightly_key
from videomme_pipeline.assets.step import resources_of, run_resources, within_step
from videomme_pipeline.assets.triggers import sensors
from videomme_pipeline.assets.triggers.jobs import refresh_job, report_job
from videomme_pipeline.assets.triggers.up_to_date import up_to_date_check, up_to_date_sensor
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.checkpoints import read_training_runs
from videomme_pipeline.project.nightly.tracked import (
    TrackedEvaluation,
    refused_files,
    tracked_evaluations,
)
from videomme_pipeline.project.project import PAGE_VARIABLE, Project, open_project
from videomme_pipeline.project.state.partitions import WHOLE
from videomme_pipeline.stages.chain import all_stages, chain
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage

NO_VALUE = cast("dg.DagsterType", dg.Nothing)
"""The type of every output. Data is in the store, so outputs have no value and no I/O manager.
Dagster accepts the marker `Nothing`, although its signature requires a type."""


def build_definitions(project: Project) -> dg.Definitions:
    """Assets, checks, jobs, schedules and sensors of a project."""
    tracked, parts = list[TrackedEvaluation](), list[dg.Definitions]()
    with suppress(ConfigurationError):  # a `nightly.yaml` with mistakes tracks nothing
        tracked = tracked_evaluations(project)
    results = [*map(nightly_key, tracked)]
    if tracked:
        parts.append(nightly_definitions(tracked))
    with suppress(ConfigurationError):  # a `checkpoints.yaml` with mistakes counts as empty
        if read_training_runs(project.configuration):
            results.append(checkpoints_key(project))
            parts.append(checkpoint_definitions(project))
    stages = dg.Definitions(
        assets=[_asset(stage, results) for stage in all_stages(project)],
        jobs=[refresh_job(project), report_job(project), race_job(project)],
        sensors=[
            sensors.results_sensor(),
            sensors.run_failures_sensor(project.runs.prefix),
            up_to_date_sensor(project, tracked),
        ],
        asset_checks=[up_to_date_check(project)],
        resources=run_resources(project),
        executor=recording_process(dg.in_process_executor),
    )
    return dg.Definitions.merge(stages, *parts)


def _asset(stage: AnyStage, result_keys: Sequence[dg.AssetKey]) -> dg.AssetsDefinition:
    """The asset of a stage. Shared results also depend on the assets `result_keys`."""
    described = stage.stage if isinstance(stage, BenchmarkStage) else stage
    is_result = described is stage
    partitions: dg.PartitionsDefinition[str] | None = None
    metadata: dict[str, object] = {}
    if stage.name in TABLES:
        metadata["dagster/table_name"] = TABLES[stage.name]
    if isinstance(stage, BenchmarkStage):
        partitions = partitions_of(stage)
        # Dagster shows its own key above all other metadata, and the accuracy would be below it.
        key = "columns" if stage.name == "scores" else "dagster/column_schema"
        metadata[key] = column_schema(stage.stage.row_class)
    elif stage.name == "report_page" and (page := os.environ.get(PAGE_VARIABLE)):
        metadata["page"] = dg.MetadataValue.url(page)

    @dg.asset(
        key=asset_key(stage),
        description=described.description,
        group_name=group_name(f"{stage.project.runs.prefix}{stage.group}"),
        kinds=set(described.kinds),
        tags={"stage": stage.name, "benchmark": group_name(stage.group)},
        code_version=stage.code_version,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run() if partitions else None,
        deps=[*_deps(stage), *(dg.AssetDep(key) for key in result_keys if is_result)],
        automation_condition=sensors.when_results_changed() if is_result else None,
        metadata=metadata,
        dagster_type=NO_VALUE,
        output_required=False,
        required_resource_keys=resources_of(stage),
        check_specs=check_specs(stage),
    )
    def compute(
        context: dg.AssetExecutionContext,
    ) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
        requested = (
            [stage.parse_key(key) for key in context.partition_keys] if partitions else [WHOLE]
        )
        with within_step(stage.project, context, needs_machine=not stage.asks_models):
            checks = run_stage(context.op_execution_context, stage, requested, reports_all=True)
        yield from checks
        yield output_without_event()
        if stage.asks_models and (reasons := [*unanswered(stage, requested)]):
            raise dg.Failure("; ".join(reasons), allow_retries=False)

    return compute


def _deps(stage: AnyStage) -> list[dg.AssetDep]:
    if not isinstance(stage, BenchmarkStage):
        return [dg.AssetDep(key_in(stage.project, label)) for label in stage.upstream]
    return [
        dg.AssetDep(asset_key(other), partition_mapping=parents_of(stage, other))
        for other in chain(stage.project, stage.benchmark.name)
        if other.label in stage.upstream
    ]


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
    return build_definitions(project)


class EvaluationComponent(dg.Component, dg.Model, dg.Resolvable):
    """A project as a Dagster component (`type: videomme_pipeline.EvaluationComponent`).

    `configuration` and `data` are folders relative to that of `defs.yaml`. `data` can also be the
    URL of an object store. A code location can have one component.
    """

    configuration: str = "assets"
    data: str = "data"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The assets, checks, jobs, schedules and sensors of the project."""
        data = self.data if "://" in self.data else str(context.path / self.data)
        return build_definitions(open_project(context.path / self.configuration, data))
