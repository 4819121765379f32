"""The workers of a Dask cluster, as a run sees them."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from distributed import Client

from videomme_pipeline.cluster.clusters import StartedCluster, security_of, started
from videomme_pipeline.cluster.settings import DaskSpec
from videomme_pipeline.cluster.tasks import (
    close_free_children,
    problem_with,
    run_on_worker,
    versions,
)
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.tasks import Submit, Workers
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.2
"""Seconds between looks while there is no worker."""
_MESSAGE_SECONDS = 3.0


@contextmanager
def connected(spec: DaskSpec, folder: Path, on_message: Callable[[str], None]) -> Iterator[Workers]:
    """The workers of the started cluster or the running scheduler of `spec`, during the block.

    Raises:
        ClusterError: if they cannot be started or reached.
    """
    # This module says what fails, in one sentence.
    for name in ("distributed", "distributed.client", "distributed.scheduler", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        cluster = None
        if spec.cluster:
            cluster = stack.enter_context(started(spec, folder, on_message))
        target = spec.scheduler if cluster is None else cluster.cluster
        security = security_of(spec.tls) if cluster is None and spec.tls else None
        try:
            client = Client(target, security=security, set_as_default=False)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise ClusterError(
                f"cluster: the scheduler {spec.scheduler} cannot be reached ({error}); start it, "
                f"or correct {CLUSTER_FILE}"
            ) from error
        stack.enter_context(client)
        yield DaskWorkers(client, cluster, spec.max_wait_minutes, cache(on_message))


@dataclass(eq=False)
class DaskWorkers:
    """The workers that a scheduler knows. `cluster` is the one that this run has started."""

    client: Client
    cluster: StartedCluster | None
    max_wait_minutes: float
    message_once: Callable[[str], None]
    _threads: Mapping[str, int] = field(default_factory=dict)
    """The number of tasks at the same time of each worker, by its address."""
    _problems: dict[str, str | None] = field(default_factory=dict)
    """Why a worker cannot run tasks, by its address."""
    _looked_at: float = -math.inf
    _alone_since: float = math.inf

    @property
    def room(self) -> int:
        """Twice the number of tasks at the same time, so that each worker has its next task.

        Raises:
            ClusterError: if no worker can be expected, or a worker cannot run tasks.
        """
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._check()
        return 2 * max(1, sum(self._threads.values()))

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
        if self.cluster is not None:
            self.cluster.start_workers()
        while not self.nodes:  # Dask ends a worker that cannot import the function of a task
            self._check()
            time.sleep(_POLL_SECONDS)
        executor = self.client.get_executor(pure=False)
        try:
            yield lambda function, task, limits: executor.submit(
                run_on_worker, function, task, limits, versions()
            )
        finally:
            if self.client.status == "running":
                executor.shutdown(wait=False)  # waiting has no end without workers
                self.client.run(close_free_children, on_error="ignore")

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
        problems = {a: problem for a, problem in self._problems.items() if a in workers}
        if new := [address for address in workers if address not in problems]:
            answers = self.client.run(problem_with, versions(), workers=new, on_error="return")
            for address, problem in answers.items():
                if isinstance(problem, OSError):
                    continue  # the worker has just ended
                problems[address] = _shown(address, problem)
        self._problems = problems

    def _check(self) -> None:
        """Look at the workers, and raise an error if there will be none, or one cannot work."""
        self._looked_at = now = time.monotonic()
        self._look()
        for problem in filter(None, self._problems.values()):
            raise ClusterError(f"cluster: {problem}")
        states = self.cluster.look(self.nodes) if self.cluster is not None else ""
        if self.nodes:
            self._alone_since = now
        alone_seconds = now - self._alone_since
        if alone_seconds > _MESSAGE_SECONDS and not states:
            self.message_once(f"cluster: {self.client.scheduler.address} has no worker yet")
        if alone_seconds > 60 * self.max_wait_minutes:
            jobs = f" (Slurm jobs: {states})" if states else ""
            unit = "minute" if self.max_wait_minutes == 1 else "minutes"
            raise ClusterError(
                f"cluster: no worker for {self.max_wait_minutes:g} {unit}{jobs}; raise "
                f"`max_wait_minutes` in {CLUSTER_FILE}, or run again later"
            )


def _shown(address: str, problem: object) -> str | None:
    """The problem of a worker in words, which may be an exception of Dask."""
    if isinstance(problem, BaseException):
        return (
            f"worker {address} cannot import videomme-pipeline ({problem}); install it in the "
            "version of the machine that starts the run"
        )
    return None if problem is None else str(problem)
