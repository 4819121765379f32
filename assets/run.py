"""Runs from the command line. They use the same job, events and instance as runs from the UI."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import dagster as dg

from videomme_pipeline.assets.dagster_internals.events import materializations_of
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.planning.freshness import (
    Freshness,
    PartitionState,
    plan_project,
    wrongly_shown,
)
from videomme_pipeline.assets.processes import PARTITION_TAG, end_dead_runs, run_here, running_runs
from videomme_pipeline.assets.stages.base import AnyStage, SharedStage
from videomme_pipeline.assets.stages.chain import all_stages
from videomme_pipeline.assets.stages.nightly import nightly_key, nightly_partitions
from videomme_pipeline.assets.triggers.jobs import QUIET, REFRESH_JOB, refresh_here, run_config
from videomme_pipeline.assets.triggers.schedules import NIGHTLY_JOB
from videomme_pipeline.errors import ConfigurationError, NotReadyError
from videomme_pipeline.project.nightly.tracked import NIGHTLY_FILE, tracked_evaluations
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.scoring.nightly.assess import Assessment


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The result of a refresh: how many partitions of each asset were built, and what is not fresh.

    `not_fresh` has failed partitions, and those that no running run will build. `left_to_others`
    has those that another run will build, because that run has changed their inputs meanwhile.
    `run_id` is None if everything was fresh. `stopped_by` is a message that says how to continue if
    the run reached its cost limit, else None.
    """

    run_id: str | None
    built: Counter[str]
    not_fresh: list[PartitionState]
    left_to_others: list[PartitionState] = field(default_factory=list)
    stopped_by: str | None = None


def refresh_project(
    project: Project,
    instance: dg.DagsterInstance,
    evaluations: Sequence[str],
    max_cost_dollars: float | None = None,
) -> Refreshed:
    """Bring these evaluations and the shared results up to date in one run.

    Starts no run if nothing is stale. With `max_cost_dollars`, the run stops sending requests once
    it has spent this much. Its answers are kept, and the next run resumes.
    """
    end_dead_runs(instance, datetime.now(UTC))
    project.store.remove_left_over()
    states = plan_project(project, instance, evaluations)
    if not _not_fresh(states) and not _wrongly_shown(states, instance):
        return Refreshed(run_id=None, built=Counter(), not_fresh=[])
    location = project.runs.code_location
    run_id = refresh_here(project, instance, run_config(evaluations, max_cost_dollars))
    others = running_runs(instance, location, datetime.now(UTC))  # they may end during the plan
    pending = _not_fresh(plan_project(project, instance, evaluations))
    # Others may have started during the plan.
    others += running_runs(instance, location, datetime.now(UTC))
    stopped_by = project.spending.stopped_by
    built = _built(project, instance, run_id)
    left_to_others = [
        state
        for state in pending
        if stopped_by is None  # runs that ask the same questions stop at the same limit
        and state.freshness is not Freshness.FAILED
        and any(_builds(run, state) for run in others)
    ]
    not_fresh = [state for state in pending if state not in left_to_others]
    if all(_is_changed_again(state, built) for state in not_fresh):
        left_to_others, not_fresh = pending, []
    return Refreshed(
        run_id=run_id,
        built=built,
        not_fresh=not_fresh,
        left_to_others=left_to_others,
        stopped_by=stopped_by,
    )


def _built(project: Project, instance: dg.DagsterInstance, run_id: str) -> Counter[str]:
    """The number of partitions that a run built, by asset."""
    by_key = materializations_of(instance, run_id)
    labels = {stage.asset_key: stage.label for stage in all_stages(project)}
    return Counter({label: by_key[key] for key, label in labels.items() if key in by_key})


def run_nightly(
    project: Project, instance: dg.DagsterInstance, evaluations: Sequence[str], date: str
) -> list[Assessment]:
    """Run tracked evaluations for a date, update the results, and return the assessments.

    An empty `evaluations` means all tracked ones. If an error is raised, no request was sent.

    Raises:
        ConfigurationError: if an evaluation is not tracked, or the date is before the first nightly
            run or in the future.
        NotReadyError: if an evaluation has no reference.
    """
    tracked = {entry.evaluation.name: entry for entry in tracked_evaluations(project)}
    file = project.configuration.folder / NIGHTLY_FILE
    if not tracked:
        example = next(iter([*evaluations, *project.configuration.evaluations]), "NAME")
        raise ConfigurationError(
            f"{file}: no evaluation is tracked; write the lines `since: {date}` and "
            f"`evaluations: {{{example}: {{}}}}` into it"
        )
    for name in evaluations:
        if name not in tracked:
            raise ConfigurationError(
                f"evaluation {name} is not tracked; add it under `evaluations` in {file}"
            )
    chosen = [tracked[name] for name in evaluations or tracked]
    nightly = chosen[0].nightly
    if date not in nightly_partitions(nightly).get_partition_keys():
        raise ConfigurationError(
            f"no nightly run on {date}: choose a date from {nightly.since} (`since` in {file}) "
            "to today"
        )
    for evaluation in chosen:
        evaluation.reference()
    job = build_definitions(project).resolve_job_def(NIGHTLY_JOB)
    run_here(
        job,
        instance,
        project.runs.code_location,
        partition_key=date,
        asset_selection=[nightly_key(evaluation) for evaluation in chosen],
        run_config={"loggers": QUIET},
    )
    assessments = [evaluation.assess(date) for evaluation in chosen]
    refresh_project(project, instance, [entry.evaluation.name for entry in chosen])
    return assessments


def _is_changed_again(state: PartitionState, built: Counter[str]) -> bool:
    """True if the results of all evaluations are stale although this run has built them.

    If everything upstream is fresh, a run with another Dagster home has stored scores meanwhile.
    It rebuilds these results at its end.
    """
    is_stale = state.freshness is not Freshness.FAILED
    return is_stale and isinstance(state.stage, SharedStage) and built[state.stage.label] > 0


def _builds(run: dg.DagsterRun, state: PartitionState) -> bool:
    """True if a run that is not finished brings a partition up to date.

    The results of all evaluations are rebuilt after every run of assets, by the same command or by
    the sensor `results`.
    """
    stage = state.stage
    if run.job_name != REFRESH_JOB:
        selected, key = run.asset_selection or frozenset(), run.tags.get(PARTITION_TAG)
        if isinstance(stage, SharedStage):
            return bool(selected)
        is_chosen = key is None or key == stage.key_of_partition(state.partition)
        return stage.asset_key in selected and is_chosen
    config = cast("Mapping[str, list[str] | None]", run.run_config)
    videos = config.get("videos")
    if videos is not None and state.partition.video not in videos:
        return False
    try:
        return state.partition in stage.partitions(config.get("evaluations") or None)
    except NotReadyError:  # the stage has no questions yet, which the run also builds
        return True


def _wrongly_shown(states: Sequence[PartitionState], instance: dg.DagsterInstance) -> bool:
    """Return True if Dagster shows one of these partitions as failed or unsynced."""
    partitions: dict[AnyStage, set[Partition]] = defaultdict(set)
    for state in states:
        partitions[state.stage].add(state.partition)
    return any(own & wrongly_shown(instance, stage) for stage, own in partitions.items())


def _not_fresh(states: Iterable[PartitionState]) -> list[PartitionState]:
    return [state for state in states if state.freshness is not Freshness.FRESH]
