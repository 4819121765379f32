"""A Dask cluster with one worker on each of several hosts, which are reached by SSH.

The hosts are reached with the `ssh` of this machine, so its configuration, agent and known hosts
apply. Dask's own `SSHCluster` uses none of them, and its scheduler has no TLS.
"""

import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from videomme_pipeline.cluster.settings import EXPORTS, SshSpec
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

if TYPE_CHECKING:
    from distributed import Security

START_SECONDS = 120.0
"""The longest time until the first worker has connected."""
DEATH_SECONDS = 60
"""A worker ends after this time without a scheduler."""
CLOSE_SECONDS = 10.0
"""The longest time for a worker to end by itself."""
_POLL_SECONDS = 0.2
_SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20")


@contextmanager
def ssh_cluster(
    spec: SshSpec, security: "Security", on_message: Callable[[str], None]
) -> Iterator[Any]:
    """A cluster with one worker per host. Its scheduler is in this process.

    Scheduler and workers use TLS with the keys of `security`, whose files all hosts can read. A
    worker has the environment of a login by SSH, so it gets no variable of this process.

    Raises:
        ClusterError: if no host can run a worker.
    """
    from distributed import LocalCluster  # noqa: PLC0415 - an extra

    with ExitStack() as stack:
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=0,
                protocol="tls://",
                interface=spec.interface,
                security=security,
                dashboard_address="127.0.0.1:0",
            )
        )
        command = _worker_command(spec, cluster.scheduler_address, security)
        closing = threading.Event()

        def on_end(host: _Host) -> None:
            if not closing.is_set():
                on_message(f"cluster: {host.problem}; other workers do its tasks")

        hosts = [stack.enter_context(_Host(name, spec, command, on_end)) for name in spec.hosts]
        stack.callback(cluster.close)  # ends the workers, before the connections to their hosts
        stack.callback(closing.set)
        _wait_for_worker(hosts, lambda: bool(cluster.scheduler.workers))
        yield cluster


class _Host:
    """The process of `ssh` that runs the worker of one host. `on_end` is called when it ends."""

    def __init__(
        self, name: str, spec: SshSpec, command: str, on_end: Callable[["_Host"], None]
    ) -> None:
        self._name, self._on_end, self._last_line = name, on_end, "no output"
        self._process = subprocess.Popen(
            [*_SSH, *spec.options, "--", name, command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C ends the run, which ends its workers
        )
        self._reader = threading.Thread(target=self._read, name=f"ssh {name}", daemon=True)
        self._reader.start()

    def __enter__(self) -> "_Host":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        self._process.kill()
        self._reader.join()

    @property
    def problem(self) -> str | None:
        """Why the host has no worker, or None."""
        if self._process.poll() is None:
            return None
        return f"no worker on {self._name} ({self._last_line})"

    def _read(self) -> None:
        """Remember the last line of output until the process ends."""
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._last_line = line.strip() or self._last_line
        self._process.wait()
        self._on_end(self)


def _worker_command(spec: SshSpec, scheduler: str, security: "Security") -> str:
    """The shell command that runs a worker on a host, in a folder of its own."""
    files = security.get_tls_config_for_role("worker")
    options = {
        "--nthreads": spec.cores,
        "--nworkers": 1,
        "--death-timeout": DEATH_SECONDS,
        "--dashboard-address": "127.0.0.1:0",
        "--tls-ca-file": files["ca_file"],
        "--tls-cert": files["cert"],
        "--tls-key": files["key"],
    }
    words = [spec.python, "-m", "dask", "worker", scheduler, *chain(*options.items())]
    worker = " ".join(shlex.quote(str(word)) for word in words)
    return " && ".join([*EXPORTS, *spec.prologue, "cd $(mktemp -d)", f"exec {worker}"])


def _wait_for_worker(hosts: Sequence[_Host], has_worker: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not has_worker():
        problems = [host.problem for host in hosts if host.problem]
        if len(problems) == len(hosts) or time.monotonic() > end:
            raise ClusterError(
                f"cluster: {'; '.join(problems) or 'no worker has connected'}; check `ssh` in "
                f"{CLUSTER_FILE}, and that the hosts reach its `interface`"
            )
        time.sleep(_POLL_SECONDS)
