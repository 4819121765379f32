"""Tasks on a worker of Dask: they run in child processes with limits, which Dask does not have.

A thread of a worker cannot be ended. Its child process can, so a task that nobody waits for any
more ends within a second. The child process is kept for the next task of the thread.
"""

import platform
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.children import Child, TaskLimits
from videomme_pipeline.processes.tasks import TaskOutcome, run_in

_LOOK_SECONDS = 1.0
_SAME_VERSIONS = ("videomme-pipeline", "av", "simplejpeg")
"""Packages that determine frames and packet indexes."""
_own = threading.local()
"""`child` is the child process of a thread."""


def run_on_worker(
    function: Callable[[Any], Any], task: Any, limits: TaskLimits, required: Mapping[str, str]
) -> TaskOutcome:
    """Run a task in a child process. It fails if this worker has not the `required` versions."""
    from distributed import get_worker  # noqa: PLC0415 - only workers have it
    from distributed.worker import WORKER_ANY_RUNNING  # noqa: PLC0415

    if problem := problem_with(required):
        return None, ClusterError(problem)
    worker = get_worker()
    key = worker.get_current_task()
    child: Child = getattr(_own, "child", None) or Child()
    _own.child = child
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(run_in, child, function, task, limits)
        while not wait([future], _LOOK_SECONDS).done:
            state = worker.state.tasks.get(key)
            is_wanted = state is not None and state.state == "executing"
            if not is_wanted or worker.status not in WORKER_ANY_RUNNING:
                child.kill()
                _own.child = None
    return future.result()


@cache
def versions() -> Mapping[str, str]:
    """The versions of this process that determine frames and packet indexes."""
    own = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _SAME_VERSIONS:
        try:
            own[package] = version(package)
        except PackageNotFoundError:
            own[package] = "missing"
    return own


def problem_with(required: Mapping[str, str]) -> str | None:
    """Why this process cannot run tasks that need these versions, or None."""
    different = [
        f"{name} {own}, not {required.get(name)}"
        for name, own in versions().items()
        if own != required.get(name)
    ]
    if not different:
        return None
    return f"{', '.join(different)}; install the versions of the machine that starts the run"
