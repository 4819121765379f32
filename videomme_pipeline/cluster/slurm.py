"""Slurm jobs of a Dask cluster: why Slurm rejects, delays or ends them."""

import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

MAX_FAILURES = 4
"""A run stops after so many failed jobs without a worker."""
_ACTIVE = {"pending", "configuring", "requeued", "suspended", "running", "completing"}
_ENDED_WELL = {"completed", "cancelled", "preempted", "timeout"}
_LOG_LINES = 3


def export_directive() -> str:
    """The option of `sbatch` that gives jobs only the variables that a child process may see."""
    names = [name for name in sorted(child_environment()) if name.isidentifier()]
    return f"--export={','.join(names)}"


def check_script(script: str) -> str:
    """Ask Slurm if it would start a job, and return its answer. Nothing is started.

    Raises:
        ClusterError: if there is no Slurm here, or it rejects the job.
    """
    try:
        return _run("sbatch", "--test-only", stdin=script).stderr.strip().removeprefix("sbatch: ")
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        lines = [line.removeprefix("sbatch: error: ") for line in output.splitlines() if line]
        raise ClusterError(
            f"Slurm rejects the job ({'; '.join(lines)}); correct {CLUSTER_FILE}, or run this on "
            "a login node. `sinfo` lists the partitions"
        ) from error


@dataclass(eq=False)
class SlurmJobs:
    """The jobs of a `SLURMCluster`, whose logs are in a folder."""

    cluster: Any
    logs: Path
    states: str = ""
    """The number of jobs in each state, with Slurm's reasons."""
    _failures: dict[str, str] = field(default_factory=dict)
    _forgiven: int = 0
    """The number of jobs that failed before a worker worked."""

    def look(self, workers: int, on_message: Callable[[str], None]) -> None:
        """Show changed states, let the next `scale` replace ended jobs, or raise ClusterError."""
        # Slurm is asked after Dask, so that it knows all jobs. Dask cannot close a cluster while
        # somebody refers to its jobs, so only their numbers are kept.
        jobs = {name: job.job_id for name, job in self.cluster.workers.items()}
        states = _states(self.cluster.job_name) if jobs else None
        if states is None:
            return
        for name, job in jobs.items():
            state = states.get(job, "completed")  # Slurm forgets ended jobs after some minutes
            if state.split()[0] in _ACTIVE:
                continue
            self.cluster.worker_spec.pop(name, None)
            if state.split()[0] not in _ENDED_WELL and job not in self._failures:
                self._failures[job] = f"job {job}: {state}{self._end_of_log(job)}"
                on_message(f"cluster: {self._failures[job]}")
        if workers:
            self._forgiven = len(self._failures)
        failures = list(self._failures.values())[self._forgiven :]
        if len(failures) >= MAX_FAILURES:
            raise ClusterError(
                f"cluster: no Slurm job works: {'; '.join(failures)}. Correct {CLUSTER_FILE}; all "
                f"logs are in {self.logs}"
            )
        counts = Counter(state for state in states.values() if state.split()[0] in _ACTIVE)
        shown = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
        if shown != self.states:
            self.states = shown
            on_message(f"cluster: Slurm jobs: {shown}")

    def _end_of_log(self, job: str) -> str:
        texts = [log.read_text(errors="replace") for log in sorted(self.logs.glob(f"*-{job}.*"))]
        lines = [line.strip() for line in "".join(texts).splitlines() if line.strip()]
        return f", its log ends with: {' | '.join(lines[-_LOG_LINES:])}" if lines else ""


def _states(name: str) -> dict[str, str] | None:
    """The state and reason of each job of a name, or None if Slurm does not answer."""
    with suppress(OSError, subprocess.SubprocessError):
        rows = _run("squeue", "--noheader", "--states=all", f"--name={name}", "--format=%i|%T|%r")
        fields = (row.split("|") for row in rows.stdout.splitlines())
        return {
            job: state.lower() + (f" ({reason})" if reason != "None" else "")
            for job, state, reason in fields
        }
    return None


def _run(*command: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=True, timeout=60
    )
