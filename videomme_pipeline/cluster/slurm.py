"""Dask workers as Slurm jobs: how they are submitted, and why they do not work.

Dask submits jobs and forgets them. `SlurmJobs` reads their states and logs, so that a run says what
it waits for, and stops if no job can ever work.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

import psutil

from videomme_pipeline.cluster.settings import EXPORTS, SlurmSpec
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

if TYPE_CHECKING:
    from distributed import Security

LOGS = "cluster-logs"
"""The folder of the logs of jobs, beside the folder that the workers share."""
DAYS_OF_LOGS = 14
CONNECT_SECONDS = 300.0
"""The longest time between the start of a job and the connection of its worker."""
MOST_FAILURES = 4
"""A run stops after so many failed jobs without a worker."""
IDLE_SECONDS = 600
"""Jobs that have no tasks for this time end, if fewer than all are needed."""
_LOOK_SECONDS = 5.0
_LOG_LINES = 3
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"})
_WORKING = frozenset({"RUNNING", "COMPLETING"})
_ENDED_WELL = frozenset({"COMPLETED", "CANCELLED"})


@dataclass
class SlurmJobs:
    """The jobs of a run, which all have the name `name`, and their logs in `logs`."""

    name: str
    logs: Path
    max_wait_seconds: float
    on_message: Callable[[str], None]
    _looked_at: float = 0.0
    _alone_since: float = field(default_factory=time.monotonic)
    _has_worked: bool = False
    _shown: str = ""
    _failed: dict[str, str] = field(default_factory=dict)

    def check(self, workers: int) -> None:
        """Say what changed, at most every few seconds.

        Raises:
            ClusterError: if there is no worker and none can be expected.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        jobs = self._states()
        if jobs is None:  # the controller does not answer
            return
        self._show(jobs)
        if workers:
            self._alone_since, self._has_worked = now, True
            self._failed.clear()
            return
        seconds = now - self._alone_since
        states = {state for state, _ in jobs.values()}
        # Dask replaces jobs that worked until their time limit, but not at once.
        patience = CONNECT_SECONDS if self._has_worked else 2 * _LOOK_SECONDS
        if len(self._failed) >= MOST_FAILURES or (
            seconds > patience and not states & (_WAITING | _WORKING)
        ):
            raise ClusterError(
                f"cluster: no Slurm job works: {'; '.join(self._failed.values()) or 'none exists'}"
                f". Correct `slurm` in {CLUSTER_FILE}; all logs are in {self.logs}"
            )
        if states & _WORKING and not states & _WAITING and seconds > CONNECT_SECONDS:
            job = next(iter(jobs))
            raise ClusterError(
                f"cluster: Slurm jobs run, but no worker has connected for {seconds:.0f} s"
                f"{self._log_of(job)}. Check `interface` and `ports` in {CLUSTER_FILE}, and that "
                "the nodes may open connections to this machine"
            )
        if seconds > self.max_wait_seconds:
            raise ClusterError(
                f"cluster: no worker for {seconds / 60:.0f} minutes ({self._shown}); raise "
                f"`max_wait_minutes` in {CLUSTER_FILE}, or run again when the queue is shorter"
            )

    def _show(self, jobs: Mapping[str, tuple[str, str]]) -> None:
        """Show the states when they change, and each job that failed."""
        for job, (state, reason) in jobs.items():
            is_bad = state not in _WAITING | _WORKING | _ENDED_WELL
            if is_bad and job not in self._failed:
                self._failed[job] = f"job {job}: {state.lower()} ({reason}){self._log_of(job)}"
                self.on_message(f"cluster: {self._failed[job]}")
        counts: dict[str, int] = {}
        for state, reason in jobs.values():
            if state in _WAITING | _WORKING:
                words = state.lower() + (f" ({reason})" if reason != "None" else "")
                counts[words] = counts.get(words, 0) + 1
        shown = ", ".join(f"{count} {words}" for words, count in sorted(counts.items()))
        if shown != self._shown:
            self._shown = shown
            self.on_message(f"cluster: Slurm jobs: {shown or 'none'}")

    def _states(self) -> dict[str, tuple[str, str]] | None:
        """The state and reason of each job, or None if Slurm does not answer."""
        command = ["squeue", "--noheader", "--states=all", f"--name={self.name}"]
        with suppress(OSError, subprocess.SubprocessError):
            rows = _run([*command, "--format=%i|%T|%r"]).stdout.splitlines()
            fields = (row.split("|") for row in rows)
            return {job: (state, reason) for job, state, reason in fields}
        return None

    def _log_of(self, job: str) -> str:
        """The last lines of a job's log, for a message."""
        lines = [
            line.strip()
            for path in sorted(self.logs.glob(f"*-{job}.*"))
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
            if line.strip()
        ]
        return f", its log ends with: {' | '.join(lines[-_LOG_LINES:])}" if lines else ""


