"""`refresh_stale`: one run that builds exactly the stale partitions of all stages.

A backfill covers a rectangle of one asset's partitions; stale partitions are scattered over many
assets. Each step is one stage of every benchmark. It plans after the earlier steps have built.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import dagster as dg
from pydantic import Field

from videomme_pipeline.assets.dagster_internals import evaluation_of_newest
from videomme_pipeline.assets.processes import EVALUATIONS_TAG, QUIET
from videomme_pipeline.assets.runner import run_stage
from videomme_pipeline.assets.stages.checks import unanswered
from videomme_pipeline.assets.step import resources_of, within_step
from videomme_pipeline.errors import NotReadyError, listed
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.stages.chain import all_stages, steps
from videomme_pipeline.stages.stage import AnyStage, SharedStage

REFRESH_JOB = "refresh_stale"
REPORT_JOB = "report_stored"
_NAMES_SHOWN = 20
AFTER = {"after": dg.In(dg.Nothing)}
"""The input of an op that begins after another one."""


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


def refresh_job(project: Project) -> dg.JobDefinition:
    """The job. Each of its steps builds the stages of all benchmarks that have the same name."""
    ops: list[dg.OpDefinition] = []
    for name, stages in steps(project).items():
        ops.append(_refresh_op(name, stages, is_first=not ops))
    ops.append(_answers_op(project))
    fields = {**RefreshRequest.to_fields_dict()}  # a copy, because Dagster keeps its own one
    kind, names = one_of(project.configuration.evaluations)
    description = f"{fields['evaluations'].description} {names}"
    fields["evaluations"] = dg.Field([kind], default_value=[], description=description)

    @dg.config_mapping(config_schema=fields)
    def for_every_step(request: dict[str, Any]) -> dict[str, Any]:
        return {"ops": {op.name: {"config": request} for op in ops}, "loggers": QUIET}

    @dg.job(
        name=REFRESH_JOB,
        description="Build every stale partition of the chosen evaluations, and nothing else.",
        config=for_every_step,
    )
    def refresh_stale() -> None:
        done = ops[0]()
        for op in ops[1:]:
            done = op(done)

    return refresh_stale


@cache
def _enum(names: tuple[str, ...]) -> dg.Enum:
    # Dagster has one type per name in a process.
    return dg.Enum(f"Evaluation_{fingerprint(names)[:4]}", list(map(dg.EnumValue, names)))


def one_of(names: Iterable[str]) -> tuple[Any, str]:
    """The type of a field that accepts only the names of evaluations, and a text with the names."""
    kind = _enum(tuple(names)) if names else str
    return kind, f"One of {listed([*names], _NAMES_SHOWN)}."


def refresh_within(
    context: dg.OpExecutionContext,
    project: Project,
    evaluations: Sequence[str],
    max_cost_dollars: float | None = None,
    videos: Sequence[str] | None = None,
) -> None:
    """Build the stale partitions of evaluations inside of another job's step, upstream first.

    With `videos`, only these are asked about, and no scores and results are built. The caller
    starts and stops the servers and workers of `project`.
    """
    request = RefreshRequest(evaluations=list(evaluations), max_cost_dollars=max_cost_dollars)
    for stages in steps(project).values():
        _build(context, stages, request, videos)


def _short(evaluations: Sequence[str], project: Project) -> str:
    """The names of up to two evaluations, or how many. The run list cuts longer texts."""
    if set(evaluations) in (set(), set(project.configuration.files)):
        return "all"
    return ", ".join(evaluations) if len(evaluations) <= 2 else f"{len(evaluations)} evaluations"


def _refresh_op(name: str, stages: Sequence[AnyStage], *, is_first: bool) -> dg.OpDefinition:
    labels = ", ".join(stage.label for stage in stages)

    @dg.op(
        name=f"refresh_{name}",
        description=f"The stale partitions of {labels}.",
        ins={} if is_first else AFTER,
        out=dg.Out(dg.Nothing),
        required_resource_keys=resources_of(stages[0]),
    )
    def refresh_stage(context: dg.OpExecutionContext, config: RefreshRequest) -> None:
        if is_first:
            tags = {EVALUATIONS_TAG: _short(config.evaluations, stages[0].project)}
            context.instance.add_run_tags(context.run.run_id, tags)
        _build(context, stages, config)

    return refresh_stage


def _build(
    context: dg.OpExecutionContext,
    stages: Sequence[AnyStage],
    request: RefreshRequest,
    videos: Sequence[str] | None = None,
) -> None:
    with within_step(
        stages[0].project,
        context,
        needs_machine=not stages[0].asks_models,
        max_dollars=request.max_cost_dollars,
    ):
        for stage in stages:
            _refresh(context, stage, _requested(context, stage, request, videos))


def _answers_op(project: Project) -> dg.OpDefinition:
    """The last step, so that a run in which no video got all of its answers is not green."""
    stages = [stage for stage in all_stages(project) if stage.asks_models]

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

    return require_answers


def _requested(
    context: dg.OpExecutionContext,
    stage: AnyStage,
    request: RefreshRequest,
    videos: Sequence[str] | None = None,
) -> Sequence[Partition]:
    """The partitions of a stage that a request needs, from the current files."""
    stage.invalidate()
    if videos is not None and (stage.is_cited or isinstance(stage, SharedStage)):
        return []  # some of the videos have no score
    try:
        # Samplings without an evaluation are built only if they are chosen as partitions.
        partitions = stage.partitions(
            request.evaluations or list(stage.project.configuration.files)
        )
    except NotReadyError as error:
        context.log.warning(str(error))
        return []
    if videos is None:
        return partitions
    return [p for p in partitions if p.video is None or p.video in videos]


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
        config={"loggers": QUIET},
    )
    def report() -> None:
        report_partitions()

    return report
