"""The number of workers follows the cores that a process may use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNT = "from videomme_pipeline.processes.tasks import LocalWorkers; print(LocalWorkers().room)"
CPU_CGROUP = Path("/sys/fs/cgroup/cpu")


def count(*before: str) -> int:
    """The number of local workers of a new process. `before` are words before its command."""
    command = [*before, sys.executable, "-c", COUNT]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def test_a_process_has_one_worker_per_core_that_it_may_use() -> None:
    cores = sorted(os.sched_getaffinity(0))
    assert count() <= len(cores)
    assert count("taskset", "-c", str(cores[0])) == 1


def test_a_quota_of_cpu_time_limits_the_workers() -> None:
    cgroup = CPU_CGROUP / f"videomme-{os.getpid()}"
    try:
        cgroup.mkdir()
    except OSError:
        pytest.skip("the cgroups of this machine cannot be changed, or are of version 2")
    try:
        (cgroup / "cpu.cfs_period_us").write_text("100000")
        (cgroup / "cpu.cfs_quota_us").write_text("80000")
        join = f'echo $$ > {cgroup}/cgroup.procs && exec "$@"'
        command = ["sh", "-c", join, "sh", "true"]
        joined = subprocess.run(command, capture_output=True, text=True, check=False)
        if joined.returncode != 0:
            pytest.skip(f"a process of this machine cannot join a cgroup: {joined.stderr.strip()}")
        assert count("sh", "-c", join, "sh") == 1
    finally:
        cgroup.rmdir()