@contextmanager
def slurm_cluster(
    spec: SlurmSpec, folder: Path, security: "Security", on_message: Callable[[str], None]
) -> Iterator[tuple[Any, SlurmJobs]]:
    """A cluster of Slurm jobs, with its scheduler in this process.

    Scheduler and workers use TLS with the keys of `security`. Jobs get only the environment
    variables that a child process may see.

    Raises:
        ClusterError: if Slurm rejects a job.
    """
    with needs_extra("cluster", CLUSTER_FILE), patch("signal.signal"):
        # The import sets a handler of Ctrl-C, which ends the process, and fails in a thread.
        from dask_jobqueue import SLURMCluster  # noqa: PLC0415
    logs = _log_folder(folder)
    options = _job_options(spec, logs)
    try_job(spec, logs)
    with SLURMCluster(
        **options,
        security=security,
        scheduler_options={"dashboard_address": "127.0.0.1:0", "port": _free_port(spec)},
    ) as cluster:
        # Dask replaces jobs that end only in an adaptive cluster.
        bounds = spec.bounds
        cluster.adapt(
            minimum_jobs=bounds.minimum,
            maximum_jobs=bounds.maximum,
            interval="1s",
            wait_count=IDLE_SECONDS,
        )
        wait = 60.0 * spec.max_wait_minutes
        yield cluster, SlurmJobs(options["job_name"], logs, wait, on_message)


def try_job(spec: SlurmSpec, logs: Path) -> str:
    """Ask Slurm if it would start a job, and return its answer. Nothing is started.

    Raises:
        ClusterError: if there is no Slurm here, or it rejects the job.
    """
    if shutil.which("sbatch") is None:
        raise ClusterError(
            "no command `sbatch` here; run this on a login node of the Slurm cluster"
        )
    with needs_extra("cluster", CLUSTER_FILE), patch("signal.signal"):
        from dask_jobqueue.slurm import SLURMJob  # noqa: PLC0415
    script = SLURMJob(scheduler="tls://scheduler", name="test", **_job_options(spec, logs))
    try:
        ended = _run(["sbatch", "--test-only"], stdin=script.job_script())
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        lines = [line.removeprefix("sbatch: error: ") for line in output.splitlines() if line]
        raise ClusterError(
            f"cluster: Slurm rejects the job ({'; '.join(lines)}); correct `slurm` in "
            f"{CLUSTER_FILE}. `sinfo` lists the partitions"
        ) from error
    return ended.stderr.strip().removeprefix("sbatch: ")


def _job_options(spec: SlurmSpec, logs: Path) -> dict[str, Any]:
    """The arguments of dask-jobqueue for a job, and for a cluster of jobs.

    Raises:
        ClusterError: if this machine has no such network interface.
    """
    interfaces = sorted(psutil.net_if_addrs())
    if spec.interface not in interfaces:
        raise ClusterError(
            f"cluster: this machine has no network interface `{spec.interface}`; set `interface` "
            f"in {CLUSTER_FILE} to the one that nodes reach: {', '.join(interfaces)}"
        )
    names = [name for name in sorted(child_environment()) if name.isidentifier()]
    ports = [] if spec.ports is None else ["--worker-port", spec.ports, "--nanny-port", spec.ports]
    return {
        "queue": spec.queue,
        "account": spec.account,
        "cores": spec.cores,
        "processes": 1,
        "memory": spec.memory,
        "walltime": spec.walltime,
        "interface": spec.interface,
        "python": spec.python,
        "job_name": f"videomme-{uuid4().hex[:8]}",
        "log_directory": str(logs),
        "job_extra_directives": [f"--export={','.join(names)}", *spec.directives],
        "job_script_prologue": [*EXPORTS, *spec.prologue],
        "worker_extra_args": ["--dashboard-address", "127.0.0.1:0", *ports],
    }


def _log_folder(folder: Path) -> Path:
    """The folder of logs, without those that are older than `DAYS_OF_LOGS`."""
    logs = folder.parent / LOGS
    logs.mkdir(exist_ok=True)
    for file in logs.iterdir():
        with suppress(OSError):  # another run may remove it
            if time.time() - file.stat().st_mtime > DAYS_OF_LOGS * 86_400:
                file.unlink()
    return logs


def _free_port(spec: SlurmSpec) -> int:
    """The first free port of `ports` on this machine, or 0 for any."""
    for port in spec.port_range:
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("", port))
            return port
    if spec.port_range:
        raise ClusterError(f"cluster: no free port among {spec.ports}; widen `ports`")
    return 0


def _run(command: list[str], stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=True, timeout=60
    )
