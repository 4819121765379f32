"""The process that works on a run. A run whose process died is marked as failed.

Dagster records at most a process id, which is ambiguous if several machines share an instance. The
full identity of the process is therefore recorded on the run: when a command creates the run, and
by each step for runs that Dagster launches. A process that is not visible from this machine never
counts as dead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import dagster as dg

from videomme_pipeline.processes import ProcessIdentity

PROCESS_TAG = "videomme/process"
_OPEN = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
"""States of a run that a process works on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcess(ProcessIdentity):
    """The process that works on a run."""

    run_id: str

    @classmethod
    def of(cls, run: dg.DagsterRun) -> "RunProcess | None":
        """The process recorded on a run, or None.

        A re-executed run has a copy of the original run's tags, so the process of another run id is
        ignored.
        """
        recorded = run.tags.get(PROCESS_TAG)
        process = cls.from_json(recorded) if recorded else None
        return process if process and process.run_id == run.run_id else None


def run_here(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    *,
    run_config: Mapping[str, Any] | None = None,
    partition_key: str | None = None,
    asset_selection: Sequence[dg.AssetKey] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job in this process, which is recorded on the run when the run is created."""
    run_id = str(uuid4())
    return job.execute_in_process(
        instance=instance,
        run_id=run_id,
        tags={PROCESS_TAG: RunProcess.here(run_id=run_id).as_json()},
        run_config=run_config,
        partition_key=partition_key,
        asset_selection=asset_selection,
    )


def record_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Record this process on a run as the one that works on it."""
    process = RunProcess.here(run_id=run.run_id)
    if RunProcess.of(run) != process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: process.as_json()})


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs whose process died as failed, and return their ids.

    Dagster would show a run as running forever after a kill or a power cut, and count it against
    the limit of concurrent runs.
    """
    unfinished = instance.get_runs(dg.RunsFilter(statuses=_OPEN))
    dead = [run for run in unfinished if (process := RunProcess.of(run)) and process.is_dead]
    for run in dead:
        instance.report_run_failed(
            run,
            "The process running this job died unexpectedly. Everything it had stored is kept.",
        )
    return [run.run_id for run in dead]
