"""Workers as processes on this machine, which wait for runs in a folder."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT
from videomme_pipeline.cluster.queue import RUN
from videomme_pipeline.cluster.workers import FolderSpec
from videomme_pipeline.processes.tasks import Workers
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.storage.publish import scratch_folder

MODULE = "videomme_pipeline.cluster.worker"


@dataclass
class FolderWorkers:
    """Workers of one task at a time that watch `folder`, and the number that has started."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def spec(self) -> FolderSpec:
        return FolderSpec(folder=self.folder)

    def start(self) -> subprocess.Popen[bytes]:
        process = start_worker(self.folder, "--watch", "--tasks", "1")
        self.processes.append(process)
        return process

    @contextmanager
    def run(self, on_message: Callable[[str], None] = ignore) -> Iterator[Workers]:
        """The workers, in a new run."""
        with (
            scratch_folder(self.folder / RUN) as folder,
            self.spec.connect(folder, on_message) as workers,
        ):
            yield workers


@contextmanager
def folder_workers(folder: Path, count: int = 2) -> Iterator[FolderWorkers]:
    """`count` workers that watch `folder`. They are killed after the block."""
    workers = FolderWorkers(folder)
    try:
        for _ in range(count):
            workers.start()
        yield workers
    finally:
        for process in workers.processes:
            process.kill()
            process.wait()


def start_worker(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """A worker whose working directory is not that of this process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "workers.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, str(folder), *options],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
