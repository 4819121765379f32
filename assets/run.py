"""Runs from the command line. They use the same job, events and instance as runs from the UI."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from videomme_pipeline.assets.keys import asset_key, partition_key
from videomme_pipeline.assets.processes import PARTITION_TAG, run_here, running_runs
from videomme_pipeline.assets.race import RACE_JOB
from videomme_pipeline.assets.stages.nightly import (
    NIGHTLY_JOB,
    nightly_definitions,
    nightly_key,
    nightly_partitions,
)
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB, refresh_job
from videomme_pipeline.errors import ConfigurationError, NotReadyError, listed
from videomme_pipeline.project.checkpoints import CHECKPOINT_JOB
from videomme_pipeline.project.nightly.tracked import NIGHTLY_FILE, tracked_evaluations
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.scoring.nightly.assess import Assessment
from videomme_pipeline.scoring.verdicts import read_checkpoints
from videomme_pipeline.stages.plan import Freshness, PartitionState, plan_project
from videomme_pipeline.stages.refresh import RefreshResult, nothing_stale
from videomme_pipeline.stages.stage import SharedStage


def refresh_project(
    project: Project, instance: dg.DagsterInstance, evaluations: Sequence[str]
) -> RefreshResult:
    """Bring evaluations and the shared results up to date in one run, if anything is stale."""
    return nothing_stale(project, evaluations) or refresh_stale(project, instance, evaluations)


def refresh_stale(
    project: Project,
    instance: dg.DagsterInstance,
    evaluations: Sequence[str],
    max_cost_dollars: float | None = None,
) -> RefreshResult:
    """`refresh_project` after a plan in which something is stale.

    With `max_cost_dollars`, the run stops sending requests once it has spent this much. Its answers
    are kept, and the next run resumes.
    """
    location = project.runs.code_location
    config = {"evaluations": list(evaluations), "max_cost_dollars": max_cost_dollars}
    project.built.clear()
    project.registered.clear()
    lost_before: set[tuple[str, Partition]] = set()
    while True:
        definitions = dg.Definitions(jobs=[refresh_job(project)])
        run_id = run_here(project, instance, definitions, REFRESH_JOB, run_config=config)
        others = running_runs(instance, location, datetime.now(UTC))  # they may end during the plan
        states = plan_project(project, evaluations)
        pending = [state for state in states if state.freshness is not Freshness.FRESH]
        # Others may have started during the plan.
        others += running_runs(instance, location, datetime.now(UTC))
        stopped_by = project.spending.stopped_by
        left_to_others = [
            state
            for state in pending
            if stopped_by is None  # runs that ask the same questions stop at the same limit
            and state.freshness is not Freshness.FAILED
            and any(builds(run, state) for run in others)
        ]
        # A damaged file is set aside by the stage that reads it, after the stage that builds it.
        lost = {
            (state.stage.label, state.partition)
            for state in pending
            if not (state.waits_for_parent or state in left_to_others)
            and state.freshness is not Freshness.FAILED
        }
        if stopped_by is not None or lost <= lost_before:
            break
        lost_before |= lost
    return RefreshResult(
        run_id=run_id,
        built=+project.built,
        not_fresh=[state for state in pending if state not in left_to_others],
        registered=+project.registered,
        left_to_others=left_to_others,
        stopped_by=stopped_by,
    )


def run_nightly(
    project: Project, instance: dg.DagsterInstance, evaluations: Sequence[str], date: str
) -> list[Assessment]:
    """Run tracked evaluations for a date, update the results, and return the assessments.

    An empty `evaluations` means all tracked ones. Raises ConfigurationError if an evaluation is not
    tracked, or the date is before the first nightly run or in the future, and NotReadyError if an
    evaluation has no reference. If an error is raised, no request was sent.
    """
    tracked = {entry.evaluation.name: entry for entry in tracked_evaluations(project)}
    file = project.configuration.folder / NIGHTLY_FILE
    if not tracked:
        names = listed(evaluations or list(project.configuration.evaluations))
        raise ConfigurationError(
            f"{file}: no evaluation is tracked; write the lines `since: {date}` and "
            f"`evaluations: {{NAME: {{}}}}` into it, with the NAME of an evaluation ({names})"
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
    definitions = nightly_definitions(chosen)
    selection = [*map(nightly_key, chosen)]
    run_here(
        project, instance, definitions, NIGHTLY_JOB, partition_key=date, asset_selection=selection
    )
    assessments = [evaluation.assess(date) for evaluation in chosen]
    refresh_project(project, instance, [entry.evaluation.name for entry in chosen])
    return assessments


def builds(run: dg.DagsterRun, state: PartitionState) -> bool:
    """True if a run that is not finished brings a partition up to date."""
    stage, evaluations = state.stage, _evaluations_of(run, state.stage.project)
    if evaluations is None:
        selected, key = run.asset_selection or frozenset(), run.tags.get(PARTITION_TAG)
        if isinstance(stage, SharedStage):
            return bool(selected)
        is_chosen = key is None or key == partition_key(stage, state.partition)
        return asset_key(stage) in selected and is_chosen
    try:
        return state.partition in stage.partitions(evaluations)
    except NotReadyError:  # the stage has no questions yet, which the run also builds
        return True


def _evaluations_of(run: dg.DagsterRun, project: Project) -> list[str] | None:
    """The evaluations that a run brings up to date, or None for a run of chosen assets."""
    config: Mapping[str, Any] = run.run_config
    if run.job_name == REFRESH_JOB:
        return config.get("evaluations") or list(project.configuration.files)
    if run.job_name == RACE_JOB:
        return [config["baseline"], config["candidate"]]
    if run.job_name == CHECKPOINT_JOB:
        recorded, key = read_checkpoints(project.store), run.tags.get(PARTITION_TAG)
        return [row.evaluation for row in recorded if row.key == key]
    return None
