"""Workers of Dask in real Slurm jobs: they run tasks, get no keys, and ended jobs are replaced."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.child_tasks import double, log_and_wait
from tests.support.dagster_ui import wait_until
from tests.support.slurm import CAN_RUN, jobs, slurm
from videomme_pipeline.cluster import dask as dask_module
from videomme_pipeline.cluster.dask import DaskSpec
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.children import TaskLimits
from videomme_pipeline.processes.identity import versions
from videomme_pipeline.processes.tasks import Workers, run_tasks
from videomme_pipeline.project.runs.progress import ignore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root"),
]

ARGUMENTS = {"cores": 1, "memory": "1GB", "interface": "lo"}
MINUTE = TaskLimits(seconds=60)


@pytest.fixture
def _slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with slurm(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


def slurm_spec(count: int = 2, max_wait_minutes: int = 10, **arguments: Any) -> DaskSpec:
    return DaskSpec(
        cluster="dask_jobqueue.SLURMCluster",
        scale={"jobs": count},
        arguments=ARGUMENTS | arguments,
        max_wait_minutes=max_wait_minutes,
    )


@contextmanager
def slurm_workers(folder: Path, count: int = 2, **arguments: Any) -> Iterator[Workers]:
    folder.mkdir()
    with slurm_spec(count, **arguments).connect(folder, ignore) as workers:
        yield workers


@pytest.mark.usefixtures("_slurm")
def test_slurm_jobs_run_tasks_without_keys_and_canceled_jobs_are_replaced(tmp_path: Path) -> None:
    with slurm_workers(tmp_path / "shared") as workers:
        assert jobs() == []
        values = run_tasks(double, range(20), workers=workers, limits=MINUTE)
        assert {result.task: result.value for result in values} == {n: 2 * n for n in range(20)}
        environments = environments_of_jobs()
        assert environments
        assert not [environment for environment in environments if "canary" in environment.values()]
        wait_until(lambda: len(workers.problems()) == 2)
        results = run_tasks(log_and_wait, _tasks(tmp_path, 30), workers=workers, limits=MINUTE)
        next(results)
        subprocess.run(["scancel", jobs()[0]], check=True)
        assert len([result.result() for result in results]) == 29
        # Another job did the task of the canceled job, and one whose result was not yet fetched.
        assert 30 <= len((tmp_path / "log").read_text().split()) <= 32
        assert len(jobs(ended=True)) == 3
    wait_until(lambda: jobs() == [], seconds=30)
    assert list((tmp_path / "logs").glob("*.err"))


@pytest.mark.usefixtures("_slurm")
def test_waiting_jobs_of_an_ended_run_are_canceled(tmp_path: Path) -> None:
    with slurm_workers(tmp_path / "shared", 9) as workers:
        results = run_tasks(log_and_wait, _tasks(tmp_path, 30), workers=workers, limits=MINUTE)
        next(results)
        assert len(jobs()) == 9
        results.close()
    wait_until(lambda: jobs() == [], seconds=30)


class Stopped:
    """A run of one task on Slurm jobs that cannot work: its messages, and its error."""

    def __init__(self, folder: Path, max_wait_minutes: int = 10, **arguments: Any) -> None:
        self.messages: list[str] = []
        self.logs = folder / "logs"
        (folder / "shared").mkdir(parents=True)
        spec = slurm_spec(2, max_wait_minutes, **arguments)
        began = time.monotonic()
        with (
            pytest.raises(ClusterError) as raised,
            spec.connect(folder / "shared", self.messages.append) as workers,
        ):
            list(run_tasks(double, [1], workers=workers, limits=MINUTE))
        self.seconds = time.monotonic() - began
        self.error = str(raised.value)


@pytest.mark.usefixtures("_slurm")
def test_jobs_that_fail_at_once_end_the_run_with_their_reason_and_logs(tmp_path: Path) -> None:
    prologue = ["echo the module python/9 is unknown >&2", "exit 3"]
    stopped = Stopped(tmp_path, job_script_prologue=prologue)
    failure = (
        r"job \d+ FAILED \(NonZeroExitCode\), its log in .*/logs ends with: .*python/9 is unknown"
    )
    assert re.search(failure, stopped.error)
    assert any(re.search(failure, message) for message in stopped.messages)
    assert f"log in {stopped.logs} ends" in stopped.error
    assert list(stopped.logs.glob("*.err"))


@pytest.mark.usefixtures("_slurm")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"queue": "nosuch"}, r"rejects the job \(.*[Ii]nvalid partition"),
        ({"memory": "900GB"}, r"rejects the job \("),
    ],
)
def test_a_job_that_slurm_rejects_ends_the_run_before_it_starts(
    tmp_path: Path, arguments: dict[str, Any], error: str
) -> None:
    assert re.search(error, Stopped(tmp_path, **arguments).error)
    with pytest.raises(ClusterError):
        slurm_spec(**arguments).check_jobs()


@pytest.mark.usefixtures("_slurm")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a folder", "Invalid directive .*folder/logs/videomme"),
        ("o'neil", "sbatch: fatal: .*Unmatched `'` in .*o'neil/logs/videomme"),
    ],
)
def test_slurm_names_a_folder_that_job_scripts_cannot_contain(
    tmp_path: Path, name: str, reason: str
) -> None:
    assert re.search(rf"rejects the job \({reason}", Stopped(tmp_path / name).error)


@pytest.mark.usefixtures("_slurm")
def test_the_check_of_jobs_returns_the_words_of_slurm_and_starts_none() -> None:
    words = str(slurm_spec().check_jobs())
    assert re.match(r"runs start dask_jobqueue.SLURMCluster; Job \d+ to start at", words)
    assert jobs(ended=True) == []


@pytest.mark.usefixtures("_slurm")
def test_a_run_says_why_jobs_wait_and_ends_after_a_limit(tmp_path: Path) -> None:
    command = ["sbatch", "--cpus-per-task=2", "--wrap=sleep 300", f"--output={tmp_path}/busy"]
    subprocess.run(command, check=True, capture_output=True)
    stopped = Stopped(tmp_path, max_wait_minutes=1)
    assert "PENDING (Resources)" in stopped.messages[-1]
    assert re.search(r"no worker for 6\d s \(Slurm jobs: 1 PENDING", stopped.error)


@pytest.mark.usefixtures("_slurm")
def test_a_job_of_another_version_ends_the_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_module, "versions", lambda: {**versions(), "av": "1.0"})
    assert "not 1.0; install the versions" in Stopped(tmp_path).error


@pytest.mark.usefixtures("_slurm")
def test_a_scheduler_that_jobs_cannot_reach_is_in_their_logs(tmp_path: Path) -> None:
    options = {"contact_address": "tls://127.0.0.1:9"}
    stopped = Stopped(tmp_path, scheduler_options=options, death_timeout=2)
    assert re.search(r"job \d+ FAILED .* ends with: .*Timed out starting", stopped.error)


def environments_of_jobs() -> list[dict[str, str]]:
    """The environments of all processes of this test's jobs. Other tests may have clusters, too."""
    cluster = os.environ["SLURM_CONF"]
    processes = psutil.process_iter(["environ"])
    environments = [process.info["environ"] or {} for process in processes]
    return [
        variables
        for variables in environments
        if variables.get("SLURM_CONF") == cluster and "SLURM_JOB_ID" in variables
    ]


def _tasks(folder: Path, count: int) -> list[tuple[Path, int]]:
    return [(folder / "log", number) for number in range(count)]
