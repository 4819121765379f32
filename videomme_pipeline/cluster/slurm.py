"""Slurm's words about the jobs of a Dask cluster: rejections, states and logs."""

import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.secrets import child_environment
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

State = tuple[str, str]
"""The state of a job, and Slurm's reason."""
_ACTIVE = {"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "RUNNING", "COMPLETING"}
_ENDED_WELL = {"COMPLETED", "CANCELLED", "PREEMPTED", "TIMEOUT"}
_LOG_LINES = 3


def check_script(script: str) -> str:
    """Ask Slurm if it would start a job, and return its answer. Nothing is started.

    Raises:
        ClusterError: if there is no Slurm here, or it rejects the job.
    """
    try:
        return _run("sbatch", "--test-only", stdin=script).stderr.strip().removeprefix("sbatch: ")
    except FileNotFoundError as error:
        raise ClusterError(
            "no command `sbatch` here; run this on a login node of the Slurm cluster"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        lines = [line.removeprefix("sbatch: error: ") for line in output.splitlines() if line]
        raise ClusterError(
            f"Slurm rejects the job ({'; '.join(lines)}); correct {CLUSTER_FILE}. `sinfo` lists "
            "the partitions"
        ) from error


def export_directive() -> str:
    """The option of `sbatch` that gives jobs only the variables that a child process may see."""
    names = [name for name in sorted(child_environment()) if name.isidentifier()]
    return f"--export={','.join(names)}"


def states(name: str) -> dict[str, State] | None:
    """The state of each job of a name, or None if Slurm does not answer."""
    with suppress(OSError, subprocess.SubprocessError):
        rows = _run(
            "squeue", "--noheader", "--states=all", f"--name={name}", "--format=%i|%T|%r"
        ).stdout.splitlines()
        fields = (row.split("|") for row in rows)
        return {job: (state, reason) for job, state, reason in fields}
    return None


def is_active(state: State | None) -> bool:
    """True if a job of this state waits or runs. None is a job that Slurm has forgotten."""
    return state is not None and state[0] in _ACTIVE


def has_failed(state: State | None) -> bool:
    return state is not None and state[0] not in _ACTIVE | _ENDED_WELL


def shown(listed: Iterable[State]) -> str:
    """The number of jobs in each state, with Slurm's reasons, for a message."""
    counts = Counter(_shown_state(state) for state in listed if is_active(state))
    return ", ".join(f"{count} {words}" for words, count in sorted(counts.items())) or "none"


def shown_failure(job: str, state: State, logs: Path) -> str:
    """The state of a failed job and the end of its logs, for a message."""
    lines = [
        line.strip()
        for log in sorted(logs.glob(f"*-{job}.*"))
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    end = f", its log ends with: {' | '.join(lines[-_LOG_LINES:])}" if lines else ""
    return f"job {job}: {_shown_state(state)}{end}"


def _shown_state(state: State) -> str:
    name, reason = state
    return name.lower() + (f" ({reason})" if reason != "None" else "")


def _run(*command: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=True, timeout=60
    )
