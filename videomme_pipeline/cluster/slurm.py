"""Jobs of Slurm, workers as the tasks of array jobs, and the reasons why they do not work."""

import math
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from uuid import uuid4

from pydantic import Field

from videomme_pipeline.cluster.workers import QueueSpec, queue_workers
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.processes.tasks import Workers
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

LOGS = "logs"
"""The folder of the logs of jobs, beside the folder of the run."""
DAYS_OF_LOGS = 14
MAX_FAILURES = 4
"""A run stops after so many failed jobs without a worker."""
IDLE_SECONDS = 600
"""Jobs that have no tasks for this time end."""
REPLACE_SECONDS = 30.0
"""Seconds between two submissions while others work, because jobs may fail again and again."""
_LOOK_SECONDS = 5.0
_LOG_LINES = 3
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"})
WORKING = frozenset({"RUNNING", "COMPLETING"})
_ENDED_WELL = frozenset({"COMPLETED", "CANCELLED", "PREEMPTED", "TIMEOUT"})


class JobSpec(Spec):
    """The resources and the environment of a job.

    `python` has this project on all nodes. `directives` are further `#SBATCH` options, such as
    `--constraint=avx2`. `prologue` are lines of the job script before the program starts, such as
    `module load`.
    """

    queue: str | None = None
    account: str | None = None
    cores: int = Field(ge=1)
    memory: str
    walltime: str = "01:00:00"
    python: str = sys.executable
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        other_python = () if self.python == sys.executable else (self.python,)
        return (*self.prologue, *other_python)

    def script(self, module: Sequence[str], name: str, log: Path, **options: object) -> str:
        """The script of a job that runs a module of this project with its arguments.

        `name` is that of the job, and `options` are those of `sbatch` without `--`.
        """
        # Jobs get only the environment variables that a child process may see.
        names = [name for name in sorted(child_environment()) if name.isidentifier()]
        options = {
            "job-name": name,
            "output": log,
            "partition": self.queue,
            "account": self.account,
            "ntasks": 1,
            "cpus-per-task": self.cores,
            "mem": self.memory.upper().removesuffix("B"),
            "time": self.walltime,
            "export": ",".join(names),
            **options,
        }
        directives = [f"--{name}={value}" for name, value in options.items() if value is not None]
        return "\n".join(
            [
                "#!/bin/sh",
                *(f"#SBATCH {directive}" for directive in (*directives, *self.directives)),
                *self.prologue,
                f"exec {shlex.join([self.python, '-m', *module])}",
                "",
            ]
        )


class SlurmSpec(JobSpec, QueueSpec):
    """Workers as up to `jobs` Slurm jobs, which start when tasks wait and end when none do.

    `cores`, `memory` and `walltime` are those of one job.
    """

    kind: Literal["slurm"] = "slurm"
    jobs: int = Field(ge=1)

    @contextmanager
    def connect(self, folder: Path, on_message: Callable[[str], None]) -> Iterator[Workers]:
        jobs = SlurmJobs(self, folder, on_message)
        check_script(jobs.script(1), CLUSTER_FILE)
        most_tasks = self.jobs * self.cores
        try:
            with queue_workers(self, folder, on_message, jobs.check, most_tasks) as workers:
                yield workers
        finally:
            cancel(jobs.name)

    def check_jobs(self) -> str:
        return check_script(SlurmJobs(self, Path.cwd() / "run", print).script(1), CLUSTER_FILE)


