"""Workers as real Slurm jobs: they run tasks, get no keys, and replace canceled jobs."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.child_tasks import double, log_and_wait
from tests.support.dagster_ui import wait_until
from tests.support.slurm import CAN_RUN, jobs, slurm
from videomme_pipeline.cluster import queue
from videomme_pipeline.cluster import slurm as slurm_module
from videomme_pipeline.cluster.slurm import LOGS, SlurmSpec
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.tasks import TaskLimits, Workers, run_tasks
from videomme_pipeline.project.runs.progress import ignore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root"),
]

SLURM = {"cores": 1, "memory": "1GB", "jobs": 2}
MINUTE = TaskLimits(seconds=60)


@pytest.fixture
def _slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with slurm(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


@contextmanager
def slurm_workers(folder: Path, **slurm: object) -> Iterator[Workers]:
    folder.mkdir()
    with SlurmSpec.model_validate(SLURM | slurm).connect(folder, ignore) as workers:
        yield workers


@pytest.mark.usefixtures("_slurm")
def test_slurm_jobs_run_tasks_without_keys_and_canceled_jobs_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_module, "REPLACE_SECONDS", 0)
    with slurm_workers(tmp_path / "shared") as workers:
        values = run_tasks(double, range(20), workers=workers, limits=MINUTE)
        assert {result.task: result.value for result in values} == {n: 2 * n for n in range(20)}
        environments = environments_of_jobs()
        assert environments
        assert not [environment for environment in environments if "canary" in environment.values()]
        results = run_tasks(log_and_wait, _tasks(tmp_path, 10), workers=workers, limits=MINUTE)
        next(results)
        subprocess.run(["scancel", jobs()[0]], check=True)
        assert len([result.result() for result in results]) == 9
        # The canceled job had one task in progress, which another job did.
        assert 10 <= len((tmp_path / "log").read_text().split()) <= 11
        assert len(jobs()) == 2
    assert jobs() == []


@pytest.mark.usefixtures("_slurm")
def test_the_number_of_jobs_follows_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_module, "IDLE_SECONDS", 3)
    monkeypatch.setattr(slurm_module, "REPLACE_SECONDS", 0)
    with slurm_workers(tmp_path / "shared") as workers:
        assert jobs() == []
        list(run_tasks(double, [1], workers=workers, limits=MINUTE))
        assert len(jobs()) == 1
        list(run_tasks(log_and_wait, _tasks(tmp_path, 16), workers=workers, limits=MINUTE))
        assert len(jobs()) == 2
        wait_until(lambda: jobs() == [], seconds=30)
        list(run_tasks(double, [1], workers=workers, limits=MINUTE))


@pytest.mark.usefixtures("_slurm")
def test_waiting_jobs_of_an_ended_run_are_canceled(tmp_path: Path) -> None:
    with slurm_workers(tmp_path / "shared", jobs=9) as workers:
        results = run_tasks(log_and_wait, _tasks(tmp_path, 30), workers=workers, limits=MINUTE)
        next(results)
        assert len(jobs()) == 9
        results.close()
    wait_until(lambda: jobs() == [], seconds=30)


class Stopped:
    """A run of one task on Slurm jobs that cannot work: its messages, and its error."""

    def __init__(self, folder: Path, **slurm: object) -> None:
        self.messages: list[str] = []
        self.logs = folder / LOGS
        (folder / "shared").mkdir(parents=True)
        spec = SlurmSpec.model_validate(SLURM | slurm)
        with (
            pytest.raises(ClusterError) as raised,
            spec.connect(folder / "shared", self.messages.append) as workers,
        ):
            list(run_tasks(double, [1], workers=workers, limits=MINUTE))
        self.error = str(raised.value)


@pytest.mark.usefixtures("_slurm")
def test_jobs_that_fail_at_once_end_the_run_with_their_reason_and_logs(tmp_path: Path) -> None:
    prologue = ["echo the module python/9 is unknown >&2", "exit 3"]
    stopped = Stopped(tmp_path, prologue=prologue)
    failure = r"job \d+_\d: failed \(NonZeroExitCode\), its log ends with: .*python/9 is unknown"
    assert re.search(failure, stopped.error)
    assert any(re.search(failure, message) for message in stopped.messages)
    assert f"all logs are in {stopped.logs}" in stopped.error
    assert list(stopped.logs.glob("*.log"))


@pytest.mark.usefixtures("_slurm")
@pytest.mark.parametrize(
    ("slurm", "error"),
    [
        ({"queue": "nosuch"}, "rejects the job (.*[Ii]nvalid partition"),
        ({"memory": "900GB"}, "rejects the job"),
    ],
)
def test_a_job_that_slurm_rejects_ends_the_run_before_it_starts(
    tmp_path: Path, slurm: dict[str, object], error: str
) -> None:
    assert re.search(error.replace("job (", r"job \("), Stopped(tmp_path, **slurm).error)
    with pytest.raises(ClusterError):
        SlurmSpec.model_validate(SLURM | slurm).check_jobs()


@pytest.mark.usefixtures("_slurm")
def test_a_run_says_why_jobs_wait_and_ends_after_a_limit(tmp_path: Path) -> None:
    command = ["sbatch", "--cpus-per-task=2", "--wrap=sleep 300", f"--output={tmp_path}/busy"]
    subprocess.run(command, check=True, capture_output=True)
    stopped = Stopped(tmp_path, max_wait_minutes=1)
    assert "pending (Resources)" in stopped.messages[-1]
    assert "no worker for 1 minutes" in stopped.error


@pytest.mark.usefixtures("_slurm")
def test_a_job_of_another_version_or_without_the_folder_ends_the_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {**queue.versions(), "av": "1.0"}
    with monkeypatch.context() as patch:
        patch.setattr(queue, "versions", lambda: changed)
        assert "not 1.0; install the versions" in Stopped(tmp_path / "a").error
    folder, python = tmp_path / "b", tmp_path / "python"
    hide = f"mount -t tmpfs none {folder}/shared && exec {sys.executable} $*"
    python.write_text(f'#!/bin/sh\nexec unshare --mount sh -c "{hide}"\n')
    python.chmod(0o755)
    assert "no run has the folder" in Stopped(folder, python=str(python)).error


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
