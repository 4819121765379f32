"""The process that works on a run. A run whose process died is ended.

Dagster records at most a process id, which is ambiguous if several machines share an instance. The
full identity of the process is therefore recorded on the run: when a command creates the run, and
by the executor of a run that Dagster launches. A process that is not visible from this machine
never counts as dead. A launched run whose executor does not start in 15 minutes counts as dead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import dagster as dg

from videomme_pipeline.assets.dagster_internals import execute, origin_of
from videomme_pipeline.assets.step import run_resources
from videomme_pipeline.processes.identity import ProcessIdentity
from videomme_pipeline.project.project import Project

PROCESS_TAG = ".dagster/videomme_process"
"""The run tag of the process. The UI hides tags that begin with `.dagster/`."""
PARTITION_TAG = "dagster/partition"
EVALUATIONS_TAG = "videomme/evaluations"
"""The run tag with the evaluations that a run builds, which the UI shows in its list of runs."""
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}
"""Loggers that print nothing, because the UI shows the log of every run."""
_OPEN = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
"""States of a run that a process works on."""
_KEPT = "Everything it had stored is kept."
_START = timedelta(minutes=15)
"""The longest time from a launch by Dagster to its executor, which takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcess(ProcessIdentity):
    """The process that works on a run."""

    run_id: str

    @classmethod
    def of(cls, run: dg.DagsterRun) -> "RunProcess | None":
        """The process recorded on a run, or None.

        A re-executed run has a copy of the tags, so the process of another run id is ignored.
        """
        recorded = run.tags.get(PROCESS_TAG)
        process = cls.from_json(recorded) if recorded else None
        return process if process and process.run_id == run.run_id else None


def run_here(  # noqa: PLR0913 - what Dagster records on a run
    project: Project,
    instance: dg.DagsterInstance,
    definitions: dg.Definitions,
    job_name: str,
    *,
    run_config: Mapping[str, Any] | None = None,
    partition_key: str | None = None,
    asset_selection: Sequence[dg.AssetKey] | None = None,
) -> str:
    """End dead runs, run a job in this process, which is recorded, and return the run's id."""
    end_dead_runs(instance, datetime.now(UTC))
    project.store.remove_left_over()
    in_process = dg.Definitions(executor=dg.in_process_executor, resources=run_resources(project))
    job = dg.Definitions.merge(definitions, in_process).resolve_job_def(job_name)
    run_id = str(uuid4())
    tags = {PROCESS_TAG: RunProcess.here(run_id=run_id).as_json()}
    if partition_key is not None:
        tags[PARTITION_TAG] = partition_key
    run = instance.create_run_for_job(
        job,
        run_id=run_id,
        run_config=run_config or {"loggers": QUIET},
        tags=tags,
        asset_selection=frozenset(asset_selection) if asset_selection else None,
        remote_job_origin=origin_of(job, project.runs.code_location),
    )
    execute(job, run, instance)
    return run_id


def recording_process(executor: dg.ExecutorDefinition) -> dg.ExecutorDefinition:
    """`executor`, which first records its process as the process that works on the run."""
    create = executor.executor_creation_fn
    assert create is not None
    return dg.ExecutorDefinition(
        name=executor.name,
        config_schema=executor.config_schema.as_field(),
        requirements=executor.get_requirements,
        executor_creation_fn=lambda context: _RecordingExecutor(create(context)),
        description=executor.description,
    )


@dataclass(frozen=True, slots=True)
class _RecordingExecutor(dg.Executor):
    executor: dg.Executor

    @property
    def retries(self) -> Any:
        return self.executor.retries

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        record_process(plan_context.instance, plan_context.dagster_run)
        yield from self.executor.execute(plan_context, execution_plan)


def record_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Record this process on a run as the process that works on the run."""
    process = RunProcess.here(run_id=run.run_id)
    if RunProcess.of(run) != process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: process.as_json()})


def cancel_own_runs(instance: dg.DagsterInstance) -> None:
    """Mark every run that this process works on as canceled."""
    for run in instance.get_runs(dg.RunsFilter(statuses=_OPEN)):
        if RunProcess.of(run) == RunProcess.here(run_id=run.run_id):
            instance.report_run_canceled(run, f"The command was stopped. {_KEPT}")


def end_dead_runs(instance: dg.DagsterInstance, now: datetime) -> list[str]:
    """End the runs whose process died, and return the ids of these runs.

    After a kill or a power cut, Dagster would show a run as running forever, and count it against
    the limit of concurrent runs. Runs become failed, or canceled if the user asked for their end.
    """
    records = instance.get_run_records(dg.RunsFilter(statuses=_OPEN))
    dead = [record.dagster_run for record in records if _is_dead(record, now)]
    for run in dead:
        is_canceling = run.status is dg.DagsterRunStatus.CANCELING
        end = instance.report_run_canceled if is_canceling else instance.report_run_failed
        end(run, f"The process running this job died unexpectedly. {_KEPT}")
    return [run.run_id for run in dead]


def running_runs(instance: dg.DagsterInstance, location: str, now: datetime) -> list[dg.DagsterRun]:
    """The runs of a code location that a process works on now, on this machine or another one."""
    records = instance.get_run_records(dg.RunsFilter(statuses=_OPEN))
    alive = [record.dagster_run for record in records if not _is_dead(record, now)]
    origins = ((run, run.remote_job_origin) for run in alive)
    return [run for run, origin in origins if origin is None or origin.location_name == location]


def _is_dead(record: dg.RunRecord, now: datetime) -> bool:
    process = RunProcess.of(record.dagster_run)
    return now - record.update_timestamp > _START if process is None else process.is_dead
