"""Identify a process, detect that it has ended, and keep keys out of children.

A process id alone is ambiguous: several machines or containers may share a file or a database,
and the operating system reuses ids.
"""

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

import psutil

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_MACHINE = Path("/etc/machine-id")

_SECRET_NAME = re.compile(r"SECRET|PASSWORD|PASSWD|CREDENTIAL|(KEY|TOKEN|URL)S?$")
_STORAGE_NAME = re.compile(r"(AWS|AZURE_STORAGE|GOOGLE_APPLICATION|FSSPEC)_")
_URL_WITH_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
_key_variables: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """The identity of one process, different from that of every other process.

    `host` identifies the machine, and `boot` its current boot. `namespace` is the scope of process
    ids; each container has its own. On systems other than Linux, all three are the host name.
    Processes that reuse an id differ in `started`.
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
        started = _started(process)
        assert started is not None
        return cls(**_place(), pid=process.pid, started=started, **more)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `as_json`."""
        return cls(**json.loads(text))

    def as_json(self) -> str:
        """JSON text to store in a file or a database."""
        return json.dumps(asdict(self))

    @property
    def is_dead(self) -> bool:
        """True if the process has certainly ended: it does not exist, or its host has restarted."""
        here = _place()
        if self.boot != here["boot"]:
            return self.host == here["host"]
        if self.namespace != here["namespace"]:
            return False
        if not psutil.pid_exists(self.pid):
            return True
        try:
            return _started(psutil.Process(self.pid)) != self.started
        except (psutil.Error, OSError):  # another user's process, which may not be inspected
            return False


def register_key_variables(names: Iterable[str]) -> None:
    """Remove these environment variables from every later `child_environment`."""
    _key_variables.update(name.upper() for name in names)


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of `environment` that a child process may see: all but those with secrets.

    A variable has a secret if it was registered, if its name contains SECRET, PASSWORD, PASSWD or
    CREDENTIAL or ends in KEY, TOKEN or URL, or if its value is a URL with a password. Credentials
    of object stores are kept, because children store frames.

    Every child gets this environment, except the processes of Dagster, since they ask models.
    """
    return {
        name: value for name, value in environment.items() if not _has_secret(name.upper(), value)
    }


def _has_secret(name: str, value: str) -> bool:
    if _STORAGE_NAME.match(name):
        return False
    is_secret = name in _key_variables or _SECRET_NAME.search(name)
    return bool(is_secret or has_password(value))


def has_password(text: str) -> bool:
    """Whether a text contains a URL with a password."""
    return bool(_URL_WITH_PASSWORD.search(text))


@cache
def _place() -> dict[str, str]:
    """The host, boot and namespace of this process."""
    name = platform.node()
    if not _BOOT.exists():
        return {"host": name, "boot": name, "namespace": name}
    machine = _MACHINE.read_text(encoding="utf-8").strip() if _MACHINE.exists() else ""
    return {
        "host": f"{name} {machine}".rstrip(),
        "boot": _BOOT.read_text(encoding="ascii").strip(),
        "namespace": str(_NAMESPACE.readlink()),
    }


def _started(process: psutil.Process) -> float | None:
    """The start time of a process, or None if it has ended.

    On Linux it is in clock ticks since the boot, so setting the system clock does not change it.
    """
    if process.status() == psutil.STATUS_ZOMBIE:
        return None
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        return process.create_time()
    # The 22nd field, in ticks since the boot; the name before it may contain spaces and brackets.
    return float(stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])
