"""The identity of a process, across machines, containers and reused ids, and its versions."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Self

import psutil
from blake3 import blake3

from videomme_pipeline.errors import ClusterError

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_MACHINE = Path("/etc/machine-id")
_SAME_VERSIONS = ("videomme-pipeline", "av", "simplejpeg")
"""Packages that determine frames and packet indexes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """The identity of one process, which no other process has.

    `host` identifies the machine, `boot` its current boot, and `namespace` the scope of process
    ids; each container has its own. All three are hashes, and on systems other than Linux those of
    the host name. Processes that reuse an id differ in `started`.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: float

    @classmethod
    def here(cls, **more: str) -> Self:
        """The current process; `more` are the fields of a subclass."""
        process = psutil.Process()
        return cls(**_scope(), pid=process.pid, started=_started(process), **more)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `as_json`."""
        return cls(**json.loads(text))

    @classmethod
    def from_name(cls, name: str) -> Self:
        """The inverse of `as_name`."""
        host, boot, namespace, pid, started = name.split("-")
        return cls(host=host, boot=boot, namespace=namespace, pid=int(pid), started=float(started))

    def as_name(self) -> str:
        return "-".join(map(str, (self.host, self.boot, self.namespace, self.pid, self.started)))

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def is_dead(self) -> bool:
        """True if the process has certainly ended: it does not exist, or its host has restarted."""
        here = _scope()
        if self.boot != here["boot"]:
            return self.host == here["host"]
        if self.namespace != here["namespace"]:
            return False
        if not psutil.pid_exists(self.pid):
            return True
        try:
            process = psutil.Process(self.pid)
            is_zombie = process.status() == psutil.STATUS_ZOMBIE
            return is_zombie or _started(process) != self.started
        except (psutil.Error, OSError):  # another user's process, which may not be inspected
            return False


@cache
def _scope() -> dict[str, str]:
    host = boot = namespace = platform.node()
    if _BOOT.exists():
        machine = _MACHINE.read_text(encoding="utf-8") if _MACHINE.exists() else ""
        host += machine
        boot, namespace = _BOOT.read_text(encoding="ascii"), str(_NAMESPACE.readlink())
    return {
        name: blake3(value.encode()).hexdigest(length=4)
        for name, value in (("host", host), ("boot", boot), ("namespace", namespace))
    }


def _started(process: psutil.Process) -> float:
    """The start time of a process, on Linux in ticks since the boot, whatever the clock says."""
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        return process.create_time()
    # The 22nd field, in ticks since the boot; the name before it may contain spaces and brackets.
    return float(stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])


@cache
def versions() -> Mapping[str, str]:
    """The versions of this process that determine frames and packet indexes."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python} | {name: version(name) for name in _SAME_VERSIONS}


def check_versions(required: Mapping[str, str]) -> None:
    """Raise ClusterError if this process does not have the `required` versions."""
    if different := versions().items() - required.items():
        names = (f"{name} {own}, not {required.get(name)}" for name, own in sorted(different))
        reason = f"{', '.join(names)}; install the versions of the machine that starts the run"
        raise ClusterError(reason)
