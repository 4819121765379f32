"""Workers as the tasks of Slurm's array jobs: how they are submitted, and why they do not work."""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from uuid import uuid4

from pydantic import Field, model_validator

from videomme_pipeline.cluster.workers import QueueSpec, queue_workers
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.processes.tasks import Workers
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

LOGS = "logs"
"""The folder of the logs of jobs, beside the folder of the run."""
DAYS_OF_LOGS = 14
CONNECT_SECONDS = 300.0
"""The longest time between the start of a job and the first sign of its worker."""
MOST_FAILURES = 4
"""A run stops after so many failed jobs without a worker."""
IDLE_SECONDS = 600
"""Jobs that have no tasks for this time end, if fewer than all are needed."""
REPLACE_SECONDS = 30.0
"""Jobs that failed are replaced after this time."""
_LOOK_SECONDS = 5.0
_LOG_LINES = 3
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"})
_WORKING = frozenset({"RUNNING", "COMPLETING"})
_ENDED_WELL = frozenset({"COMPLETED", "CANCELLED", "PREEMPTED", "TIMEOUT"})


class AdaptSpec(Spec):
    """Bounds of the number of jobs. Jobs start when tasks wait, and end when none do."""

    minimum: int = Field(default=0, ge=0)
    maximum: int = Field(ge=1)


class SlurmSpec(QueueSpec):
    """Workers as Slurm jobs. `cores`, `memory` and `walltime` are those of one job.

    `python` has this project on all nodes. `directives` are further `#SBATCH` options, such as
    `--constraint=avx2`. `prologue` are lines of the job script before the worker starts, such as
    `module load`.
    """

    kind: Literal["slurm"] = "slurm"
    queue: str | None = None
    account: str | None = None
    cores: int = Field(ge=1)
    memory: str
    walltime: str = "01:00:00"
    jobs: int | None = Field(default=None, ge=1)
    adapt: AdaptSpec | None = None
    python: str = sys.executable
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _require_size(self) -> "SlurmSpec":
        if (self.jobs is None) == (self.adapt is None):
            raise ValueError("set either `jobs: 4` or `adapt: {minimum: 0, maximum: 16}`")
        return self

    @property
    def bounds(self) -> AdaptSpec:
        """The smallest and the largest number of jobs at the same time."""
        return self.adapt or AdaptSpec(minimum=self.jobs or 1, maximum=self.jobs or 1)

    @property
    def programs(self) -> tuple[str, ...]:
        other_python = () if self.python == sys.executable else (self.python,)
        return (*self.prologue, *other_python)

    @contextmanager
    def connect(self, folder: Path, on_message: Callable[[str], None]) -> Iterator[Workers]:
        jobs = SlurmJobs(self, folder, on_message)
        try:
            jobs.submit(self.bounds.minimum)
            most_tasks = self.bounds.maximum * self.cores
            with queue_workers(self, folder, on_message, jobs, most_tasks) as workers:
                yield workers
        finally:
            with suppress(OSError, subprocess.SubprocessError):
                _run(["scancel", "--name", jobs.name])

    def check_jobs(self) -> str:
        return SlurmJobs(self, Path.cwd() / "run", print).check_script()


