"""A Dask scheduler and workers as processes on this machine."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from distributed import Client

from tests.support.paths import ROOT

_OPTIONS = ("--host", "127.0.0.1", "--no-dashboard")


@dataclass
class DaskCluster:
    """`workers` are the processes of the workers, without a process that restarts them."""

    folder: Path
    port: int
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start_worker(self, threads: int = 1) -> subprocess.Popen[bytes]:
        """Start a worker, which connects as soon as it can."""
        options = [self.address, "--nthreads", str(threads), "--no-nanny", *_OPTIONS]
        worker = _start(self.folder, "worker", *options, "--death-timeout", "60")
        self.workers.append(worker)
        return worker

    def restart_scheduler(self) -> None:
        """Kill the scheduler, and start another one at the same address."""
        _kill(self.scheduler)
        self.scheduler = _start_scheduler(self.folder, self.port)


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[DaskCluster]:
    """A scheduler with workers of one thread each. All are killed after the block."""
    port = _free_port()
    cluster = DaskCluster(folder, port, _start_scheduler(folder, port))
    try:
        for _ in range(workers):
            cluster.start_worker()
        with Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)
        yield cluster
    finally:
        for process in (*cluster.workers, cluster.scheduler):
            _kill(process)


def _start_scheduler(folder: Path, port: int) -> subprocess.Popen[bytes]:
    scheduler = _start(folder, "scheduler", "--port", str(port), *_OPTIONS)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            break
    return scheduler


def _start(folder: Path, kind: str, *options: str) -> subprocess.Popen[bytes]:
    with (folder / f"dask-{kind}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", kind, *options],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
