"""Which process something belongs to, and whether that one is certainly gone.

A process id alone says nothing once several machines or containers share a file or a database, or
when the number is given again.
"""

import json
import platform
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

import psutil

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_MACHINE = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process, told apart from every other one.

    `host` is the machine over all its restarts, `boot` its time between two of them, `namespace`
    where its number counts (a container has its own); where there is no Linux to tell, all three
    are the host's name. Two processes that had the same number differ in when they `started`.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: float

    @classmethod
    def here(cls, **more: str) -> Self:
        """The process that asks; `more` are the fields of a subclass."""
        process = psutil.Process()
        started = _started(process)
        assert started is not None
        return cls(**_place(), pid=process.pid, started=started, **more)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `as_json`."""
        return cls(**json.loads(text))

    def as_json(self) -> str:
        """As it is kept in a file or a database."""
        return json.dumps(asdict(self))

    @property
    def is_dead(self) -> bool:
        """Whether it is certainly gone: not there any more, or from before this host's restart."""
        here = _place()
        if self.boot != here["boot"]:
            return self.host == here["host"]
        if self.namespace != here["namespace"]:
            return False
        if not psutil.pid_exists(self.pid):
            return True
        try:
            return _started(psutil.Process(self.pid)) != self.started
        except (psutil.Error, OSError):  # another user's, which may not be looked at
            return False


@cache
def _place() -> dict[str, str]:
    """Where this process is, as `ProcessIdentity` says it."""
    name = platform.node()
    if not _BOOT.exists():
        return {"host": name, "boot": name, "namespace": name}
    machine = _MACHINE.read_text().strip() if _MACHINE.exists() else ""
    return {
        "host": f"{name} {machine}".rstrip(),
        "boot": _BOOT.read_text().strip(),
        "namespace": str(_NAMESPACE.readlink()),
    }


def _started(process: psutil.Process) -> float | None:
    """When a process began, by a clock that nobody sets where there is one; None once it ended."""
    if process.status() == psutil.STATUS_ZOMBIE:
        return None
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        return process.create_time()
    # The 22nd field, in ticks since the boot; the name before it may hold blanks and brackets.
    return float(stat.read_text().rpartition(")")[2].split()[19])
