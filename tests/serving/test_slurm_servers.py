"""Servers in real Slurm jobs: they wait in the queue, are started again, and end with their run."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.dagster_ui import wait_until
from tests.support.paths import ROOT
from tests.support.servers import is_answering
from tests.support.slurm import CAN_RUN, jobs, slurm
from videomme_pipeline.errors import ClusterError, ModelError
from videomme_pipeline.serving import replicas as replicas_module
from videomme_pipeline.serving.configuration import LocalServers
from videomme_pipeline.serving.replicas import Replicas

pytestmark = pytest.mark.slow
needs_slurm = pytest.mark.skipif(not CAN_RUN, reason="needs Slurm, munge and root")

ENGINE = (sys.executable, "-m", "tests.support.engine")
JOB = {"cores": 1, "memory": "1GB"}


@pytest.fixture
def _slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with slurm(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


def settings(folder: Path, job: Mapping[str, object] = {}, **changes: object) -> LocalServers:
    values = {"engine": "vllm", "weights": str(folder), "command": ENGINE, "slurm": {**JOB, **job}}
    return LocalServers.model_validate(values | changes)


@contextmanager
def running(
    serve: LocalServers, show: Callable[[int, int, str], None] = lambda *_: None
) -> Iterator[Replicas]:
    """The started servers, with their logs beside their weights."""
    servers = serve.start("mine", Path(serve.weights) / "logs", show)
    try:
        yield servers
    finally:
        servers.close()


def engines(weights: Path) -> list[psutil.Process]:
    """The engines of these weights, without the processes that wait for them."""
    processes = psutil.process_iter(["cmdline"])
    expected = [ENGINE[2], str(weights)]
    return [process for process in processes if (process.info["cmdline"] or [])[2:4] == expected]


def submitted(*options: str) -> str:
    """A job that needs both cores, once it runs."""
    command = ["sbatch", "--parsable", "--cpus-per-task=2", "--output=/dev/null", *options]
    process = subprocess.run(
        [*command, "--wrap=sleep 300"], check=True, capture_output=True, text=True
    )
    job = process.stdout.strip()
    wait_until(lambda: state(job) == "RUNNING", seconds=60)
    return job


def state(job: str) -> str:
    command = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def cancel(job: str) -> None:
    subprocess.run(["scancel", job], check=True)


@needs_slurm
@pytest.mark.usefixtures("_slurm")
def test_servers_wait_in_the_queue_and_replace_a_canceled_job_at_the_same_url(
    tmp_path: Path,
) -> None:
    serve, busy, outputs = settings(tmp_path, replicas=2), submitted(), list[str]()

    def show(_healthy: int, _total: int, output: str) -> None:
        outputs.append(output)
        if "pending (" in output and state(busy) == "RUNNING":
            cancel(busy)

    assert "Slurm jobs; Job " in serve.check()
    assert jobs() == [busy], "a check submits nothing"
    with running(serve, show) as servers:
        logs = "".join(log.read_text() for log in (tmp_path / "logs").glob("*.log"))
        assert ": pending (Resources)" in logs
        assert f"loading {tmp_path}" in outputs
        first, second = servers.urls
        ports = {
            process.cmdline()[process.cmdline().index("--port") + 1]
            for process in engines(tmp_path)
        }
        assert len(ports) == 2
        assert not [port for port in ports for url in servers.urls if f":{port}/" in url]
        environments = [process.environ() for process in engines(tmp_path)]
        assert sorted(values["CUDA_VISIBLE_DEVICES"] for values in environments) == ["0", "1"]
        assert not [values for values in environments if "canary" in values.values()]
        cancel(jobs()[0])
        wait_until(lambda: not (is_answering(first) and is_answering(second)), seconds=60)
        assert is_answering(first) or is_answering(second)
        wait_until(lambda: is_answering(first) and is_answering(second), seconds=60)
        assert servers.failure is None
    assert jobs() == []
    wait_until(lambda: engines(tmp_path) == [], seconds=60)
    assert [path.name for path in (tmp_path / "logs").iterdir() if path.suffix != ".log"] == []


@needs_slurm
@pytest.mark.usefixtures("_slurm")
def test_a_preempted_server_is_started_again_as_often_as_the_budget_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas_module, "MAX_RESTARTS", 1)
    with running(settings(tmp_path)) as servers:
        (url,) = servers.urls
        urgent = submitted("--partition=urgent")
        wait_until(lambda: not is_answering(url), seconds=60)
        assert servers.failure is None
        cancel(urgent)
        wait_until(lambda: is_answering(url), seconds=90)
        submitted("--partition=urgent")
        wait_until(lambda: servers.failure is not None, seconds=60)
        assert "last output was 'Slurm job " in str(servers.failure)
        assert ": preempted, its log ends with: " in str(servers.failure)


@needs_slurm
@pytest.mark.usefixtures("_slurm")
def test_a_job_that_cannot_serve_ends_the_start_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with (
        pytest.raises(ModelError, match=r"failed \(NonZeroExitCode\).*out of memory"),
        running(settings(tmp_path)),
    ):
        pass
    with pytest.raises(ClusterError, match=r"Slurm rejects the job .*`serve: slurm`"):
        settings(tmp_path, {"queue": "nosuch"}).check()
    submitted()
    waiting = settings(tmp_path, {"max_wait_minutes": 1})
    with pytest.raises(ModelError, match=r"pending .*no start within 1 minutes"), running(waiting):
        pass


STARTED_AND_PRINTED = """
import sys, time
from pathlib import Path
from videomme_pipeline.serving.configuration import LocalServers
serve = LocalServers.model_validate_json(sys.argv[1])
servers = serve.start("mine", Path(sys.argv[2]), lambda *shown: print(shown[2], flush=True))
print("ready", flush=True)
time.sleep(600)
"""


@needs_slurm
@pytest.mark.usefixtures("_slurm")
def test_jobs_end_with_the_process_that_needs_them(tmp_path: Path) -> None:
    serve = settings(tmp_path).model_dump_json()
    command = [sys.executable, "-c", STARTED_AND_PRINTED, serve, str(tmp_path / "logs")]
    for awaited in ("ready", "pending"):
        if awaited == "pending":
            submitted()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
            assert parent.stdout is not None
            assert any(awaited in line for line in parent.stdout)
            count = len(jobs())
            parent.kill()
        wait_until(lambda: len(jobs()) == count - 1, seconds=30)  # noqa: B023 - called at once
        wait_until(lambda: engines(tmp_path) == [], seconds=30)


def test_an_engine_ends_if_its_relay_and_machine_were_killed(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from videomme_pipeline.serving import slurm\n"
        "slurm.SILENT_RELAY_SECONDS = 5\n"
        "sys.exit(slurm.serve(Path(sys.argv[1]), sys.argv[2:]))\n"
    )
    address = tmp_path / "address"
    engine = [*ENGINE, str(tmp_path), "--port", "{port}"]
    command = [sys.executable, "-c", code, str(address), *engine]
    with subprocess.Popen(command, cwd=ROOT) as job:
        wait_until(address.exists, seconds=60)
        url = f"http://{address.read_text()}/v1"
        wait_until(lambda: is_answering(url), seconds=60)
        for _ in range(5):
            address.touch()
            time.sleep(2)
        assert job.poll() is None
        assert job.wait(60) != 0
    assert engines(tmp_path) == []
