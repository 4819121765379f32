"""`refresh_stale`: one run that makes exactly the stale partitions, over all stages.

Dagster's own range runs take a rectangle of one asset; stale sets are sparse and span assets.
Each step is one stage of every benchmark: it plans when its turn comes, so it sees what the
steps before it made.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from assets.dagster_internals.events import EventBatch
from assets.planning.freshness import failed_attempts, newest_event, recorded_versions
from assets.stages.base import AnyStage, refresh
from assets.stages.checks import evaluation_of, is_complete, partition_checks
from assets.step import within_step
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.project.project import Project

REFRESH_JOB = "refresh_stale"


class RefreshRequest(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Which part of the graph to bring up to date."""

    evaluations: list[str] = Field(
        default_factory=list, description="Names of evaluations; none: all that are configured."
    )
    max_cost_dollars: float | None = Field(
        default=None, gt=0, description="What the whole run may spend on models; none: no limit."
    )


def refresh_job(steps: Mapping[str, Sequence[AnyStage]], project: Project) -> dg.JobDefinition:
    """The job over `steps`: each a name and the stages that it brings up to date, in order."""
    ops = [
        _op(name, stages, project, is_first=number == 0)
        for number, (name, stages) in enumerate(steps.items())
    ]

    @dg.job(
        name=REFRESH_JOB,
        description="Make every stale partition of the chosen evaluations, and nothing else.",
        executor_def=dg.in_process_executor,
        resource_defs={"request": RefreshRequest()},
    )
    def refresh_stale() -> None:
        done = ops[0]()
        for op in ops[1:]:
            done = op(done)

    return refresh_stale


def run_config(evaluations: Sequence[str], max_cost_dollars: float | None = None) -> dict[str, Any]:
    """The configuration of a run that looks at these evaluations alone."""
    request = {"evaluations": list(evaluations), "max_cost_dollars": max_cost_dollars}
    return {"resources": {"request": {"config": request}}}


def _op(
    name: str, stages: Sequence[AnyStage], project: Project, *, is_first: bool
) -> dg.OpDefinition:
    keys = ", ".join(stage.asset_key.to_user_string() for stage in stages)

    @dg.op(
        name=f"refresh_{name}",
        description=f"The stale partitions of {keys}.",
        ins={} if is_first else {"after": dg.In(dg.Nothing)},
        out=dg.Out(dg.Nothing),
    )
    def refresh_stage(context: dg.OpExecutionContext, request: RefreshRequest) -> None:
        spending = project.spending
        with within_step(
            project,
            context,
            takes_machine=stages[0].takes_machine,
            most_dollars=request.max_cost_dollars,
        ):
            stopped_before = spending.stopped_by
            for stage in stages:
                _refresh(context, stage, request.evaluations or None)
        if spending.stopped_by != stopped_before:
            context.log.warning(str(spending.stopped_by))

    return refresh_stage


def _refresh(
    context: dg.OpExecutionContext, stage: AnyStage, evaluations: Sequence[str] | None
) -> None:
    """Bring one stage up to date and tell Dagster, also what failed."""
    stage.invalidate()
    try:
        requested = stage.partitions(evaluations)
    except NotReadyError as error:
        context.log.warning(str(error))
        return
    if not requested:
        return
    failed = failed_attempts(context.instance, stage)
    recorded = {
        partition: version
        for partition, version in recorded_versions(context.instance, stage).items()
        if partition
        not in failed  # a fresh one is reported again, so that the UI shows it as it is
    }
    failed_before = stage.failures.read()
    with EventBatch(context) as events:
        for event in refresh(stage, requested, recorded, newest_event(context.instance)):
            events.add(event)
    stage.announce(context.instance)
    for evaluation in partition_checks(stage, requested, failed_before):
        context.log_event(evaluation)  # type: ignore[arg-type]  # taken, though not annotated
    check = is_complete(stage)
    if not check.passed:
        context.log.error(f"{stage.asset_key.to_user_string()}: {check.metadata['failed']} failed")
    context.instance.report_runless_asset_event(evaluation_of(check))