@dataclass
class SlurmJobs:
    """The jobs of the run in `folder`, which all have one name."""

    spec: SlurmSpec
    folder: Path
    on_message: Callable[[str], None]
    name: str = field(default_factory=lambda: f"videomme-{uuid4().hex[:8]}")
    _looked_at: float = 0.0
    _submitted_at: float = 0.0
    _shown: str = ""
    _failed: dict[str, str] = field(default_factory=dict)
    _forgiven: int = 0
    """The number of jobs that failed before a worker worked."""

    def check(self, workers: int, tasks: int, alone_seconds: float) -> str:  # noqa: ARG002
        """Show the states of the jobs, and submit missing ones, at most every few seconds.

        Raises:
            ClusterError: if jobs fail again and again, or Slurm rejects them.
        """
        now = time.monotonic()
        if not tasks or now - self._looked_at < _LOOK_SECONDS:
            return self._shown
        self._looked_at = now
        jobs = states(self.name)
        if jobs is None:  # the controller does not answer
            return self._shown
        self._show(jobs)
        if workers:
            self._forgiven = len(self._failed)
        failures = list(self._failed.values())[self._forgiven :]
        if len(failures) >= MAX_FAILURES:
            raise ClusterError(
                f"cluster: no Slurm job works: {'; '.join(failures)}. Correct {CLUSTER_FILE}; all "
                f"logs are in {self._logs}"
            )
        active = sum(state in WAITING | WORKING for state, _ in jobs.values())
        missing = min(math.ceil(tasks / self.spec.cores), self.spec.jobs) - active
        if missing > 0 and (not workers or now - self._submitted_at > REPLACE_SECONDS):
            _remove_old(self._logs)
            submit(self.script(missing), CLUSTER_FILE)
            self._submitted_at = now
        return self._shown

    @property
    def _logs(self) -> Path:
        return self.folder.parent / LOGS

    def _show(self, jobs: Mapping[str, tuple[str, str]]) -> None:
        """Show the states when they change, and each job that failed."""
        for job, (state, reason) in jobs.items():
            is_bad = state not in WAITING | WORKING | _ENDED_WELL
            if is_bad and job not in self._failed:
                end = shown_end(self._logs / f"{self.name}-{job}.log")
                self._failed[job] = f"job {job}: {state.lower()} ({reason}){end}"
                self.on_message(f"cluster: {self._failed[job]}")
        counts = Counter(
            shown_state(state, reason)
            for state, reason in jobs.values()
            if state in WAITING | WORKING
        )
        shown = ", ".join(f"{count} {words}" for words, count in sorted(counts.items()))
        if shown != self._shown:
            self._shown = shown
            self.on_message(f"cluster: Slurm jobs: {shown or 'none'}")

    def script(self, count: int) -> str:
        """The script of an array of `count` jobs, each of them a worker."""
        worker = ["videomme_pipeline.cluster.worker", str(self.folder)]
        worker += ["--tasks", str(self.spec.cores), "--idle-seconds", str(IDLE_SECONDS)]
        log = self._logs / f"{self.name}-%A_%a.log"
        return self.spec.script(worker, self.name, log, array=f"0-{count - 1}")


def submit(script: str, file: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Submit a script with `sbatch`. With the option `--test-only`, nothing is started.

    Raises:
        ClusterError: if there is no Slurm here, or it rejects the job. The message names `file`.
    """
    if shutil.which("sbatch") is None:
        raise ClusterError(
            "no command `sbatch` here; run this on a login node of the Slurm cluster"
        )
    try:
        return _run(["sbatch", *options], stdin=script)
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        lines = [line.removeprefix("sbatch: error: ") for line in output.splitlines() if line]
        raise ClusterError(
            f"Slurm rejects the job ({'; '.join(lines)}); correct {file}. `sinfo` lists the "
            "partitions"
        ) from error


def check_script(script: str, file: str) -> str:
    """Ask Slurm if it would start a job, and return its answer. Nothing is started.

    Raises:
        ClusterError: as `submit`.
    """
    return submit(script, file, "--test-only").stderr.strip().removeprefix("sbatch: ")


def cancel(name: str) -> None:
    """End all jobs of a name, if Slurm answers."""
    with suppress(OSError, subprocess.SubprocessError):
        _run(["scancel", "--name", name])


def states(name: str) -> dict[str, tuple[str, str]] | None:
    """The state and reason of each job of a name, or None if Slurm does not answer."""
    command = ["squeue", "--noheader", "--array", "--states=all", f"--name={name}"]
    with suppress(OSError, subprocess.SubprocessError):
        rows = _run([*command, "--format=%i|%T|%r"]).stdout.splitlines()
        fields = (row.split("|") for row in rows)
        return {job: (state, reason) for job, state, reason in fields}
    return None


def shown_state(state: str, reason: str) -> str:
    """The state of a job with Slurm's reason, for a message."""
    return state.lower() + (f" ({reason})" if reason != "None" else "")


def shown_end(log: Path) -> str:
    """The last lines of a job's log, for a message."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f", its log ends with: {' | '.join(lines[-_LOG_LINES:])}" if lines else ""


def _remove_old(logs: Path) -> None:
    """Create the folder of logs, without those that are older than `DAYS_OF_LOGS`."""
    logs.mkdir(exist_ok=True)
    for file in logs.iterdir():
        with suppress(OSError):  # another run may remove it
            if time.time() - file.stat().st_mtime > DAYS_OF_LOGS * 86_400:
                file.unlink()


def _run(command: list[str], stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=True, timeout=60
    )
