"""Workers of a Dask cluster whose scheduler runs already, or of Slurm jobs, or of SSH hosts."""

import asyncio
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4
from weakref import WeakSet

from videomme_pipeline.cluster.settings import TIMERS, DaskSettings
from videomme_pipeline.cluster.slurm import SlurmJobs, slurm_cluster
from videomme_pipeline.cluster.ssh import ssh_cluster
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.processes.tasks import TaskOutcome, end_children
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

if TYPE_CHECKING:
    from distributed import Client, Security

CONNECT_SECONDS = 30.0
RECONNECT_SECONDS = 300.0
"""The longest time to wait for a scheduler that was restarted."""
_MARKER = "marker"
_POLL_SECONDS = 0.2
_COUNT_SECONDS = 1.0
"""Seconds between counts of the workers. Each count is a request to the scheduler."""
_SAME_VERSIONS = ("videomme-pipeline", "av", "simplejpeg")
"""Packages that determine frames and packet indexes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Facts that a worker must share with the process that submits tasks.

    `folder` is shared: it contains a file with the text `mark`.
    """

    versions: Mapping[str, str]
    folder: Path
    mark: str

    @classmethod
    def here(cls, folder: Path) -> "Site":
        """The versions of this process, and a new mark in `folder`."""
        mark = uuid4().hex
        (folder / _MARKER).write_text(mark, encoding="ascii")
        return cls(versions=versions(), folder=folder, mark=mark)

    def problem(self) -> str | None:
        """Why this process cannot run the tasks of the site, or None. Called on a worker."""
        host = platform.node()
        different = [
            f"{name} {own}, not {self.versions[name]}"
            for name, own in versions().items()
            if own != self.versions[name]
        ]
        if different:
            return (
                f"worker on {host}: {', '.join(different)}; install the versions of the machine "
                "that starts the run"
            )
        with suppress(OSError):
            if (self.folder / _MARKER).read_text(encoding="ascii") == self.mark:
                return None
        return (
            f"worker on {host}: {self.folder.parent} is not the folder of the machine that starts "
            "the run; put the data folder on a file system that all workers share"
        )


@cache
def versions() -> Mapping[str, str]:
    """The versions of this process that determine frames and packet indexes."""
    own = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _SAME_VERSIONS:
        try:
            own[package] = version(package)
        except PackageNotFoundError:
            own[package] = "missing"
    return own


class DaskWorkers:
    """The workers of a Dask client. `most_threads` is how many the cluster may grow to.

    `jobs` are the Slurm jobs of the workers, or None.
    """

    def __init__(
        self,
        client: "Client",
        site: Site,
        most_threads: int = 1,
        jobs: SlurmJobs | None = None,
    ) -> None:
        self._client, self._site, self._most_threads = client, site, most_threads
        self._jobs = jobs
        self._threads: Mapping[str, int] = {}
        self._count_again = -math.inf

    @property
    def room(self) -> int:
        """Twice the number of threads, so that each has its next task at once.

        Raises:
            ClusterError: if the scheduler is away for too long, or no job can work.
        """
        return 2 * max(1, sum(self._current_threads().values()), self._most_threads)

    @property
    def nodes(self) -> int:
        return len(self._current_threads())

    @property
    def description(self) -> str:
        return f"{self.nodes} {'worker' if self.nodes == 1 else 'workers'}"

    @property
    def dashboard(self) -> str | None:
        link = self._client.dashboard_link
        return str(link) if link else None

    @contextmanager
    def executor(self, run: str) -> Iterator[Executor]:
        executor = _DaskExecutor(self._client, self._site)
        try:
            yield executor
        finally:
            with suppress(OSError):
                executor.cancel()
                if self._client.status == "running":
                    self._client.run(end_children, run, on_error="ignore")

    def problems(self) -> Mapping[str, str | None]:
        return dict(self._client.run(self._site.problem))

    def _current_threads(self) -> Mapping[str, int]:
        """The number of threads of each worker, at most `_COUNT_SECONDS` old."""
        if self._client.status != "running" or time.monotonic() > self._count_again:
            self._threads = self._count_threads()
            self._count_again = time.monotonic() + _COUNT_SECONDS
            if self._jobs is not None:
                self._jobs.check(len(self._threads))
        return self._threads

    def _count_threads(self) -> Mapping[str, int]:
        """The number of threads of each worker. Waits for a scheduler that was restarted."""
        end = time.monotonic() + RECONNECT_SECONDS
        while self._client.status != "closed" and time.monotonic() < end:
            with suppress(OSError):
                if self._client.status == "running":
                    return dict(self._client.nthreads())
            time.sleep(_POLL_SECONDS)
        raise ClusterError(
            f"cluster: no connection to its scheduler for {RECONNECT_SECONDS:g} s; start it, then "
            "run again: everything that is already stored is kept"
        )


