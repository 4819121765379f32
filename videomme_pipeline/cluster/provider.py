"""Dask as a kind of workers in `cluster.yaml`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from videomme_pipeline.cluster.settings import DaskSettings
from videomme_pipeline.processes.tasks import Workers


class DaskSpec(DaskSettings):
    """The settings, and the connection to the scheduler."""

    def connect(
        self, folder: Path, on_message: Callable[[str], None]
    ) -> AbstractContextManager[Workers]:
        from videomme_pipeline.cluster.dask import connect  # noqa: PLC0415 - an extra

        return connect(self, folder, on_message)

    def check_jobs(self) -> str | None:
        if self.slurm is None:
            return None
        from videomme_pipeline.cluster.slurm import try_job  # noqa: PLC0415 - an extra

        return try_job(self.slurm, Path.cwd())
