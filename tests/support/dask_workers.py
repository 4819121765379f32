"""A Dask scheduler and workers as processes on this machine, each with a home of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT
from videomme_pipeline.cluster.dask import DaskSpec
from videomme_pipeline.processes.tasks import Workers
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.serving.replicas import free_ports

Process = subprocess.Popen[bytes]


@dataclass
class DaskProcesses:
    """A scheduler, and workers of one task at a time. Their logs and homes are in `folder`."""

    folder: Path
    tls: dict[str, str] | None = None
    processes: list[Process] = field(default_factory=list)
    """The workers."""

    def __post_init__(self) -> None:
        (self.port,) = free_ports(1)
        options = ["--host=127.0.0.1", f"--port={self.port}", "--dashboard-address=127.0.0.1:0"]
        self.scheduler = self._start("dask_scheduler", *options)

    @property
    def address(self) -> str:
        return f"{'tls' if self.tls else 'tcp'}://127.0.0.1:{self.port}"

    @property
    def spec(self) -> DaskSpec:
        return DaskSpec(scheduler=self.address, tls=self.tls)

    def start(self, **variables: str) -> Process:
        """Start a worker, with these environment variables beside those of this process."""
        options = ["--nthreads=1", "--no-nanny", "--host=127.0.0.1", "--death-timeout=60"]
        process = self._start("dask_worker", self.address, *options, **variables)
        self.processes.append(process)
        return process

    @contextmanager
    def run(self, on_message: Callable[[str], None] = ignore) -> Iterator[Workers]:
        """The workers, in a new run."""
        with self.spec.connect(self.folder, on_message) as workers:
            yield workers

    def _start(self, program: str, *options: str, **variables: str) -> Process:
        number = len(self.processes)
        home = self.folder / f"{program}{number}"
        home.mkdir(parents=True, exist_ok=True)
        if self.tls:
            names = {name: name.replace("client_", "").replace("_", "-") for name in self.tls}
            options = (*options, *(f"--{names[name]}={file}" for name, file in self.tls.items()))
        with (self.folder / f"{program}{number}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *options],
                cwd=home,
                stdout=log,
                stderr=log,
                env={**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), **variables},
            )


@contextmanager
def dask_workers(
    folder: Path, count: int = 2, tls: dict[str, str] | None = None
) -> Iterator[DaskProcesses]:
    """A scheduler with `count` workers. All are killed after the block."""
    cluster = DaskProcesses(folder, tls)
    try:
        for _ in range(count):
            cluster.start()
        yield cluster
    finally:
        for process in (*cluster.processes, cluster.scheduler):
            process.kill()
            process.wait()
