"""Which process works on a run, and what becomes of runs whose process is gone.

Dagster notes a process id at most, which says nothing once several machines share an instance.
Each step notes on its run where it works; only a process that can be seen from here may be called
dead.
"""

import json
import platform
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import dagster as dg
import psutil

PROCESS_TAG = "videomme/process"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_MACHINE = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcess:
    """The process that works on a run.

    `host` is the machine over all its restarts, `boot` its time between two of them, `namespace`
    where its number counts (a container has its own); where there is no Linux to tell, all three
    are the host's name. Two processes that had the same number differ in when they `started`.
    """

    run_id: str
    host: str
    boot: str
    namespace: str
    pid: int
    started: float

    @classmethod
    def this(cls, run_id: str) -> "RunProcess":
        """The process that asks."""
        process = psutil.Process()
        started = _started(process)
        assert started is not None
        return cls(run_id=run_id, **_place(), pid=process.pid, started=started)

    @classmethod
    def of(cls, run: dg.DagsterRun) -> "RunProcess | None":
        """What a run says of its process; None where it says nothing.

        A run that repeats another one also has its tags at first: those are not its own.
        """
        held = run.tags.get(PROCESS_TAG)
        process = cls(**json.loads(held)) if held else None
        return process if process and process.run_id == run.run_id else None

    def as_tag(self) -> str:
        """As a run keeps it."""
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


def note_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Note on a run that this process works on it."""
    process = RunProcess.this(run.run_id)
    if RunProcess.of(run) != process:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: process.as_tag()})


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs as failed whose process is gone, as after a kill or a power cut; their ids.

    Dagster itself would show them as running for ever, and what they hold (their place among the
    runs, slots of pools) would never come free.
    """
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [run for run in started if (process := RunProcess.of(run)) and process.is_dead]
    for run in dead:
        instance.report_run_failed(
            run, "The process of this run ended without a word; what it stored is kept."
        )
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in dead]


@cache
def _place() -> dict[str, str]:
    """Where this process is, as `RunProcess` says it."""
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
