"""`cluster.yaml`: a Dask cluster that a run starts, or the scheduler of one that runs already."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from videomme_pipeline.extras import needs_extra
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.processes.tasks import Workers
from videomme_pipeline.project.runs.settings import CLUSTER_FILE, ClusterSpec


class TlsFiles(Spec):
    """PEM files of the certificate authority, and of one certificate for all processes."""

    ca: str
    cert: str
    key: str


class DaskSpec(ClusterSpec):
    """Workers of Dask: those of a cluster class, which a run starts, or those of a scheduler.

    A run without a worker for `max_wait_minutes` ends.
    """

    kind: Literal["dask"] = "dask"
    cluster: str | None = Field(default=None, pattern=r"^\w+(\.\w+)+$")
    """The import path of a cluster class, such as `dask_jobqueue.SLURMCluster`."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """The arguments of the class."""
    scale: dict[str, int | str] = Field(default_factory=dict)
    """The arguments of the cluster's method `scale`, such as `jobs: 8`. Some classes need none."""
    scheduler: str | None = None
    """The address of a scheduler, such as `tls://host:8786`."""
    tls: TlsFiles | None = None
    max_wait_minutes: int = Field(default=1440, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.cluster is None) == (self.scheduler is None):
            raise ValueError("set either `cluster` or `scheduler`")
        if self.scheduler is not None and (self.arguments or self.scale):
            raise ValueError("`arguments` and `scale` need `cluster`, because a scheduler runs")
        return self

    @property
    def programs(self) -> tuple[str, ...]:
        if self.cluster is None:
            return ()
        return (f"{self.cluster} with {self.arguments}",)

    def connect(
        self, folder: Path, on_message: Callable[[str], None]
    ) -> AbstractContextManager[Workers]:
        with needs_extra("cluster", f"`kind: dask` in {CLUSTER_FILE}"):
            from videomme_pipeline.cluster.workers import connected  # noqa: PLC0415
        return connected(self, folder, on_message)

    def check_jobs(self) -> str | None:
        with needs_extra("cluster", f"`kind: dask` in {CLUSTER_FILE}"):
            from videomme_pipeline.cluster.clusters import check  # noqa: PLC0415
        return None if self.cluster is None else check(self)
