"""Runs started from the command line: the same job, events and instance as from the UI."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import dagster as dg

from assets.dagster_internals.processes import end_dead_runs
from assets.definitions import build_definitions, steps
from assets.partitions import Cell
from assets.planning.freshness import Freshness, PartitionState, failed_attempts, plan
from assets.resources import Project
from assets.stages.base import Stage
from assets.stages.nightly import NIGHTLY_FILE, tracked_evaluations
from assets.triggers.jobs import REFRESH_JOB, run_config
from assets.triggers.schedules import NIGHTLY_JOB
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.scoring.nightly.assess import Assessment

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What one call did: how many partitions of each asset it made, and those still not fresh.

    `run_id` is None when there was nothing to do; `stopped_by` says how to go on when the money
    for models was used up.
    """

    run_id: str | None
    made: Counter[str]
    behind: list[PartitionState]
    stopped_by: str | None = None


def plan_project(
    project: Project, instance: dg.DagsterInstance, evaluations: Sequence[str] | None = None
) -> list[PartitionState]:
    """Where every partition stands, upstream first.

    With `evaluations`, only the partitions that these need are looked at.
    """
    stages = [stage for members in steps(project).values() for stage in members]
    for stage in stages:
        stage.look_again()
    return plan(stages, instance, evaluations)


def refresh_project(
    project: Project,
    instance: dg.DagsterInstance,
    evaluations: Sequence[str],
    max_cost_dollars: float | None = None,
) -> Refreshed:
    """Bring these evaluations, and the results over all, up to date in one run.

    No run is started when nothing is stale. With `max_cost_dollars` no model is asked any more
    when the run has spent so much; what was asked is kept, and the next run asks the rest.
    """
    end_dead_runs(instance)
    states = plan_project(project, instance, evaluations)
    if not _behind(states) and not _shown_as_failed(states, instance):
        return Refreshed(run_id=None, made=Counter(), behind=[])
    job = build_definitions(project).resolve_job_def(REFRESH_JOB)
    result = job.execute_in_process(
        instance=instance, run_config=run_config(evaluations, max_cost_dollars) | QUIET
    )
    return Refreshed(
        run_id=result.run_id,
        made=made_by(instance, result.run_id),
        behind=_behind(plan_project(project, instance, evaluations)),
        stopped_by=project.spending.stopped_by,
    )


def made_by(instance: dg.DagsterInstance, run_id: str) -> Counter[str]:
    """How many partitions of each asset a run materialized."""
    records = instance.get_records_for_run(
        run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
    ).records
    events = (record.event_log_entry.dagster_event for record in records)
    return Counter(
        event.asset_key.to_user_string() for event in events if event and event.asset_key
    )


def run_night(
    project: Project, instance: dg.DagsterInstance, evaluations: Sequence[str], night: str
) -> list[Assessment]:
    """Ask a night of these tracked evaluations (none named: all), and bring the results up to date.

    Raises:
        ConfigurationError: when one is not tracked, or there can be no such night.
        NotReadyError: when one has no baseline; nothing is asked then.
    """
    tracked = {held.evaluation.name: held for held in tracked_evaluations(project)}
    unknown = [name for name in evaluations if name not in tracked]
    if unknown or not tracked:
        raise ConfigurationError(
            f"{', '.join(unknown) or 'no evaluation'} is tracked; name it under `evaluations` in "
            f"{project.configuration.folder / NIGHTLY_FILE}"
        )
    chosen = [tracked[name] for name in evaluations or tracked]
    if night not in chosen[0].partitions_def.get_partition_keys():
        raise ConfigurationError(
            f"no night {night}: nights go from {chosen[0].nightly.since} (`since`) to today"
        )
    for held in chosen:
        held.baseline()
    job = build_definitions(project).resolve_job_def(NIGHTLY_JOB)
    job.execute_in_process(
        instance=instance,
        partition_key=night,
        asset_selection=[held.asset_key for held in chosen],
        run_config=QUIET,
    )
    reports = [held.assess(night) for held in chosen]
    refresh_project(project, instance, [held.evaluation.name for held in chosen])
    return reports


def _shown_as_failed(states: Sequence[PartitionState], instance: dg.DagsterInstance) -> bool:
    """Whether Dagster still shows a fresh partition as failed."""
    cells: dict[Stage, set[Cell]] = defaultdict(set)
    for state in states:
        cells[state.stage].add(state.cell)
    return any(held & failed_attempts(instance, stage) for stage, held in cells.items())


def _behind(states: Iterable[PartitionState]) -> list[PartitionState]:
    return [state for state in states if state.freshness is not Freshness.FRESH]
