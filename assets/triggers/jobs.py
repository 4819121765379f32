"""`refresh_stale`: one run that builds exactly the stale partitions of all stages.

A backfill covers a rectangle of one asset's partitions; stale partitions are scattered over many
assets. Each step is one stage of every benchmark. It plans when it starts, so it sees what the
earlier steps built.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from assets.dagster_internals.checks import evaluation_of, newest_materialization
from assets.dagster_internals.events import EventBatch
from assets.planning.freshness import newest_event, recorded_versions, wrongly_shown
from assets.processes import record_evaluations
from assets.stages.base import AnyStage, refresh
from assets.stages.checks import check_events
from assets.step import within_step
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.project.project import Project

REFRESH_JOB = "refresh_stale"
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}
"""Loggers that print nothing, because the UI shows the log of every run."""


class RefreshRequest(dg.Config):
    """The evaluations to bring up to date, and the cost limit."""

    evaluations: list[str] = Field(
        default_factory=list, description="Names of evaluations. Empty means all."
    )
    max_cost_dollars: float | None = Field(
        default=None,
        gt=0,
        description="US dollars that the whole run may spend on models. Empty means no limit.",
    )


def refresh_job(steps: Mapping[str, Sequence[AnyStage]], project: Project) -> dg.JobDefinition:
    """The job, with one step per entry of `steps`, which maps step names to stages."""
    ops = [
        _op(name, stages, project, is_first=number == 0)
        for number, (name, stages) in enumerate(steps.items())
    ]

    @dg.config_mapping
    def for_every_step(request: RefreshRequest) -> dg.RunConfig:
        return dg.RunConfig(ops={op.name: request for op in ops}, loggers=QUIET)

    @dg.job(
        name=REFRESH_JOB,
        description="Build every stale partition of the chosen evaluations, and nothing else.",
        executor_def=dg.in_process_executor,
        config=for_every_step,
    )
    def refresh_stale() -> None:
        done = ops[0]()
        for op in ops[1:]:
            done = op(done)

    return refresh_stale


def run_config(evaluations: Sequence[str], max_cost_dollars: float | None = None) -> dict[str, Any]:
    """The configuration of a run for these evaluations only."""
    return {"evaluations": list(evaluations), "max_cost_dollars": max_cost_dollars}


def _op(
    name: str, stages: Sequence[AnyStage], project: Project, *, is_first: bool
) -> dg.OpDefinition:
    keys = ", ".join(stage.asset_key.to_user_string() for stage in stages)

    @dg.op(
        name=f"refresh_{name}",
        description=f"The stale partitions of {keys}.",
        ins={} if is_first else {"after": dg.In(dg.Nothing)},
        out=dg.Out(dg.Nothing),
        required_resource_keys={name for stage in stages for name in stage.resources},
    )
    def refresh_stage(context: dg.OpExecutionContext, config: RefreshRequest) -> None:
        spending = project.spending
        if is_first:
            record_evaluations(context.instance, context.run, config.evaluations or ["all"])
        with within_step(
            project,
            context,
            needs_machine=stages[0].needs_machine,
            max_dollars=config.max_cost_dollars,
        ):
            stopped_before = spending.stopped_by
            for stage in stages:
                _refresh(context, stage, config.evaluations or None)
        if spending.stopped_by != stopped_before:
            context.log.warning(str(spending.stopped_by))

    return refresh_stage


def _refresh(
    context: dg.OpExecutionContext, stage: AnyStage, evaluations: Sequence[str] | None
) -> None:
    """Bring one stage up to date and report every result to Dagster, failures included."""
    stage.invalidate()
    try:
        requested = stage.partitions(evaluations)
    except NotReadyError as error:
        context.log.warning(str(error))
        return
    if not requested:
        return
    wrong = wrongly_shown(context.instance, stage)
    recorded = {
        partition: version
        for partition, version in recorded_versions(context.instance, stage).items()
        # Report fresh partitions again that the UI shows as failed or unsynced.
        if partition not in wrong
    }
    failed_before = stage.failures.read()
    with EventBatch(context) as events:
        for event in refresh(stage, requested, recorded, newest_event(context.instance)):
            events.add(event)
    stage.update_partition_keys(context.instance)
    checks = check_events(stage, requested, failed_before)
    for evaluation in checks.partitions:
        context.log_event(evaluation)  # type: ignore[arg-type]  # accepted, but not annotated
    for check in checks.whole:
        if not check.passed:
            is_error = check.severity is dg.AssetCheckSeverity.ERROR
            log = context.log.error if is_error else context.log.warning
            log(f"{stage.asset_key.to_user_string()}, {check.check_name}: {check.description}")
        target = newest_materialization(stage.asset_key, context.instance)
        context.instance.report_runless_asset_event(evaluation_of(check, target=target))
