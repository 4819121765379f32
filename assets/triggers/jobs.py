"""`refresh_stale`: one run that builds exactly the stale partitions of all stages.

A backfill covers a rectangle of one asset's partitions; stale partitions are scattered over many
assets. Each step is one stage of every benchmark, or a part of one if `runs.yaml` splits the stage.
It plans when it starts, so it sees what the earlier steps built.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from videomme_pipeline.assets.dagster_internals.checks import evaluation_of_newest
from videomme_pipeline.assets.processes import EVALUATIONS_TAG, run_here
from videomme_pipeline.assets.reporter import ShownVersions
from videomme_pipeline.assets.runner import run_stage
from videomme_pipeline.assets.stages.checks import unanswered
from videomme_pipeline.assets.step import resources_of, run_resources, within_step
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.stages.chain import all_stages, steps
from videomme_pipeline.stages.plan import Freshness, plan_project
from videomme_pipeline.stages.stage import AnyStage, SharedStage

REFRESH_JOB = "refresh_stale"
REPORT_JOB = "report_stored"
AFTER = {"after": dg.In(dg.Nothing)}
"""The input of an op that begins after another one."""
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}
"""Loggers that print nothing, because the UI shows the log of every run."""


class RefreshRequest(dg.Config):
    """The evaluations to bring up to date, and the cost limit."""

    evaluations: list[str] = Field(
        default_factory=list, description="Names of evaluations. Empty means all evaluation files."
    )
    max_cost_dollars: float | None = Field(
        default=None,
        ge=0,
        description="US dollars that the whole run may spend on models. Empty means no limit.",
    )
    videos: list[str] | None = Field(
        default=None,
        description="Ids of the videos to ask about. Scores and results are then not built. Empty "
        "means all videos, and scores and results.",
    )


def refresh_job(
    steps: Mapping[str, Sequence[AnyStage]], project: Project, executor: dg.ExecutorDefinition
) -> dg.JobDefinition:
    """The job, with the stages of each step by its name. `runs.yaml` can split steps into parts."""
    parts: list[_Refresh] = []
    for name, stages in steps.items():
        size = project.runs.most_partitions(name)
        if size is None:
            parts.append(_whole(name, stages, project, is_first=not parts))
        else:
            parts.append(_split(name, stages, project, size))
    asking = [stage for stages in steps.values() for stage in stages if stage.asks_models]
    parts.append(_answers(asking))

    @dg.config_mapping(config_schema=_launchpad_fields(project))
    def for_every_step(request: dict[str, Any]) -> dict[str, Any]:
        ops = {op.name: {"config": request} for part in parts for op in part.ops}
        return {"ops": ops, "loggers": QUIET}

    @dg.job(
        name=REFRESH_JOB,
        description="Build every stale partition of the chosen evaluations, and nothing else.",
        executor_def=executor,
        config=for_every_step,
    )
    def refresh_stale() -> None:
        done = None
        for part in parts:
            done = part.after(done)

    return refresh_stale


def _launchpad_fields(project: Project) -> dict[str, dg.Field]:
    """The fields of `RefreshRequest`. Only the names of evaluations are offered and accepted."""
    fields = RefreshRequest.to_fields_dict()
    description = fields["evaluations"].description
    names = list(project.configuration.evaluations)
    # Dagster has one type per name in a process.
    type_name = f"EvaluationName_{fingerprint(names)}"
    name = dg.Enum(type_name, list(map(dg.EnumValue, names))) if names else str
    return {**fields, "evaluations": dg.Field([name], default_value=[], description=description)}


def run_config(
    evaluations: Sequence[str],
    max_cost_dollars: float | None = None,
    videos: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The configuration of a run for these evaluations only, about all or some videos."""
    return {
        "evaluations": list(evaluations),
        "max_cost_dollars": max_cost_dollars,
        "videos": None if videos is None else list(videos),
    }


def refresh_here(project: Project, instance: dg.DagsterInstance, config: Mapping[str, Any]) -> str:
    """Run the job with `config` (of `run_config`) in this process, and return the run's id."""
    definitions = dg.Definitions(
        jobs=[refresh_job(steps(project), project, dg.in_process_executor)],
        resources=run_resources(project),
    )
    job = definitions.resolve_job_def(REFRESH_JOB)
    return run_here(job, instance, project.runs.code_location, run_config=config)


@dataclass(frozen=True, slots=True)
class _Refresh:
    """The ops that refresh some stages. `after` adds them to a graph and returns their end."""

    ops: Sequence[dg.OpDefinition]
    after: Callable[[Any], Any]


def _short(evaluations: Sequence[str], project: Project) -> str:
    """The names of up to two evaluations, or how many. The run list cuts longer texts."""
    if set(evaluations) in (set(), set(project.configuration.files)):
        return "all"
    return ", ".join(evaluations) if len(evaluations) <= 2 else f"{len(evaluations)} evaluations"


def _whole(name: str, stages: Sequence[AnyStage], project: Project, *, is_first: bool) -> _Refresh:
    """One step for all partitions."""

    @dg.op(
        name=f"refresh_{name}",
        description=f"The stale partitions of {_labels(stages)}.",
        ins={} if is_first else AFTER,
        out=dg.Out(dg.Nothing),
        required_resource_keys=resources_of(stages[0]),
    )
    def refresh_stage(context: dg.OpExecutionContext, config: RefreshRequest) -> None:
        if is_first:
            tags = {EVALUATIONS_TAG: _short(config.evaluations, project)}
            context.instance.add_run_tags(context.run.run_id, tags)
        with _step(context, config, stages):
            for stage in stages:
                _refresh(context, stage, _requested(context, stage, config))

    return _Refresh(
        [refresh_stage], lambda done: refresh_stage() if is_first else refresh_stage(done)
    )


