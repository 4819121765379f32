"""The settings of Dask in `cluster.yaml` and of the processes that we start."""

import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.project.runs.settings import ClusterSpec

TIMERS: dict[str, str | bool] = {
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.tick.cycle": "5s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.profile.enabled": False,
}
"""Timers in Dask's configuration for the schedulers and workers that we start.

With Dask's defaults, an idle worker uses 3% of a core, and an idle scheduler 1.6%: they measure
their event loop 50 times per second, sample the stack of each thread 100 times per second, and
read statistics of the machine twice per second. A task here takes seconds, in a child process.
"""
TIMER_VARIABLES = {
    f"DASK_{key}".upper().replace(".", "__").replace("-", "_"): str(value)
    for key, value in TIMERS.items()
}
"""The same as environment variables."""
EXPORTS = [f"export {name}={value}" for name, value in TIMER_VARIABLES.items()]
"""The same as shell commands."""


class TlsSpec(Spec):
    """The files of a TLS client: the certificate of the authority, its own certificate and key."""

    ca_file: Path
    certificate: Path
    key: Path


class AdaptSpec(Spec):
    """Bounds of the number of jobs. Jobs start when tasks wait, and end when none do."""

    minimum: int = Field(default=0, ge=0)
    maximum: int = Field(ge=1)


class SlurmSpec(Spec):
    """Dask workers as Slurm jobs. `cores`, `memory` and `walltime` are those of one job.

    `interface` is the network interface of scheduler and workers. With `lo`, all jobs must run on
    this machine. `ports` are those that scheduler and workers listen to, by default any. `python`
    has this project on all nodes. `directives` are further `#SBATCH` options, such as
    `--constraint=avx2`. `prologue` are lines of the job script before the worker starts, such as
    `module load`. A run without a worker for `max_wait_minutes` ends.
    """

    queue: str | None = None
    account: str | None = None
    cores: int = Field(ge=1)
    memory: str
    walltime: str = "01:00:00"
    jobs: int | None = Field(default=None, ge=1)
    adapt: AdaptSpec | None = None
    interface: str
    ports: str | None = Field(default=None, pattern=r"^\d+:\d+$", examples=["9000:9100"])
    python: str = sys.executable
    max_wait_minutes: int = Field(default=1440, ge=1)
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _require_size(self) -> "SlurmSpec":
        if (self.jobs is None) == (self.adapt is None):
            raise ValueError("set either `jobs: 4` or `adapt: {minimum: 0, maximum: 16}`")
        return self

    @property
    def port_range(self) -> range:
        """The numbers of `ports`, which may be none."""
        first, _, last = (self.ports or "1:0").partition(":")
        return range(int(first), int(last) + 1)

    @property
    def bounds(self) -> AdaptSpec:
        """The smallest and the largest number of jobs at the same time."""
        return self.adapt or AdaptSpec(minimum=self.jobs or 1, maximum=self.jobs or 1)


class SshSpec(Spec):
    """A Dask worker on each of `hosts`, which works on `cores` videos at the same time.

    `python` has this project on all hosts. `interface` is the network interface of this machine
    that the hosts reach. `options` are further options of `ssh`, and `prologue` are shell commands
    before the worker starts.
    """

    hosts: tuple[str, ...] = Field(min_length=1)
    cores: int = Field(ge=1)
    python: str = sys.executable
    interface: str
    options: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()


class DaskSettings(ClusterSpec):
    """A Dask scheduler that runs already (`address`), or one to start (`slurm`, `ssh`).

    A scheduler without TLS lets everybody who can reach it run programs on its workers. So the
    address of another machine must be `tls://…` unless `plain_tcp` is set. Without `tls`, the files
    of Dask's own configuration are used.
    """

    kind: Literal["dask"] = "dask"
    address: str | None = None
    tls: TlsSpec | None = None
    plain_tcp: bool = False
    slurm: SlurmSpec | None = None
    ssh: SshSpec | None = None

    @model_validator(mode="after")
    def _require_one_cluster(self) -> "DaskSettings":
        if sum(way is not None for way in (self.address, self.slurm, self.ssh)) != 1:
            raise ValueError("set one of `address`, `slurm` and `ssh`")
        if self.address and not self.plain_tcp and not _is_protected(self.address):
            raise ValueError(
                f"`address: {self.address}` is neither `tls://…` nor on this machine; use TLS, or "
                "set `plain_tcp: true` if only trusted machines can reach the scheduler"
            )
        return self

    @property
    def programs(self) -> tuple[str, ...]:
        if self.ssh is not None:
            command = " ".join(["ssh", *self.ssh.options, self.ssh.python])
            return (*self.ssh.prologue, command)
        if self.slurm is None:
            return ()
        other_python = () if self.slurm.python == sys.executable else (self.slurm.python,)
        return (*self.slurm.prologue, *other_python)


def _is_protected(address: str) -> bool:
    """True if traffic to `address` is encrypted or stays on this machine."""
    url = urlsplit(address if "://" in address else f"tcp://{address}")
    if url.scheme == "tls":
        return True
    try:
        return url.hostname == "localhost" or ip_address(url.hostname or "").is_loopback
    except ValueError:
        return False
