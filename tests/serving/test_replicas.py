"""Servers that are started, die, and end with the process that started them."""

import re
import subprocess
import sys
from pathlib import Path
from socket import create_server

import psutil
import pytest

from tests.support.dagster_ui import wait_until
from tests.support.paths import ROOT
from tests.support.servers import is_answering, server_at
from videomme_pipeline.errors import ModelError
from videomme_pipeline.serving.configuration import LocalServers
from videomme_pipeline.serving.replicas import Replicas, free_ports

ENGINE = (sys.executable, "-m", "tests.support.engine")


def start(folder: Path, **changes: object) -> Replicas:
    """Two replicas whose weights and logs are in `folder`."""
    spec = {"engine": "vllm", "weights": str(folder), "replicas": 2, "command": ENGINE}
    serve = LocalServers.model_validate(spec | changes)
    return serve.launch("mine", str(folder), folder / "logs")


def with_children(servers: list[psutil.Process]) -> list[psutil.Process]:
    """These processes and those that they started."""
    return [*servers, *(child for server in servers for child in server.children(recursive=True))]


def test_a_server_that_cannot_start_is_an_error_with_its_last_output(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    replicas = start(tmp_path)
    with pytest.raises(ModelError, match=r"ended with status 1; its last output was 'out of mem"):
        replicas.wait_until_healthy(60, lambda _healthy, _total, _output: None)
    with pytest.raises(ModelError, match="is not installed"):
        start(tmp_path, command=["no-such-engine"])


@pytest.mark.parametrize("prefix", ["", "(EngineCore_0 pid=12) torch."])
def test_an_error_of_several_lines_is_shown_from_its_start(tmp_path: Path, prefix: str) -> None:
    error = f"{prefix}AcceleratorError: CUDA error: out of memory\n\nFor debugging, set it to 1.\n"
    (tmp_path / "broken").write_text(f"ValueError: earlier\n{error}")
    replicas = start(tmp_path, replicas=1)
    shown = f"was '{prefix}AcceleratorError: CUDA error: out of memory For debugging, set it to 1.'"
    with pytest.raises(ModelError, match=re.escape(shown)):
        replicas.wait_until_healthy(60, lambda _healthy, _total, _output: None)


def test_each_replica_has_its_own_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,7")
    with pytest.raises(ModelError, match="2 replicas need 4 GPUs, but CUDA_VISIBLE_DEVICES=3,5,7"):
        start(tmp_path, gpus_per_replica=2)


def test_ports_are_different_and_never_those_of_outgoing_connections() -> None:
    ports = free_ports(100)
    with create_server(("127.0.0.1", 0)) as chosen_by_the_system:
        assert max(ports) < chosen_by_the_system.getsockname()[1]
    assert len(set(ports)) == 100


@pytest.mark.slow
def test_a_replica_that_dies_is_started_again_at_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    slow = tmp_path / "slow"
    slow.touch()

    def show(_healthy: int, _total: int, output: str) -> None:
        if output == f"loading {tmp_path}":
            slow.unlink(missing_ok=True)

    replicas = start(tmp_path)
    replicas.wait_until_healthy(60, show)
    first, second = replicas.urls
    processes = with_children([server_at(first), server_at(second)])
    assert len(processes) == 4
    assert [process.environ()["CUDA_VISIBLE_DEVICES"] for process in processes[:2]] == ["3", "5"]
    processes[0].kill()
    wait_until(lambda: not is_answering(first), seconds=60)
    assert is_answering(second)
    wait_until(lambda: is_answering(first), seconds=60)
    assert replicas.failure is None
    processes += with_children([server_at(first), server_at(second)])
    replicas.close()
    psutil.wait_procs(processes, timeout=20)
    assert [process for process in processes if process.is_running()] == []


@pytest.mark.slow
def test_servers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from videomme_pipeline.serving.configuration import LocalServers\n"
        "serve = LocalServers(engine='vllm', weights=sys.argv[1], command=sys.argv[2:])\n"
        "servers = serve.start('mine', Path(sys.argv[1]), lambda healthy, total, output: None)\n"
        "print(*servers.urls, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), *ENGINE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().strip()
        processes = with_children([server_at(url, psutil.Process(parent.pid))])
        assert len(processes) == 2
        parent.kill()
    psutil.wait_procs(processes, timeout=20)
    assert [process for process in processes if process.is_running()] == []
