"""Dask workers as real Slurm jobs: they run tasks, get no keys, and replace canceled jobs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from videomme_pipeline.cluster.dask import DaskWorkers, connect
from videomme_pipeline.cluster.provider import DaskSpec

from tests.support.child_tasks import double, log_and_wait
from tests.support.paths import ROOT
from tests.support.ports import free_ports
from tests.support.slurm import CAN_RUN, slurm
from videomme_pipeline.cluster.slurm import LOGS
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.tasks import TaskLimits, run_tasks
from videomme_pipeline.project.runs.progress import ignore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root"),
]

SLURM = {"cores": 1, "memory": "1GB", "jobs": 2, "interface": "lo"}
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
    folder.mkdir()
    with connect(DaskSpec.model_validate({"slurm": SLURM}), folder, ignore) as workers:
        yield workers


@pytest.mark.usefixtures("_slurm")
def test_slurm_jobs_run_tasks_without_keys_and_canceled_jobs_are_replaced(tmp_path: Path) -> None:
    with slurm_workers(tmp_path / "shared") as workers:
        values = run_tasks(double, range(20), workers=workers, limits=MINUTE)
        assert {result.task: result.value for result in values} == {n: 2 * n for n in range(20)}
        environments = environments_of_jobs()
        assert environments
        assert not [environment for environment in environments if "canary" in environment.values()]
        tasks = [(tmp_path / "log", number) for number in range(10)]
        results = run_tasks(log_and_wait, tasks, workers=workers, limits=MINUTE)
        next(results)
        subprocess.run(["scancel", jobs()[0]], check=True)
        assert len([result.result() for result in results]) == 9
        # The canceled job may have had one task in progress, and one whose value was not yet sent.
        assert 10 <= len((tmp_path / "log").read_text().split()) <= 12
    assert jobs() == []


IN_A_THREAD = """
import signal, sys, threading
from pathlib import Path
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.cluster.dask import connect
from videomme_pipeline.cluster.provider import DaskSpec

def start():
    slurm = {"cores": 1, "memory": "1GB", "adapt": {"maximum": 1}, "interface": "lo"}
    with connect(DaskSpec.model_validate({"slurm": slurm}), Path(sys.argv[1]), ignore):
        print("started")

thread = threading.Thread(target=start)
thread.start()
thread.join()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.usefixtures("_slurm")
def test_a_cluster_of_slurm_jobs_starts_in_a_thread_and_leaves_ctrl_c_alone(tmp_path: Path) -> None:
    """A command works in a thread, so that its main thread can react to signals."""
    command = [sys.executable, "-c", IN_A_THREAD, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (ended.stdout, ended.returncode) == ("started\n", 0), ended.stderr


class Stopped:
    """A run of one task on Slurm jobs that cannot work: its messages, and its error."""

    def __init__(self, folder: Path, **slurm: object) -> None:
        self.messages: list[str] = []
        self.logs = folder / LOGS
        (folder / "shared").mkdir()
        spec = DaskSpec.model_validate({"slurm": SLURM | slurm})
        with (
            pytest.raises(ClusterError) as raised,
            connect(spec, folder / "shared", self.messages.append) as workers,
        ):
            list(run_tasks(double, [1], workers=workers, limits=MINUTE))
        self.error = str(raised.value)


@pytest.mark.usefixtures("_slurm")
def test_jobs_that_fail_at_once_end_the_run_with_their_reason_and_logs(tmp_path: Path) -> None:
    prologue = ["echo the module python/9 is unknown >&2", "exit 3"]
    stopped = Stopped(tmp_path, prologue=prologue)
    failure = r"job \d+: failed \(NonZeroExitCode\), its log ends with: .*python/9 is unknown"
    assert re.search(failure, stopped.error)
    assert any(re.search(failure, message) for message in stopped.messages)
    assert f"all logs are in {stopped.logs}" in stopped.error
    assert list(stopped.logs.glob("*.err"))


@pytest.mark.usefixtures("_slurm")
@pytest.mark.parametrize(
    ("slurm", "error"),
    [
        ({"queue": "nosuch"}, "rejects the job (.*[Ii]nvalid partition"),
        ({"memory": "900GB"}, "rejects the job"),
        ({"interface": "ib7"}, "no network interface `ib7`; .*: .*lo"),
    ],
)
def test_a_job_that_slurm_rejects_ends_the_run_before_it_starts(
    tmp_path: Path, slurm: dict[str, object], error: str
) -> None:
    assert re.search(error.replace("job (", r"job \("), Stopped(tmp_path, **slurm).error)
    with pytest.raises(ClusterError):
        DaskSpec.model_validate({"slurm": SLURM | slurm}).check_jobs()


@pytest.mark.usefixtures("_slurm")
def test_a_run_says_why_jobs_wait_and_ends_after_a_limit(tmp_path: Path) -> None:
    command = ["sbatch", "--cpus-per-task=2", "--wrap=sleep 300", f"--output={tmp_path}/busy"]
    subprocess.run(command, check=True, capture_output=True)
    stopped = Stopped(tmp_path, max_wait_minutes=1)
    assert "pending (Resources)" in stopped.messages[-1]
    assert "no worker for 1 minutes" in stopped.error


@pytest.mark.usefixtures("_slurm")
def test_workers_use_the_given_ports_and_python(tmp_path: Path) -> None:
    first = free_ports(1)[0]
    ports = range(first, first + 20)
    spec = SLURM | {"ports": f"{ports[0]}:{ports[-1]}", "python": sys.executable, "jobs": 1}
    (tmp_path / "shared").mkdir()
    with connect(DaskSpec.model_validate({"slurm": spec}), tmp_path / "shared", ignore) as workers:
        list(run_tasks(double, [1], workers=workers, limits=MINUTE))
        addresses = [workers._client.scheduler.address, *workers._client.nthreads()]
    assert all(int(address.rpartition(":")[2]) in ports for address in addresses)


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
