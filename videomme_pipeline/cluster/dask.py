"""`cluster.yaml`: workers of a Dask cluster that a run starts, or of a scheduler that runs already.

Dask is imported only when a run connects, because every command reads `cluster.yaml`. Slurm is
asked why it rejects, delays or ends jobs.
"""

import inspect
import logging
import os
import shlex
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self
from unittest.mock import patch
from uuid import uuid4

from pydantic import Field, model_validator

from videomme_pipeline.errors import ClusterError
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.processes.children import Child, TaskLimits
from videomme_pipeline.processes.identity import check_versions, versions
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.processes.tasks import LOOK_SECONDS, Submit, TaskOutcome, run_in
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.project.runs.settings import CLUSTER_FILE, ClusterSpec

CLOSING_SECONDS = 60.0
"""A worker that needs longer to close is ended."""
JOBS_SECONDS = 10.0
"""Seconds between looks at the jobs of a cluster, and between replacements of ended ones."""
MAX_FAILURES = 4
"""A run stops after so many failed jobs without a worker."""
_ACTIVE = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "RUNNING", "COMPLETING")
_ENDED_WELL = ("COMPLETED", "CANCELLED", "PREEMPTED", "TIMEOUT")
_run = partial(subprocess.check_output, stderr=subprocess.STDOUT, text=True, timeout=60)
_own = threading.local()
"""On a worker, `child` is the child process of a thread, which is kept for its next task."""


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
    def connect(self, folder: Path, on_message: Callable[[str], None]) -> Iterator["DaskWorkers"]:
        with needs_extra("cluster", f"`kind: dask` in {CLUSTER_FILE}"), patch("signal.signal"):
            # dask-jobqueue lets SIGINT end the process, which only the main thread can do.
            import dask_jobqueue  # noqa: F401, PLC0415
            from distributed import Client, Security  # noqa: PLC0415
        for name in ("distributed", "distributed.client", "distributed.scheduler", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # this module says what fails
        logs = folder.parent / "logs"
        with ExitStack() as stack:
            try:
                security = Security(require_encryption=True, **self.tls) if self.tls else None
                cluster = self.cluster and stack.enter_context(self._new_cluster(logs))
                client = Client(cluster or self.scheduler, security=security, set_as_default=False)
            except Exception as error:  # each class of clusters has its own errors
                reason = str(error).partition("\n")[0]
                raise ClusterError(
                    f"cluster: {self.cluster or self.scheduler} cannot be used ({reason}); start "
                    f"it, or correct {CLUSTER_FILE}"
                ) from error
            stack.enter_context(client)
            jobs = Jobs(cluster, logs)
            jobs.check()
            yield DaskWorkers(self, client, jobs, on_message)

    def check_jobs(self) -> str | None:
        if not self.cluster or not self.cluster.startswith("dask_jobqueue."):
            return self.cluster and f"runs start {self.cluster}"  # it may start something at once
        # The files of certificates would be removed after their folder.
        spec = self.model_copy(update={"arguments": self.arguments | {"security": None}})
        with TemporaryDirectory() as folder, spec.connect(Path(folder, "run"), ignore) as workers:
            return f"runs start {self.cluster}; {workers.jobs.check()}".removesuffix("; ")

    def _new_cluster(self, logs: Path) -> Any:
        """A cluster without workers. Users need not set all arguments of its class."""
        factory = resolve_name(str(self.cluster))
        arguments: dict[str, Any] = {}
        if "security" in inspect.signature(factory).parameters:
            arguments["security"] = True  # else everybody who reaches a port could run code
        if hasattr(factory, "job_cls"):  # of dask-jobqueue
            arguments |= {
                "job_name": f"videomme-{uuid4().hex[:8]}",
                "log_directory": str(logs),
                "nanny": False,
                "processes": 1,
                "python": f"exec {shlex.quote(sys.executable)}",  # it gets the signals of jobs
                "scheduler_options": {"dashboard_address": ":0"},
                "shared_temp_directory": str(logs.parent),
            }
        arguments |= self.arguments
        if is_on_slurm(factory):
            extra = arguments.get("job_extra_directives", [])
            names = filter(str.isidentifier, sorted(child_environment()))  # jobs get no keys
            arguments["job_extra_directives"] = [f"--export={','.join(names)}", *extra]
        return factory(**arguments)


def is_on_slurm(cluster: object) -> bool:
    """True if the jobs of a cluster, or of a class of clusters, are submitted to Slurm."""
    return getattr(getattr(cluster, "job_cls", None), "submit_command", None) == "sbatch"


@dataclass(eq=False)
class Jobs:
    """The jobs of a cluster, whose logs are in a folder. Only those of Slurm are looked at."""

    cluster: Any
    logs: Path
    failures: list[str] = field(default_factory=list)
    """The jobs that failed since a worker worked, with their reasons and the ends of their logs."""
    summary: str = "no Slurm jobs"
    """The number of jobs in each state, with Slurm's reasons, and the failures."""

    def check(self) -> str:
        """Slurm's answer to a test of the job, or "". Raises ClusterError if Slurm rejects it."""
        if not is_on_slurm(self.cluster):
            return ""
        try:
            answer: str = _run(("sbatch", "--test-only"), input=self.cluster.job_script())
        except (OSError, subprocess.SubprocessError) as error:
            output = (getattr(error, "output", None) or str(error)).replace("sbatch: error: ", "")
            reason = "; ".join(output.strip().splitlines())
            raise ClusterError(
                f"Slurm rejects the job ({reason}); correct {CLUSTER_FILE}, "
                "or run this on a login node. `sinfo` lists the partitions"
            ) from error
        return answer.strip().removeprefix("sbatch: ")

    def look(self, has_workers: bool, on_message: Callable[[str], None]) -> None:
        """Show a changed summary, and let the next `scale` replace the jobs that have ended."""
        # Slurm is asked after Dask, so that it knows all jobs. Dask cannot close a cluster while
        # somebody refers to its jobs, so only their numbers are kept.
        specs, ours = self.cluster.worker_spec, f"--name={self.cluster.job_name}"
        jobs = {name: job.job_id for name, job in self.cluster.workers.items() if name in specs}
        with suppress(OSError, subprocess.SubprocessError):
            rows = _run(("squeue", ours, "-h", "--states=all", "--format=%i|%T (%r)")).splitlines()
            states = dict(row.removesuffix(" (None)").partition("|")[::2] for row in rows)
            if has_workers:
                self.failures.clear()
            for name, job in jobs.items():
                state = states.get(job, "COMPLETED")  # Slurm forgets ended jobs after some minutes
                if not state.startswith(_ACTIVE):
                    del specs[name]
                if not state.startswith(_ACTIVE + _ENDED_WELL):
                    self.failures.append(f"job {job} {state}{self._end_of_log(job)}")
            counts = Counter(state for state in states.values() if state.startswith(_ACTIVE))
            active = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
            shown = f"Slurm jobs: {active}" if active else "no Slurm jobs"
            if (summary := "; ".join([shown, *self.failures])) != self.summary:
                self.summary = summary
                on_message(f"cluster: {summary}")

    def _end_of_log(self, job: str) -> str:
        texts = [log.read_text(errors="replace") for log in sorted(self.logs.glob(f"*-{job}.*"))]
        lines = [line.strip() for line in "".join(texts).splitlines() if line.strip()]
        return f", its log in {self.logs} ends with: {' | '.join(lines[-3:])}" if lines else ""


@dataclass(eq=False)
class DaskWorkers:
    """The workers of a scheduler. The jobs belong to this run."""

    spec: DaskSpec
    client: Any
    jobs: Jobs
    on_message: Callable[[str], None]
    _threads: Mapping[str, int] = field(default_factory=dict)
    """The number of tasks at the same time of each worker, by its address."""
    _problems: dict[str, str | None] = field(default_factory=dict)
    """Why a worker cannot run tasks, by its address."""
    _looked_at_jobs: float = 0.0
    _alone_since: float = 0.0

    @property
    def room(self) -> int:
        self._look()
        return 2 * max(1, sum(self._threads.values()))  # so that each worker has its next task

    @property
    def description(self) -> str:
        return f"{len(self._threads)} {'worker' if len(self._threads) == 1 else 'workers'}"

    @contextmanager
    def executor(self) -> Iterator[Submit]:
        self._alone_since = time.monotonic()
        self._look()
        if not self._threads:
            self.on_message(f"cluster: {self.client.scheduler.address} has no worker yet")
        while not self._threads:  # Dask ends a worker that cannot import the function of a task
            time.sleep(LOOK_SECONDS / 5)
            self._look()
        executor = self.client.get_executor(pure=False)
        try:
            yield lambda function, task, limits: executor.submit(
                run_on_worker, function, task, limits, versions()
            )
        finally:
            if self.client.status == "running":
                executor.shutdown(wait=False)  # waiting has no end without workers

    def _look(self) -> None:
        """Look at workers and jobs, and replace lost ones. Raises ClusterError without hope."""
        for address, problem in self.problems().items():
            if problem:
                raise ClusterError(f"cluster: worker {address}: {problem}")
        now = time.monotonic()
        if self._threads:
            self._alone_since = now
        if now - self._looked_at_jobs > JOBS_SECONDS:
            self._looked_at_jobs = now
            if is_on_slurm(self.jobs.cluster):
                self.jobs.look(bool(self._threads), self.on_message)
            if self.spec.scale:
                self.jobs.cluster.scale(**self.spec.scale)
        seconds, limit = now - self._alone_since, 60 * self.spec.max_wait_minutes
        if not self._threads and (seconds > limit or len(self.jobs.failures) >= MAX_FAILURES):
            raise ClusterError(
                f"cluster: no worker for {seconds:.0f} s ({self.jobs.summary}); start workers, "
                f"correct {CLUSTER_FILE}, or raise `max_wait_minutes` in it"
            )

    def problems(self) -> Mapping[str, str | None]:
        """Look which workers there are, and compare the versions of new ones."""
        try:
            self._threads = self.client.nthreads()
            if new := [address for address in self._threads if address not in self._problems]:
                answers = self.client.run(
                    prepare_worker, versions(), os.getpid(), workers=new, on_error="return"
                )
                self._problems |= {
                    address: answer and str(answer)
                    for address, answer in answers.items()
                    if not isinstance(answer, OSError)  # the worker has just ended
                }
        except OSError as error:
            raise ClusterError(
                "cluster: the scheduler has ended or cannot be reached any more; run again: "
                "everything that is already stored is kept"
            ) from error
        self._problems = {a: problem for a, problem in self._problems.items() if a in self._threads}
        return self._problems


def prepare_worker(required: Mapping[str, str], client: int, dask_worker: Any) -> None:
    """Raise ClusterError for a worker of other versions. The process `client` is never ended."""
    check_versions(required)
    if os.getpid() != client:
        _end_if_stuck(dask_worker)


@cache  # one thread per worker, however many runs it serves
def _end_if_stuck(worker: Any) -> None:
    """End this process if its worker needs longer than `CLOSING_SECONDS` to close.

    Some workers of a scheduler that was killed close without end, and would hold their jobs.
    """
    from distributed.worker import WORKER_ANY_RUNNING  # noqa: PLC0415 - slow to import

    def watch() -> None:
        while worker.status in WORKER_ANY_RUNNING:
            time.sleep(LOOK_SECONDS)
        time.sleep(CLOSING_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_on_worker(
    function: Callable[[Any], Any], task: Any, limits: TaskLimits, required: Mapping[str, str]
) -> TaskOutcome:
    """Run a task in a child process, which, unlike a thread, can be ended. Raises ClusterError."""
    from distributed.worker import WORKER_ANY_RUNNING, get_worker  # noqa: PLC0415 - slow to import

    check_versions(required)
    worker = get_worker()
    child = _own.child = getattr(_own, "child", None) or Child()
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(run_in, child, function, task, limits)
        while not wait([future], LOOK_SECONDS).done:
            state = worker.state.tasks.get(worker.get_current_task())
            is_wanted = state is not None and state.state == "executing"
            if not is_wanted or worker.status not in WORKER_ANY_RUNNING:
                child.kill()
                _own.child = None
    return future.result()
