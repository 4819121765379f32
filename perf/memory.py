"""The peak of resident memory of this process, for measurements in child processes.

`getrusage` is not used: on Linux the maximum of a child process starts with that of its parent.
"""

from pathlib import Path


def peak_rss_mb() -> float:
    """The peak since the start of this process, or since `reset_peak`."""
    return _status("VmHWM")


def reset_peak() -> float:
    """Set the peak to the memory that is in use now, and return it in MB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmHWM")


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))