def _split(name: str, stages: Sequence[AnyStage], project: Project, size: int) -> _Refresh:
    """One step for every `size` partitions, which an executor can run at the same time."""

    def parts(
        context: dg.OpExecutionContext, config: RefreshRequest
    ) -> list[tuple[AnyStage, Sequence[Partition]]]:
        batches: list[tuple[AnyStage, Sequence[Partition]]] = []
        for stage in stages:
            requested = sorted(_requested(context, stage, config))  # by video
            starts = range(0, len(requested), size)
            batches += [(stage, requested[start : start + size]) for start in starts]
        return batches

    @dg.op(
        name=f"plan_{name}",
        description=f"The parts of {_labels(stages)} with stale partitions.",
        ins=AFTER,
        out=dg.DynamicOut(dg.Nothing),
    )
    def plan_stage(
        context: dg.OpExecutionContext, config: RefreshRequest
    ) -> Iterator[dg.DynamicOutput[None]]:
        shown = {stage.label: ShownVersions.of(context.instance, stage) for stage in stages}
        done = {
            (state.stage.label, state.partition)
            for state in plan_project(project, _evaluations(project, config))
            if state.freshness is Freshness.FRESH
            and state.stage.label in shown
            and shown[state.stage.label].has(state.partition, state.fingerprint)
        }
        for number, (stage, part) in enumerate(parts(context, config)):
            if any((stage.label, partition) not in done for partition in part):
                yield dg.DynamicOutput(None, mapping_key=str(number))

    @dg.op(
        name=f"refresh_{name}",
        description=f"The stale partitions of a part of {_labels(stages)}.",
        ins=AFTER,
        out=dg.Out(dg.Nothing),
        required_resource_keys=resources_of(stages[0]),
    )
    def refresh_part(context: dg.OpExecutionContext, config: RefreshRequest) -> None:
        stage, part = parts(context, config)[int(str(context.get_mapping_key()))]
        with _step(context, config, stages):
            _refresh(context, stage, part)

    return _Refresh(
        [plan_stage, refresh_part], lambda done: plan_stage(done).map(refresh_part).collect()
    )


def _answers(stages: Sequence[AnyStage]) -> _Refresh:
    """The last step, so that a run in which no video got all of its answers is not green."""

    @dg.op(
        name="require_answers",
        description="Fails if no video of an evaluation has all of its answers.",
        ins=AFTER,
        out=dg.Out(dg.Nothing),
    )
    def require_answers(context: dg.OpExecutionContext, config: RefreshRequest) -> None:
        requested = ((stage, _requested(context, stage, config)) for stage in stages)
        reasons = [reason for asked in requested for reason in unanswered(*asked)]
        if reasons:
            raise dg.Failure("; ".join(reasons), allow_retries=False)

    return _Refresh([require_answers], require_answers)


def _labels(stages: Sequence[AnyStage]) -> str:
    return ", ".join(stage.label for stage in stages)


def _step(
    context: dg.OpExecutionContext, config: RefreshRequest, stages: Sequence[AnyStage]
) -> AbstractContextManager[None]:
    needs_machine, dollars = not stages[0].asks_models, config.max_cost_dollars
    project = stages[0].project
    return within_step(project, context, needs_machine=needs_machine, max_dollars=dollars)


def _requested(
    context: dg.OpExecutionContext, stage: AnyStage, config: RefreshRequest
) -> Sequence[Partition]:
    """The partitions of a stage that a request needs, from the current files."""
    stage.invalidate()
    if config.videos is not None and (stage.is_cited or isinstance(stage, SharedStage)):
        return []  # some of the videos have no score
    try:
        partitions = stage.partitions(_evaluations(stage.project, config))
    except NotReadyError as error:
        context.log.warning(str(error))
        return []
    if config.videos is None:
        return partitions
    return [p for p in partitions if p.video is None or p.video in config.videos]


def _evaluations(project: Project, config: RefreshRequest) -> Sequence[str]:
    """The evaluations of a request. Samplings without an evaluation are built if they are chosen
    as partitions, and never by this job."""
    return config.evaluations or list(project.configuration.files)


def _refresh(
    context: dg.OpExecutionContext,
    stage: AnyStage,
    requested: Sequence[Partition],
    *,
    builds: bool = True,
) -> None:
    """Bring partitions up to date and report every result to Dagster, failures included."""
    if not requested:
        return
    for check in run_stage(context, stage, requested, builds=builds):
        if not check.passed:
            is_error = check.severity is dg.AssetCheckSeverity.ERROR
            log = context.log.error if is_error else context.log.warning
            log(f"{stage.label}, {check.check_name}: {check.description}")
        context.instance.report_runless_asset_event(evaluation_of_newest(check, context.instance))


def report_job(project: Project) -> dg.JobDefinition:
    """The job that reports stored partitions to Dagster, upstream first, and builds nothing."""

    @dg.op(description="Report stored partitions that Dagster does not show.")
    def report_partitions(context: dg.OpExecutionContext) -> None:
        current = project.reopened()
        current.observe_servers(is_stored=False)
        for stage in all_stages(current):
            with suppress(NotReadyError):
                _refresh(context, stage, stage.partitions(), builds=False)

    @dg.job(
        name=REPORT_JOB,
        description="Show in Dagster what is stored. Builds nothing and asks no model.",
        executor_def=dg.in_process_executor,
    )
    def report() -> None:
        report_partitions()

    return report