@dataclass
class SlurmJobs:
    """The jobs of the run in `folder`, which all have one name."""

    spec: SlurmSpec
    folder: Path
    on_message: Callable[[str], None]
    name: str = field(default_factory=lambda: f"videomme-{uuid4().hex[:8]}")
    _looked_at: float = 0.0
    _submitted_at: float = 0.0
    _has_worked: bool = False
    _shown: str = ""
    _failed: dict[str, str] = field(default_factory=dict)

    def check_script(self) -> str:
        """Ask Slurm if it would start a job, and return its answer. Nothing is started.

        Raises:
            ClusterError: if there is no Slurm here, or it rejects the job.
        """
        answer = self._sbatch(1, "--test-only").stderr
        return answer.strip().removeprefix("sbatch: ")

    def submit(self, count: int) -> None:
        """Submit an array of `count` jobs, or check that one could be submitted.

        Raises:
            ClusterError: if Slurm rejects it.
        """
        if count == 0:
            self.check_script()
            return
        _remove_old(self._logs)
        self._sbatch(count)
        self._submitted_at = time.monotonic()

    def check(self, workers: int, tasks: int, alone_seconds: float) -> str:
        """Show the states of the jobs, at most every few seconds, and submit those that miss."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS or not (tasks or workers):
            return self._words
        self._looked_at = now
        jobs = self._states()
        if jobs is None:  # the controller does not answer
            return self._words
        self._show(jobs)
        active = sum(state in _WAITING | _WORKING for state, _ in jobs.values())
        patience = REPLACE_SECONDS if self._failed else 0.0
        if workers:
            self._has_worked = True
            self._failed.clear()
        elif alone_seconds:
            self._require_hope(jobs, active, alone_seconds)
        bounds = self.spec.bounds
        needed = min(max(-(-tasks // self.spec.cores), bounds.minimum), bounds.maximum) - active
        if needed > 0 and now - self._submitted_at > patience:
            self.submit(needed)
        return self._words

    @property
    def _logs(self) -> Path:
        return self.folder.parent / LOGS

    @property
    def _words(self) -> str:
        return f" ({self._shown})" if self._shown else ""

    def _require_hope(
        self, jobs: Mapping[str, tuple[str, str]], active: int, alone_seconds: float
    ) -> None:
        """Raise an error if the jobs of a run without a worker will not have one."""
        # Jobs that worked until their time limit are replaced, but not at once.
        patience = CONNECT_SECONDS if self._has_worked else 2 * _LOOK_SECONDS
        if len(self._failed) >= MOST_FAILURES or (jobs and not active and alone_seconds > patience):
            raise ClusterError(
                f"cluster: no Slurm job works: {'; '.join(self._failed.values()) or 'all ended'}"
                f". Correct {CLUSTER_FILE}; all logs are in {self._logs}"
            )
        states = {state for state, _ in jobs.values()}
        if states & _WORKING and not states & _WAITING and alone_seconds > CONNECT_SECONDS:
            job = next(job for job, (state, _) in jobs.items() if state in _WORKING)
            raise ClusterError(
                f"cluster: Slurm jobs run, but no worker has looked into {self.folder} for "
                f"{alone_seconds:.0f} s{self._log_of(job)}. All nodes must share this folder"
            )

    def _show(self, jobs: Mapping[str, tuple[str, str]]) -> None:
        """Show the states when they change, and each job that failed."""
        for job, (state, reason) in jobs.items():
            is_bad = state not in _WAITING | _WORKING | _ENDED_WELL
            if is_bad and job not in self._failed:
                self._failed[job] = f"job {job}: {state.lower()} ({reason}){self._log_of(job)}"
                self.on_message(f"cluster: {self._failed[job]}")
        counts: dict[str, int] = {}
        for state, reason in jobs.values():
            if state in _WAITING | _WORKING:
                words = state.lower() + (f" ({reason})" if reason != "None" else "")
                counts[words] = counts.get(words, 0) + 1
        shown = ", ".join(f"{count} {words}" for words, count in sorted(counts.items()))
        if shown != self._shown:
            self._shown = shown
            self.on_message(f"cluster: Slurm jobs: {shown or 'none'}")

    def _states(self) -> dict[str, tuple[str, str]] | None:
        """The state and reason of each job, or None if Slurm does not answer."""
        command = ["squeue", "--noheader", "--array", "--states=all", f"--name={self.name}"]
        with suppress(OSError, subprocess.SubprocessError):
            rows = _run([*command, "--format=%i|%T|%r"]).stdout.splitlines()
            fields = (row.split("|") for row in rows)
            return {job: (state, reason) for job, state, reason in fields}
        return None

    def _log_of(self, job: str) -> str:
        """The last lines of a job's log, for a message."""
        log = self._logs / f"{self.name}-{job}.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f", its log ends with: {' | '.join(lines[-_LOG_LINES:])}" if lines else ""

    def _script(self, count: int) -> str:
        """The script of an array of `count` jobs, each of them a worker."""
        spec, bounds = self.spec, self.spec.bounds
        # Jobs get only the environment variables that a child process may see.
        names = [name for name in sorted(child_environment()) if name.isidentifier()]
        options = {
            "array": f"0-{count - 1}",
            "job-name": self.name,
            "output": self._logs / f"{self.name}-%A_%a.log",
            "partition": spec.queue,
            "account": spec.account,
            "ntasks": 1,
            "cpus-per-task": spec.cores,
            "mem": spec.memory.upper().removesuffix("B"),
            "time": spec.walltime,
            "export": ",".join(names),
        }
        directives = [f"--{name}={value}" for name, value in options.items() if value is not None]
        worker = [spec.python, "-m", "videomme_pipeline.cluster.worker", str(self.folder)]
        worker += ["--tasks", str(spec.cores)]
        if bounds.minimum < bounds.maximum:
            worker += ["--idle-seconds", str(IDLE_SECONDS)]
        return "\n".join(
            [
                "#!/bin/sh",
                *(f"#SBATCH {directive}" for directive in (*directives, *spec.directives)),
                *spec.prologue,
                f"exec {shlex.join(worker)}",
                "",
            ]
        )

    def _sbatch(self, count: int, *options: str) -> "subprocess.CompletedProcess[str]":
        if shutil.which("sbatch") is None:
            raise ClusterError(
                "no command `sbatch` here; run this on a login node of the Slurm cluster"
            )
        try:
            return _run(["sbatch", *options], stdin=self._script(count))
        except (OSError, subprocess.SubprocessError) as error:
            output = getattr(error, "stderr", None) or str(error)
            lines = [line.removeprefix("sbatch: error: ") for line in output.splitlines() if line]
            raise ClusterError(
                f"cluster: Slurm rejects the job ({'; '.join(lines)}); correct {CLUSTER_FILE}. "
                "`sinfo` lists the partitions"
            ) from error


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
