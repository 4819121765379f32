"""Dask workers on hosts that are reached by a real SSH server on this machine."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.child_tasks import double, environment_of_a_child
from tests.support.paths import ROOT
from tests.support.ssh_server import CAN_RUN, ssh_server
from videomme_pipeline.cluster.dask import connect
from videomme_pipeline.cluster.provider import DaskSpec
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.tasks import TaskLimits, run_tasks
from videomme_pipeline.project.runs.progress import ignore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CAN_RUN, reason="needs an SSH server (openssh-server)"),
]

MINUTE = TaskLimits(seconds=60)


@pytest.fixture
def ssh_config(tmp_path: Path) -> Iterator[Path]:
    with ssh_server(tmp_path) as config:
        yield config


def spec_of(config: Path, *hosts: str) -> DaskSpec:
    prologue = [f"export PYTHONPATH={ROOT}"]
    options = ["-F", str(config)]
    ssh = {"hosts": hosts, "cores": 1, "interface": "lo", "options": options, "prologue": prologue}
    return DaskSpec.model_validate({"ssh": ssh})


def test_hosts_run_tasks_over_tls_without_keys_and_a_lost_host_is_reported(
    ssh_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    shared, messages = tmp_path / "shared", list[str]()
    shared.mkdir()
    spec = spec_of(ssh_config, "node1", "node2", "stranger")
    with connect(spec, shared, messages.append) as workers:
        assert (shared / "key.pem").stat().st_mode & 0o077 == 0
        values = run_tasks(double, range(20), workers=workers, limits=MINUTE)
        assert {result.task: result.value for result in values} == {n: 2 * n for n in range(20)}
        assert all(address.startswith("tls://") for address in workers.problems())
        (result,) = run_tasks(environment_of_a_child, [0], workers=workers, limits=MINUTE)
        assert "canary" not in result.result().values()
        processes = worker_processes(shared)
        processes[0].send_signal(signal.SIGKILL)
        values = run_tasks(double, range(20), workers=workers, limits=MINUTE)
        assert len([result.result() for result in values]) == 20
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive
    assert "no worker on stranger (Host key verification failed.)" in messages[0]
    assert [message.partition("(")[0] for message in messages[1:]] in (
        ["cluster: no worker on node1 "],
        ["cluster: no worker on node2 "],
    )


def test_the_error_names_hosts_without_a_worker(ssh_config: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match=r"no worker on stranger \(Host key verification"),
        connect(spec_of(ssh_config, "stranger"), tmp_path, ignore),
    ):
        pass


def worker_processes(folder: Path) -> list[psutil.Process]:
    """The processes of workers with keys in `folder`, without those of `ssh`."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if "python" in process.name() and str(folder / "key.pem") in process.cmdline():
                processes.append(process)
    return processes
