"""Which runs are ended because their process is gone, and which are not touched."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.instance import open_instance
from assets.processes import PROCESS_TAG, RunProcess, end_dead_runs
from tests.support.paths import ROOT

STARTED = dg.DagsterRunStatus.STARTED
FAILURE = dg.DagsterRunStatus.FAILURE

SLEEPS = """
import sys
import time

import dagster as dg
from assets.instance import open_instance
from assets.processes import record_process

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


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance of its own, over each storage."""
    with open_instance() as instance:
        yield instance


def a_run(instance: dg.DagsterInstance, **noted: Any) -> dg.DagsterRun:
    """A run that has started and says this of its process; else what this process would say."""

    @dg.job
    def idle() -> None:
        """Nothing."""

    run = instance.create_run_for_job(idle)
    here = json.loads(RunProcess.here(run_id=run.run_id).as_json())
    instance.add_run_tags(run.run_id, {PROCESS_TAG: json.dumps(here | noted)})
    instance.report_dagster_event(
        dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "idle"), run.run_id
    )
    held = instance.get_run_by_id(run.run_id)
    assert held is not None
    assert held.status is STARTED
    return held


def a_number_that_is_free() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.slow
def test_a_killed_run_ends_and_a_living_one_goes_on(instance: dg.DagsterInstance) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPS],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asleep\n"
    assert end_dead_runs(instance) == []
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    (run,) = instance.get_runs()
    assert run.status is STARTED
    assert end_dead_runs(instance) == [run.run_id], "nobody has asked for its exit status yet"
    process.wait()
    assert [held.status for held in instance.get_runs()] == [FAILURE]
    assert end_dead_runs(instance) == []


def test_only_a_process_that_can_be_seen_from_here_is_called_dead(
    instance: dg.DagsterInstance,
) -> None:
    gone = a_number_that_is_free()
    alive = [
        a_run(instance),
        a_run(instance, boot="other", host="another machine", pid=gone),
        a_run(instance, namespace="another container", pid=gone),
        a_run(instance, run_id="of the run that it repeats", pid=gone),
    ]
    dead = [
        a_run(instance, pid=gone),
        a_run(instance, started=1.0),
        a_run(instance, boot="before the restart"),
    ]
    assert set(end_dead_runs(instance)) == {run.run_id for run in dead}
    left = instance.get_runs(dg.RunsFilter(statuses=[STARTED]))
    assert {run.run_id for run in left} == {run.run_id for run in alive}
