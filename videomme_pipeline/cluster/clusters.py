"""Dask clusters that a run starts: their classes, defaults and certificates, and lost jobs."""

import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from dask_jobqueue import SLURMCluster
from dask_jobqueue.core import JobQueueCluster
from distributed import Security
from distributed.deploy import Cluster

from videomme_pipeline.cluster import slurm
from videomme_pipeline.cluster.settings import DaskSpec, TlsFiles
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

LOGS = "logs"
"""The folder of the logs of jobs, beside the folder of the run."""
DAYS_OF_LOGS = 14
MAX_FAILURES = 4
"""A run stops after so many failed jobs without a worker."""
REPLACE_SECONDS = 30.0
"""Seconds between two replacements while others work, because jobs may fail again and again."""
_LOOK_SECONDS = 5.0


def check(spec: DaskSpec) -> str:
    """The cluster that a run starts, with Slurm's answer about its jobs. No job is started.

    Raises:
        ClusterError: if Slurm rejects the jobs, or the arguments are wrong.
    """
    what = f"runs start {spec.cluster}"
    if spec.cluster is None or not spec.cluster.startswith("dask_jobqueue."):
        return what  # other classes might start something at once
    with TemporaryDirectory() as folder:
        (run := Path(folder, "run")).mkdir()
        with started(spec, run, ignore) as cluster:
            return "; ".join(filter(None, [what, cluster.answer]))


def security_of(tls: TlsFiles) -> Security:
    """The certificate of all processes of a cluster."""
    files = {"tls_ca_file": tls.ca}
    for role in ("client", "scheduler", "worker"):
        files |= {f"tls_{role}_cert": tls.cert, f"tls_{role}_key": tls.key}
    return Security(require_encryption=True, **files)


@contextmanager
def started(
    spec: DaskSpec, folder: Path, on_message: Callable[[str], None]
) -> Iterator["StartedCluster"]:
    """The cluster of `spec`, still without workers, until the end of the block.

    Raises:
        ClusterError: if it cannot be started, or Slurm rejects its jobs.
    """
    module, _, name = str(spec.cluster).rpartition(".")
    logs = folder.parent / LOGS
    try:
        factory = getattr(import_module(module), name)
        cluster = factory(**_arguments(spec, factory, folder))
    except (AttributeError, ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ClusterError(
            f"cluster: {spec.cluster} cannot be started ({reason}); correct {CLUSTER_FILE}"
        ) from error
    if not isinstance(cluster, Cluster):
        raise ClusterError(f"cluster: {spec.cluster} is no Dask cluster; correct {CLUSTER_FILE}")
    with cluster:
        yield StartedCluster(cluster, spec.scale, logs, on_message)


def _arguments(spec: DaskSpec, factory: Callable[..., Cluster], folder: Path) -> dict[str, Any]:
    """The arguments of `factory`: those of the user, and defaults for the others.

    Without certificates, everybody who reaches a port of the cluster could run code.
    """
    arguments = dict(spec.arguments)
    if "security" in signature(factory).parameters:
        arguments.setdefault("security", security_of(spec.tls or new_certificate(folder)))
    if not (isinstance(factory, type) and issubclass(factory, JobQueueCluster)):
        return arguments
    if shlex.quote(str(folder)) != str(folder):
        raise ValueError(
            f"job scripts cannot contain the path {folder.parent}; set `folder` to a shared "
            "folder whose path has no blanks and quotes"
        )
    own_ports = {"dashboard_address": ":0"}
    arguments["scheduler_options"] = own_ports | arguments.get("scheduler_options", {})
    if issubclass(factory, SLURMCluster):
        directives = [slurm.export_directive(), *arguments.get("job_extra_directives", [])]
        arguments["job_extra_directives"] = directives
    return {
        "job_name": f"videomme-{uuid4().hex[:8]}",
        "log_directory": str(folder.parent / LOGS),
        "nanny": False,
        "processes": 1,
        "python": shlex.quote(sys.executable),
    } | arguments


@dataclass(eq=False)
class StartedCluster:
    """A cluster of this run. `scale` has the arguments of its method `scale`."""

    cluster: Cluster
    scale: Mapping[str, int | str]
    logs: Path
    on_message: Callable[[str], None]
    answer: str = ""
    """Slurm's answer about its jobs."""
    _states: str = ""
    _looked_at: float = -math.inf
    _scaled_at: float = -math.inf
    _failures: dict[str, str] = field(default_factory=dict)
    """The failed jobs, by their numbers."""
    _forgiven: int = 0
    """The number of jobs that failed before a worker worked."""

    def __post_init__(self) -> None:
        if isinstance(self.cluster, SLURMCluster):
            self.answer = slurm.check_script(self.cluster.job_script())

    def start_workers(self) -> None:
        """Start the workers that the cluster does not have."""
        _remove_old(self.logs)
        self._scaled_at = time.monotonic()
        if self.scale:  # without an argument, some classes would end all workers
            self.cluster.scale(**self.scale)

    def look(self, workers: int) -> str:
        """Replace ended jobs at most every few seconds, and return the states of Slurm jobs.

        Raises:
            ClusterError: if jobs fail again and again, or Slurm rejects them.
        """
        now = time.monotonic()
        if now - self._looked_at > _LOOK_SECONDS:
            self._looked_at = now
            if isinstance(self.cluster, SLURMCluster):
                self._look_at_jobs(self.cluster, workers)
            if not workers or now - self._scaled_at > REPLACE_SECONDS:
                self.start_workers()
        return self._states

    def _look_at_jobs(self, cluster: SLURMCluster, workers: int) -> None:
        """Show the states of jobs when they change, and let the next `scale` replace ended jobs."""
        # Slurm is asked afterwards, so that it knows all jobs. Their numbers are kept because Dask
        # cannot close a cluster while somebody refers to its jobs.
        jobs = {name: job.job_id for name, job in cluster.workers.items()}
        states = slurm.states(cluster.job_name)
        if states is None:
            return
        for name, job in jobs.items():
            state = states.get(job)
            if slurm.is_active(state):
                continue
            cluster.worker_spec.pop(name, None)
            if state is not None and slurm.has_failed(state) and job not in self._failures:
                failure = slurm.shown_failure(job, state, self.logs)
                self._failures[job] = failure
                self.on_message(f"cluster: {failure}")
        if workers:
            self._forgiven = len(self._failures)
        failures = list(self._failures.values())[self._forgiven :]
        if len(failures) >= MAX_FAILURES:
            raise ClusterError(
                f"cluster: no Slurm job works: {'; '.join(failures)}. Correct {CLUSTER_FILE}; all "
                f"logs are in {self.logs}"
            )
        shown = slurm.shown(states.values())
        if shown != self._states:
            self._states = shown
            self.on_message(f"cluster: Slurm jobs: {shown}")


def new_certificate(folder: Path) -> TlsFiles:
    """A certificate in files that all workers of this user can read."""
    contents = Security.temporary().get_tls_config_for_role("worker")
    files = {name: folder / f"{name}.pem" for name in ("ca", "cert", "key")}
    for name, file in files.items():
        file.touch(mode=0o600)
        file.write_text(contents["ca_file" if name == "ca" else name], encoding="ascii")
    return TlsFiles(**{name: str(file) for name, file in files.items()})


def _remove_old(logs: Path) -> None:
    """Remove logs that are older than `DAYS_OF_LOGS`."""
    with suppress(OSError):  # there are none, or another run removes them
        for file in logs.iterdir():
            if time.time() - file.stat().st_mtime > DAYS_OF_LOGS * 86_400:
                file.unlink()
