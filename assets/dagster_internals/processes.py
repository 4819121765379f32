"""Which process works on a run, and what becomes of runs whose process is gone.

Dagster notes a process id at most, which says nothing once several machines share an instance.
Each step notes on its run where it works; only a process that can be seen from here may be called
dead.
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
        """What a run says of its process; None where it says nothing.

        A run that repeats another one also has its tags at first: those are not its own.
        """
        held = run.tags.get(PROCESS_TAG)
        process = cls.from_json(held) if held else None
        return process if process and process.run_id == run.run_id else None


def note_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Note on a run that this process works on it."""
    process = RunProcess.here(run_id=run.run_id)
    if RunProcess.of(run) != process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: process.as_json()})


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs as failed whose process is gone, as after a kill or a power cut; their ids.

    Dagster itself would show them as running for ever, and what they hold (their place among the
    runs, slots of pools) would never come free.
    """
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [run for run in started if (process := RunProcess.of(run)) and process.is_dead]
    for run in dead:
        instance.report_run_failed(
            run, "The process of this run ended without a word; what it stored is kept."
        )
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in dead]
