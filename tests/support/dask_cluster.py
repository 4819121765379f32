"""A Dask scheduler and workers as processes on this machine, with or without TLS."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from distributed import Client, Security

from tests.support.paths import ROOT
from tests.support.ports import free_port, wait_until_open
from videomme_pipeline.cluster.provider import DaskSpec
from videomme_pipeline.cluster.settings import TIMER_VARIABLES, TlsSpec

_OPTIONS = ("--host", "127.0.0.1", "--no-dashboard")


@dataclass
class DaskCluster:
    """`workers` are the processes of the workers, without a process that restarts them."""

    folder: Path
    port: int
    tls: TlsSpec | None
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{'tls' if self.tls else 'tcp'}://127.0.0.1:{self.port}"

    @property
    def spec(self) -> DaskSpec:
        """The content of a `cluster.yaml` for this cluster."""
        return DaskSpec(address=self.address, tls=self.tls)

    def start_worker(self, threads: int = 1) -> subprocess.Popen[bytes]:
        """Start a worker, which connects as soon as it can."""
        options = [self.address, "--nthreads", str(threads), "--no-nanny", "--death-timeout", "60"]
        worker = _start(self.folder, "worker", *options, *_options(self.tls))
        self.workers.append(worker)
        return worker

    def restart_scheduler(self) -> None:
        """Kill the scheduler, and start another one at the same address."""
        _kill(self.scheduler)
        self.scheduler = _start_scheduler(self.folder, self.port, self.tls)


@contextmanager
def dask_cluster(
    folder: Path, workers: int = 2, *, security: Security | None = None
) -> Iterator[DaskCluster]:
    """A scheduler with workers of one thread each. All are killed after the block.

    With `security`, such as `Security.temporary()`, they use TLS with its keys, stored in `folder`.
    """
    port, tls = free_port(), write_keys(security, folder) if security else None
    cluster = DaskCluster(folder, port, tls, _start_scheduler(folder, port, tls))
    try:
        for _ in range(workers):
            cluster.start_worker()
        with Client(cluster.address, security=security, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)
        yield cluster
    finally:
        for process in (*cluster.workers, cluster.scheduler):
            _kill(process)


def write_keys(security: Security, folder: Path) -> TlsSpec:
    """Write the keys of a client to files in `folder`."""
    texts = security.get_tls_config_for_role("client")
    files = {name: folder / f"{name}.pem" for name in ("ca_file", "cert", "key")}
    for name, file in files.items():
        file.write_text(texts[name])
    return TlsSpec(ca_file=files["ca_file"], certificate=files["cert"], key=files["key"])


def _options(tls: TlsSpec | None) -> list[str]:
    if tls is None:
        return [*_OPTIONS]
    files = ["--tls-ca-file", tls.ca_file, "--tls-cert", tls.certificate, "--tls-key", tls.key]
    return [*_OPTIONS, *map(str, files)]


def _start_scheduler(folder: Path, port: int, tls: TlsSpec | None) -> subprocess.Popen[bytes]:
    options = [*_options(tls), "--protocol", "tls" if tls else "tcp"]
    scheduler = _start(folder, "scheduler", "--port", str(port), *options)
    wait_until_open(port)
    return scheduler


def _start(folder: Path, kind: str, *options: str) -> subprocess.Popen[bytes]:
    with (folder / f"dask-{kind}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", kind, *options],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, **TIMER_VARIABLES, "PYTHONPATH": str(ROOT)},
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
