"""`cluster.yaml`: workers of a Dask cluster that a run starts, or of a scheduler that runs already.

Dask is imported only when a run connects, because every command reads `cluster.yaml`.
"""

import inspect
import logging
import math
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

from pydantic import Field, model_validator

from videomme_pipeline.cluster.slurm import SlurmJobs, check_script, export_directive
from videomme_pipeline.cluster.tasks import problem_with, run_on_worker, versions
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.processes.tasks import Submit, Workers
from videomme_pipeline.project.runs.settings import CLUSTER_FILE, ClusterSpec

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy import Cluster

LOGS = "logs"
"""The folder of the logs of jobs, beside the folder of the run."""
REPLACE_SECONDS = 30.0
"""Seconds between two replacements while others work, because jobs may fail again and again."""
_JOBS_SECONDS = 5.0
"""Seconds between looks at the jobs of a cluster."""
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.2
"""Seconds between looks while there is no worker."""
_MESSAGE_SECONDS = 3.0


class DaskSpec(ClusterSpec):
    """Workers of a Dask cluster. A run without a worker for `max_wait_minutes` ends."""

    kind: Literal["dask"] = "dask"
    cluster: str | None = Field(default=None, pattern=r"^\w+(\.\w+)+$")
    """The import path of a cluster class, such as `dask_jobqueue.SLURMCluster`."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """The arguments of the class."""
    scale: dict[str, int | str] = Field(default_factory=dict)
    """The arguments of the cluster's method `scale`, such as `jobs: 8`. Some classes need none."""
    scheduler: str | None = None
    """The address of a scheduler that runs, such as `tls://host:8786`."""
    tls: dict[str, str] | None = None
    """The arguments of `distributed.Security`, such as `tls_ca_file`."""
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
        return (f"{self.cluster} with {self.arguments}",) if self.cluster else ()

    @contextmanager
    def connect(self, folder: Path, on_message: Callable[[str], None]) -> Iterator[Workers]:
        _import_dask()
        from distributed import Client, Security  # noqa: PLC0415

        for name in ("distributed", "distributed.client", "distributed.scheduler", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # this module says what fails
        with ExitStack() as stack:
            cluster = security = None
            if self.cluster:
                cluster = stack.enter_context(self._started(folder))
            with self._explaining():
                if self.tls and not cluster:
                    security = Security(require_encryption=True, **self.tls)
                client = Client(cluster or self.scheduler, security=security, set_as_default=False)
            stack.enter_context(client)
            jobs = SlurmJobs(cluster, folder.parent / LOGS) if _is_on_slurm(cluster) else None
            yield DaskWorkers(self, client, cluster, jobs, on_message)

    def check_jobs(self) -> str | None:
        if not self.cluster or not self.cluster.startswith("dask_jobqueue."):
            return self.cluster and f"runs start {self.cluster}"  # it may start something at once
        _import_dask()
        local = self.model_copy(update={"arguments": self.arguments | {"security": None}})
        with TemporaryDirectory() as folder, local._started(Path(folder, "run")) as cluster:
            answer = check_script(cluster.job_script()) if _is_on_slurm(cluster) else ""
            return f"runs start {self.cluster}; {answer}".removesuffix("; ")

    @contextmanager
    def _started(self, folder: Path) -> Iterator["Cluster"]:
        """A new cluster without workers. Raise ClusterError if Slurm would reject its jobs."""
        with self._explaining():
            module, _, name = str(self.cluster).rpartition(".")
            factory = getattr(import_module(module), name)
            cluster = factory(**self._arguments(factory, folder))
        with cluster:
            if _is_on_slurm(cluster):
                check_script(cluster.job_script())
            yield cluster

    def _arguments(self, factory: Any, folder: Path) -> dict[str, Any]:
        """The arguments of the class, of which users need not set all."""
        from dask_jobqueue import JobQueueCluster, SLURMCluster  # noqa: PLC0415

        defaults: dict[str, Any] = {}
        if "security" in inspect.signature(factory).parameters:
            defaults["security"] = True  # else everybody who reaches a port could run code
        if not (inspect.isclass(factory) and issubclass(factory, JobQueueCluster)):
            return defaults | self.arguments
        extra = self.arguments.get("job_extra_directives", [])
        directives = [export_directive(), *extra] if issubclass(factory, SLURMCluster) else extra
        return {
            **defaults,
            "job_name": f"videomme-{uuid4().hex[:8]}",
            "log_directory": str(folder.parent / LOGS),
            "nanny": False,
            "processes": 1,
            "python": f"exec {shlex.quote(sys.executable)}",  # it gets the signals of jobs
            "scheduler_options": {"dashboard_address": ":0"},
            "shared_temp_directory": str(folder.parent),
            **self.arguments,
            "job_extra_directives": directives,
        }

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise a ClusterError for an error of Dask in the block."""
        try:
            yield
        except (AttributeError, ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ClusterError(
                f"cluster: {self.cluster or self.scheduler} cannot be used ({reason}); start it, "
                f"or correct {CLUSTER_FILE}"
            ) from error


@dataclass(eq=False)
class DaskWorkers:
    """The workers of a scheduler. `cluster` and its Slurm `jobs` belong to this run."""

    spec: DaskSpec
    client: "Client"
    cluster: "Cluster | None"
    jobs: SlurmJobs | None
    on_message: Callable[[str], None]
    _threads: Mapping[str, int] = field(default_factory=dict)
    """The number of tasks at the same time of each worker, by its address."""
    _problems: dict[str, str | None] = field(default_factory=dict)
    """Why a worker cannot run tasks, by its address."""
    _looked_at: float = -math.inf
    _looked_at_jobs: float = -math.inf
    _scaled_at: float = -math.inf
    _alone_since: float = math.inf
    _is_announced: bool = False

    @property
    def room(self) -> int:
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._check()
        return 2 * max(1, sum(self._threads.values()))  # so that each worker has its next task

    @property
    def nodes(self) -> int:
        return len(self._threads)

    @property
    def description(self) -> str:
        return f"{self.nodes} {'worker' if self.nodes == 1 else 'workers'}"

    def problems(self) -> Mapping[str, str | None]:
        self._look()
        return self._problems

    @contextmanager
    def executor(self) -> Iterator[Submit]:
        self._alone_since = time.monotonic()
        self._check()
        while not self.nodes:  # Dask ends a worker that cannot import the function of a task
            time.sleep(_POLL_SECONDS)
            self._check()
        executor = self.client.get_executor(pure=False)
        try:
            yield lambda function, task, limits: executor.submit(
                run_on_worker, function, task, limits, versions()
            )
        finally:
            if self.client.status == "running":
                executor.shutdown(wait=False)  # waiting has no end without workers

    def _check(self) -> None:
        """Look at the workers, and replace lost ones.

        Raises:
            ClusterError: if no worker can be expected, or a worker cannot run tasks.
        """
        self._looked_at = now = time.monotonic()
        self._look()
        for problem in filter(None, self._problems.values()):
            raise ClusterError(f"cluster: {problem}")
        if now - self._looked_at_jobs > _JOBS_SECONDS:
            self._looked_at_jobs = now
            if self.jobs is not None:
                self.jobs.look(self.nodes, self.on_message)
            if self.spec.scale and (not self.nodes or now - self._scaled_at > REPLACE_SECONDS):
                self._scaled_at = now
                assert self.cluster is not None, "a scheduler has no `scale`"
                self.cluster.scale(**self.spec.scale)
        if self.nodes:
            self._alone_since = now
        states = self.jobs.states if self.jobs is not None else ""
        alone_seconds, limit = now - self._alone_since, self.spec.max_wait_minutes
        if alone_seconds > _MESSAGE_SECONDS and not states and not self._is_announced:
            self._is_announced = True
            self.on_message(f"cluster: {self.client.scheduler.address} has no worker yet")
        if alone_seconds > 60 * limit:
            jobs = f" (Slurm jobs: {states})" if states else ""
            raise ClusterError(
                f"cluster: no worker for {limit:g} {'minute' if limit == 1 else 'minutes'}{jobs}; "
                f"raise `max_wait_minutes` in {CLUSTER_FILE}, or run again later"
            )

    def _look(self) -> None:
        """Look which workers there are, and compare the versions of new ones."""
        workers: Mapping[str, Any] | None = None
        if self.client.status == "running":
            with suppress(OSError):
                workers = self.client.scheduler_info(n_workers=-1).get("workers")
        if workers is None:
            raise ClusterError(
                "cluster: the scheduler has ended or cannot be reached any more; run again: "
                "everything that is already stored is kept"
            )
        self._threads = {address: worker["nthreads"] for address, worker in workers.items()}
        self._problems = {a: problem for a, problem in self._problems.items() if a in workers}
        if new := [address for address in workers if address not in self._problems]:
            answers = self.client.run(problem_with, versions(), workers=new, on_error="return")
            self._problems |= {
                address: answer and f"worker {address}: {answer}"
                for address, answer in answers.items()
                if not isinstance(answer, OSError)  # the worker has just ended
            }


def _import_dask() -> None:
    """Import Dask, also outside of the main thread, and keep the handlers of signals.

    On import, dask-jobqueue lets SIGINT end the process, which only the main thread can set.

    Raises:
        MissingExtraError: if Dask is not installed.
    """
    set_handler = signal.signal
    try:
        signal.signal = lambda *_: None
        with needs_extra("cluster", f"`kind: dask` in {CLUSTER_FILE}"):
            import_module("dask_jobqueue")
    finally:
        signal.signal = set_handler


def _is_on_slurm(cluster: object) -> bool:
    from dask_jobqueue import SLURMCluster  # noqa: PLC0415

    return isinstance(cluster, SLURMCluster)
