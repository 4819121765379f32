"""The number of cores that this process may use."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The number of cores on which this process may run, or fewer if a quota of CPU time is lower.

    Batch systems restrict the cores (`taskset`, Slurm), containers the CPU time (cgroup v1 or v2).
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(math.ceil, _quotas())]))


def _quotas() -> Iterator[float]:
    """The CPU time that each cgroup of this process may use, in seconds per second."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUPS / controllers
        folder = root / path.lstrip("/")
        for cgroup in (folder, *folder.parents):
            if cgroup.is_relative_to(root):
                yield from _quota_of(cgroup)


def _quota_of(cgroup: Path) -> Iterator[float]:
    """The quota of one cgroup. A process may not see its cgroup from inside of a container."""
    try:
        if (cgroup / "cpu.max").exists():
            quota, period = (cgroup / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (cgroup / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (cgroup / "cpu.cfs_period_us").read_text(encoding="ascii")
    except OSError:
        return
    if quota != "max" and int(quota) > 0:
        yield int(quota) / int(period)
