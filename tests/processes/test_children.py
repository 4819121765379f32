"""Child processes: a failure in one is reported and affects only its own task."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.support.child_tasks import double, misbehave, pid, wait_for_pids, write_pid
from videomme_pipeline.processes.children import Child, ChildFailedError, TaskLimits


def test_one_process_runs_all_tasks_of_a_child_until_a_crash() -> None:
    child = Child()
    first = child.run(pid, 1, TaskLimits(seconds=60))
    assert child.run(pid, 2, TaskLimits(seconds=60)) == first
    with pytest.raises(ChildFailedError, match="SIGSEGV"):
        child.run(misbehave, "crash", TaskLimits(seconds=60))
    second = child.run(pid, 3, TaskLimits(seconds=60))
    assert second != first
    os.kill(second, signal.SIGKILL)  # between two tasks, so that no task fails
    psutil.wait_procs([psutil.Process(second)], timeout=20)
    third = child.run(pid, 4, TaskLimits(seconds=60))
    assert third != second
    child.close()
    assert not psutil.pid_exists(third)
    with pytest.raises(ChildFailedError, match="was killed"):
        child.run(pid, 5, TaskLimits(seconds=60))


def test_a_task_with_another_memory_limit_runs_in_another_process() -> None:
    child = Child()
    first = child.run(pid, 1, TaskLimits(seconds=60))
    assert child.run(pid, 2, TaskLimits(seconds=60, memory_bytes=4 << 30)) != first
    assert not psutil.pid_exists(first)
    child.close()


def test_a_child_that_is_killed_from_another_thread_fails_its_task(tmp_path: Path) -> None:
    child = Child()
    with ThreadPoolExecutor(max_workers=1) as thread:
        running = thread.submit(child.run, write_pid, tmp_path / "hang", TaskLimits(seconds=600))
        wait_for_pids([tmp_path / "hang"])
        child.kill()
        with pytest.raises(ChildFailedError, match="was killed"):
            running.result(timeout=30)


def test_threads_that_share_a_child_get_their_own_results() -> None:
    child, numbers = Child(), range(400)
    with ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda n: child.run(double, n, TaskLimits(seconds=30)), numbers)
        assert list(results) == [2 * number for number in numbers]
