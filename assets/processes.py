"""The process that works on a run. A run whose process died is marked as failed.

Dagster records at most a process id, which is ambiguous if several machines share an instance. Each
step therefore records the full identity of its process on the run. A process that is not visible
from this machine never counts as dead.
"""

from dataclasses import dataclass

import dagster as dg

from videomme_pipeline.processes import ProcessIdentity

PROCESS_TAG = "videomme/process"


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
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [run for run in started if (process := RunProcess.of(run)) and process.is_dead]
    for run in dead:
        instance.report_run_failed(
            run,
            "The process running this job died unexpectedly. Everything it had stored is kept.",
        )
    return [run.run_id for run in dead]
