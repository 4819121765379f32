"""Dask workers as real Slurm jobs: they run tasks, get no keys, and replace canceled jobs."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.child_tasks import double, log_and_wait
from tests.support.slurm import CAN_RUN, slurm
from videomme_pipeline.cluster.dask import DaskWorkers, connect
from videomme_pipeline.cluster.provider import DaskSpec
from videomme_pipeline.processes.tasks import TaskLimits, run_tasks
from videomme_pipeline.project.runs.progress import no_message

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root"),
]

MINUTE = TaskLimits(seconds=60)


@pytest.fixture
def _slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with slurm(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


@contextmanager
def slurm_workers(folder: Path) -> Iterator[DaskWorkers]:
    slurm = {"cores": 1, "memory": "1GB", "jobs": 2}
    folder.mkdir()
    with connect(DaskSpec.model_validate({"slurm": slurm}), folder, no_message) as workers:
        yield workers


@pytest.mark.usefixtures("_slurm")
def test_slurm_jobs_run_tasks_without_keys_and_canceled_jobs_are_replaced(tmp_path: Path) -> None:
    with slurm_workers(tmp_path / "shared") as workers:
        values = run_tasks(double, range(20), workers=workers, limits=MINUTE)
        assert {result.task: result.value for result in values} == {n: 2 * n for n in range(20)}
        environments = environments_of_jobs()
        assert environments
        assert not [each for each in environments if "canary" in each.values()]
        tasks = [(tmp_path / "log", number) for number in range(10)]
        results = run_tasks(log_and_wait, tasks, workers=workers, limits=MINUTE)
        next(results)
        subprocess.run(["scancel", jobs()[0]], check=True)
        assert len([result.result() for result in results]) == 9
        # The canceled job may have had one task in progress, and one whose value was not yet sent.
        assert 10 <= len((tmp_path / "log").read_text().split()) <= 12
    assert jobs() == []


def environments_of_jobs() -> list[dict[str, str]]:
    """The environments of the processes of all Slurm jobs on this machine."""
    environments = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environments.append(process.environ())
    return [environment for environment in environments if "SLURM_JOB_ID" in environment]


def jobs() -> list[str]:
    command = ["squeue", "--noheader", "--format=%i", "--states=running,pending"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
