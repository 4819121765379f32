"""Which process works on a run, and the end of runs whose process is gone.

Dagster records at most a process id, which means nothing once several machines share an instance.
So each step records the full identity of its process on the run. Only a process that this machine
can see is ever considered dead.
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

        A run that repeats another one starts with the tags of that run; those are not its own.
        """
        recorded = run.tags.get(PROCESS_TAG)
        process = cls.from_json(recorded) if recorded else None
        return process if process and process.run_id == run.run_id else None


def note_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Record on a run that this process works on it."""
    process = RunProcess.here(run_id=run.run_id)
    if RunProcess.of(run) != process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: process.as_json()})


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs as failed whose process is gone, as after a kill or a power cut; return their ids.

    Dagster itself would show them as running forever, and they would count against the limit of
    concurrent runs.
    """
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [run for run in started if (process := RunProcess.of(run)) and process.is_dead]
    for run in dead:
        instance.report_run_failed(
            run,
            "The process running this job died unexpectedly. Everything it had stored is kept.",
        )
    return [run.run_id for run in dead]