class _DaskExecutor(Executor):
    """Submits tasks to Dask. Each worker compares itself with the site before it runs one.

    (The future of Dask's own executor never ends if the scheduler ends between the end of the task
    and the transfer of its value.)
    """

    def __init__(self, client: "Client", site: Site) -> None:
        self._client, self._site = client, site
        self._tasks = WeakSet[Any]()

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any
    ) -> "Future[Any]":
        task = self._client.submit(
            _run_checked, self._site, function, *arguments, pure=False, **keywords
        )
        self._tasks.add(task)
        return asyncio.run_coroutine_threadsafe(_outcome(task), self._client.loop.asyncio_loop)

    def cancel(self) -> None:
        """Cancel all tasks."""
        self._client.cancel(list(self._tasks))


async def _outcome(task: Any) -> TaskOutcome:
    """The value of a Dask future. Cancelled if the cluster lost the task or its value."""
    try:
        return cast("TaskOutcome", await task)
    except (OSError, CancelledError) as error:
        if task.status == "error":  # raised by the task itself
            raise
        raise asyncio.CancelledError from error


def _run_checked(
    site: Site, run_limited: Callable[..., TaskOutcome], *arguments: Any
) -> TaskOutcome:
    if problem := site.problem():
        return None, ClusterError(problem)
    return run_limited(*arguments)


@contextmanager
def connect(
    spec: DaskSettings, folder: Path, on_message: Callable[[str], None]
) -> Iterator[DaskWorkers]:
    """Connect to a cluster, or start one that ends after the block."""
    with needs_extra("cluster", CLUSTER_FILE):
        import dask  # noqa: PLC0415
        from distributed import Client  # noqa: PLC0415
    site = Site.here(folder)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(TIMERS))  # for schedulers that this process starts
        if spec.slurm:
            security = _temporary_security(folder)
            cluster, jobs = stack.enter_context(
                slurm_cluster(spec.slurm, folder, security, on_message)
            )
            client = stack.enter_context(Client(cluster, set_as_default=False))
            most_threads = spec.slurm.bounds.maximum * spec.slurm.cores
            workers = DaskWorkers(client, site, most_threads, jobs)
        elif spec.ssh:
            cluster = stack.enter_context(
                ssh_cluster(spec.ssh, _temporary_security(folder), on_message)
            )
            client = stack.enter_context(Client(cluster, set_as_default=False))
            workers = DaskWorkers(client, site)
        else:
            client = stack.enter_context(_client(spec))
            workers = DaskWorkers(client, site)
        if not client.nthreads():
            on_message(f"{client.scheduler.address} has no worker yet; waiting for the first one")
        yield workers


def _client(spec: DaskSettings) -> "Client":
    """A client of the scheduler at the address of `spec`."""
    from distributed import Client  # noqa: PLC0415

    security = _security(spec)
    try:
        return Client(
            spec.address, security=security, timeout=CONNECT_SECONDS, set_as_default=False
        )
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"cluster: no Dask scheduler answers at {spec.address} ({error}); start it, or change "
            f"`address` or `tls` in {CLUSTER_FILE}"
        ) from error


def _security(spec: DaskSettings) -> "Security":
    """The keys of the client: those of `tls`, or else those of Dask's own configuration."""
    from distributed import Security  # noqa: PLC0415

    security = Security()
    if spec.tls:
        security = Security(
            tls_ca_file=str(spec.tls.ca_file.expanduser()),
            tls_client_cert=str(spec.tls.certificate.expanduser()),
            tls_client_key=str(spec.tls.key.expanduser()),
            require_encryption=True,
        )
    try:
        has_keys = security.get_connection_args("client")["ssl_context"] is not None
    except OSError as error:
        raise ClusterError(
            f"cluster: the keys for {spec.address} cannot be used ({error}); `tls` in "
            f"{CLUSTER_FILE} names three files in PEM format"
        ) from error
    if str(spec.address).startswith("tls:") and not has_keys:
        raise ClusterError(f"cluster: {spec.address} needs keys; set `tls` in {CLUSTER_FILE}")
    return security


def _temporary_security(folder: Path) -> "Security":
    """New keys for the scheduler, the workers and the client of a cluster.

    They are files in `folder` that only this user can read, so that workers on other machines read
    them there. No key is on a command line.
    """
    from distributed import Security  # noqa: PLC0415

    texts = Security.temporary().get_tls_config_for_role("worker")
    files = {part: folder / f"{part}.pem" for part in ("ca_file", "cert", "key")}
    for part, file in files.items():
        file.touch(mode=0o600)
        file.write_text(texts[part], encoding="ascii")
    roles = {
        f"tls_{role}_{part}": str(files[part])
        for role in ("scheduler", "worker", "client")
        for part in ("cert", "key")
    }
    return Security(tls_ca_file=str(files["ca_file"]), require_encryption=True, **roles)
