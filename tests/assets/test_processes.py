"""Runs whose process died are marked as failed. All other runs are left unchanged."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.support.paths import ROOT
from videomme_pipeline.assets.dagster_internals import execute
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.processes import (
    PROCESS_TAG,
    RunProcess,
    end_dead_runs,
    recording_process,
)

STARTED = dg.DagsterRunStatus.STARTED
FAILURE = dg.DagsterRunStatus.FAILURE

SLEEPS = """
import sys
import time

import dagster as dg
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.processes import record_process

@dg.op
def sleep(context):
    record_process(context.instance, context.run)
    print("asleep", flush=True)
    time.sleep(600)

@dg.job
def sleeping():
    sleep()

with open_instance() as instance:
    sleeping.execute_in_process(instance=instance)
"""

KILLED_BEFORE_ITS_FIRST_STEP = """
import os
import signal

import dagster as dg
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.processes import run_here
from videomme_pipeline.project.project import open_project

@dg.resource
def kills(context):
    os.kill(os.getpid(), signal.SIGKILL)

@dg.op(required_resource_keys={"kills"})
def idle():
    pass

@dg.job(resource_defs={"kills": kills}, executor_def=dg.in_process_executor)
def killed():
    idle()

with open_instance() as instance:
    run_here(open_project(), instance, dg.Definitions(jobs=[killed]), "killed")
"""


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """An empty instance on each storage."""
    with open_instance() as instance:
        yield instance


def started_run(instance: dg.DagsterInstance, **identity: Any) -> dg.DagsterRun:
    """A started run, whose recorded process is this one except for the given parts."""

    @dg.job
    def idle() -> None:
        """Nothing."""

    run = instance.create_run_for_job(idle)
    here = json.loads(RunProcess.here(run_id=run.run_id).as_json())
    instance.add_run_tags(run.run_id, {PROCESS_TAG: json.dumps(here | identity)})
    instance.report_dagster_event(
        dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "idle"), run.run_id
    )
    started = instance.get_run_by_id(run.run_id)
    assert started is not None
    assert started.status is STARTED
    return started


def pid_without_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.slow
def test_only_a_killed_run_is_marked_as_failed(instance: dg.DagsterInstance) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPS],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asleep\n"
    assert end_dead_runs(instance, datetime.now(UTC)) == []
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    (run,) = instance.get_runs()
    assert run.status is STARTED
    assert end_dead_runs(instance, datetime.now(UTC)) == [run.run_id], (
        "a zombie process counts as dead"
    )
    process.wait()
    assert [run.status for run in instance.get_runs()] == [FAILURE]
    assert end_dead_runs(instance, datetime.now(UTC)) == []


def test_a_process_is_dead_only_if_this_machine_can_see_that_it_ended(
    instance: dg.DagsterInstance,
) -> None:
    free_pid = pid_without_process()
    alive = [
        started_run(instance),
        started_run(instance, boot="other", host="another machine", pid=free_pid),
        started_run(instance, namespace="another container", pid=free_pid),
        started_run(instance, run_id="of the run that it repeats", pid=free_pid),
    ]
    dead = [
        started_run(instance, pid=free_pid),
        started_run(instance, started=1.0),
        started_run(instance, boot="before the restart"),
    ]
    assert set(end_dead_runs(instance, datetime.now(UTC))) == {run.run_id for run in dead}
    left = instance.get_runs(dg.RunsFilter(statuses=[STARTED]))
    assert {run.run_id for run in left} == {run.run_id for run in alive}


@pytest.mark.slow
def test_a_run_that_is_killed_before_its_first_step_is_ended(instance: dg.DagsterInstance) -> None:
    subprocess.run(
        [sys.executable, "-c", KILLED_BEFORE_ITS_FIRST_STEP], cwd=ROOT, env=os.environ, check=False
    )
    (run,) = instance.get_runs()
    assert not run.is_finished
    assert end_dead_runs(instance, datetime.now(UTC)) == [run.run_id]
    assert [run.status for run in instance.get_runs()] == [FAILURE]


def test_a_run_that_is_killed_before_it_starts_is_ended(instance: dg.DagsterInstance) -> None:
    @dg.job
    def idle() -> None:
        """Nothing."""

    run = instance.create_run_for_job(idle)
    process = json.loads(RunProcess.here(run_id=run.run_id).as_json())
    recorded = json.dumps(process | {"pid": pid_without_process()})
    instance.add_run_tags(run.run_id, {PROCESS_TAG: recorded})
    assert end_dead_runs(instance, datetime.now(UTC)) == [run.run_id]
    assert [run.status for run in instance.get_runs()] == [FAILURE]


def test_the_process_of_the_executor_is_recorded_on_a_run(instance: dg.DagsterInstance) -> None:
    @dg.job(executor_def=recording_process(dg.in_process_executor))
    def idle() -> None:
        """Nothing."""

    execute(idle, instance.create_run_for_job(idle), instance)
    (run,) = instance.get_runs()
    assert RunProcess.of(run) == RunProcess.here(run_id=run.run_id)


def test_a_launched_run_that_never_starts_a_step_is_ended_after_a_while(
    instance: dg.DagsterInstance,
) -> None:
    @dg.job
    def idle() -> None:
        """Nothing."""

    launched = instance.create_run_for_job(idle)
    terminated = instance.create_run_for_job(idle)
    instance.report_run_canceling(terminated)
    now = datetime.now(UTC)
    assert end_dead_runs(instance, now) == []
    ended = end_dead_runs(instance, now + timedelta(hours=1))
    assert set(ended) == {launched.run_id, terminated.run_id}
    statuses = {run.run_id: run.status for run in instance.get_runs()}
    assert statuses == {
        launched.run_id: FAILURE,
        terminated.run_id: dg.DagsterRunStatus.CANCELED,
    }
