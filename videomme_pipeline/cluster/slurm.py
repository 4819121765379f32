"""Slurm jobs of a Dask cluster: why Slurm rejects, delays or ends them."""

import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import STDOUT
from typing import Any

from videomme_pipeline.errors import ClusterError
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

MAX_FAILURES = 4
"""A run stops after so many failed jobs without a worker."""
_ACTIVE = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "RUNNING", "COMPLETING")
_ENDED_WELL = ("COMPLETED", "CANCELLED", "PREEMPTED", "TIMEOUT")


def is_on_slurm(cluster: object) -> bool:
    """True if the jobs of a cluster, or of a class of clusters, are submitted to Slurm."""
    return getattr(getattr(cluster, "job_cls", None), "submit_command", None) == "sbatch"


@dataclass(eq=False)
class Jobs:
    """The jobs of a cluster, whose logs are in a folder. Only those of Slurm are looked at."""

    cluster: Any
    logs: Path
    failures: list[str] = field(default_factory=list)
    """The jobs that failed since a worker worked, with their reasons and the ends of their logs."""
    summary: str = "no Slurm jobs"
    """The number of jobs in each state, with Slurm's reasons, and the failures."""

    def check(self) -> str:
        """Slurm's answer to a test of the job, or "". Raises ClusterError if Slurm rejects it."""
        if not is_on_slurm(self.cluster):
            return ""
        try:
            answer = _run("sbatch", "--test-only", stdin=self.cluster.job_script())
        except (OSError, subprocess.SubprocessError) as error:
            output = (getattr(error, "output", None) or str(error)).replace("sbatch: error: ", "")
            reason = "; ".join(output.strip().splitlines())
            raise ClusterError(
                f"Slurm rejects the job ({reason}); correct {CLUSTER_FILE}, "
                "or run this on a login node. `sinfo` lists the partitions"
            ) from error
        return answer.strip().removeprefix("sbatch: ")

    def look(self, workers: int, on_message: Callable[[str], None]) -> None:
        """Show a changed summary, and let the next `scale` replace the jobs that have ended."""
        if not is_on_slurm(self.cluster):
            return
        # Slurm is asked after Dask, so that it knows all jobs. Dask cannot close a cluster while
        # somebody refers to its jobs, so only their numbers are kept.
        specs, ours = self.cluster.worker_spec, f"--name={self.cluster.job_name}"
        jobs = {name: job.job_id for name, job in self.cluster.workers.items() if name in specs}
        with suppress(OSError, subprocess.SubprocessError):
            rows = _run("squeue", ours, "--noheader", "--states=all", "--format=%i|%T (%r)")
            states = dict(
                row.removesuffix(" (None)").partition("|")[::2] for row in rows.splitlines()
            )
            if workers:
                self.failures.clear()
            for name, job in jobs.items():
                state = states.get(job, "COMPLETED")  # Slurm forgets ended jobs after some minutes
                if not state.startswith(_ACTIVE):
                    del specs[name]
                if not state.startswith(_ACTIVE + _ENDED_WELL):
                    self.failures.append(f"job {job} {state}{self._end_of_log(job)}")
            counts = Counter(state for state in states.values() if state.startswith(_ACTIVE))
            active = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
            shown = f"Slurm jobs: {active}" if active else "no Slurm jobs"
            if (summary := "; ".join([shown, *self.failures])) != self.summary:
                self.summary = summary
                on_message(f"cluster: {summary}")

    def _end_of_log(self, job: str) -> str:
        texts = [log.read_text(errors="replace") for log in sorted(self.logs.glob(f"*-{job}.*"))]
        lines = [line.strip() for line in "".join(texts).splitlines() if line.strip()]
        return f", its log in {self.logs} ends with: {' | '.join(lines[-3:])}" if lines else ""


def _run(*command: str, stdin: str | None = None) -> str:
    return subprocess.check_output(command, input=stdin, stderr=STDOUT, text=True, timeout=60)
