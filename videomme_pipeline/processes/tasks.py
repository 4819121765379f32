"""Tasks of heavy work, on this machine or a cluster.

Every task runs in a child process with limits (`children`), so a decoder that crashes ends its own
task and nothing else. Tasks return rows and names of stored files, never frames.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, cast

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.processes.children import Child, ChildFailedError, Task, TaskLimits, Value

LOOK_SECONDS = 1.0
"""Seconds between looks at the workers while no task ends."""
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult(Generic[Task, Value]):
    """The value of one task, or the error that ended it."""

    task: Task
    value: Value | None = None
    error: VideoMMEError | None = None

    def result(self) -> Value:
        """The value. Raises the error if the task failed."""
        if self.error is not None:
            raise self.error
        return cast("Value", self.value)


class Workers(Protocol):
    """Processes that run tasks."""

    @property
    def room(self) -> int:
        """The number of tasks to submit at the same time, at least 1."""

    @property
    def description(self) -> str:
        """The workers in words, for progress, or "" for those of this machine."""

    def problems(self) -> Mapping[str, str | None]:
        """The reason why a worker of a cluster runs no tasks, or None, by the worker's name."""

    def executor(self) -> "AbstractContextManager[Submit]":
        """A function that submits a task. Tasks that still run are ended after the block.

        The future of a task that a cluster has lost is canceled, and the task is submitted again.
        """


TaskOutcome = tuple[Any, VideoMMEError | None]
"""The value of a task, and the error that ended it."""
Submit = Callable[[Callable[[Any], Any], Any, TaskLimits], Future[TaskOutcome]]


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


@dataclass(frozen=True)
class LocalWorkers:
    """Child processes of this process, by default one per usable core."""

    room: int = field(default_factory=usable_cores)
    description = ""

    def problems(self) -> Mapping[str, str | None]:
        return {}

    @contextmanager
    def executor(self) -> Iterator[Submit]:
        children = [Child() for _ in range(self.room)]
        free = list(children)

        def run(function: Callable[[Any], Any], task: Any, limits: TaskLimits) -> TaskOutcome:
            child = free.pop()  # there are as many children as threads
            try:
                return run_in(child, function, task, limits)
            finally:
                free.append(child)

        with ThreadPoolExecutor(self.room, thread_name_prefix="worker") as threads:
            try:
                yield lambda function, task, limits: threads.submit(run, function, task, limits)
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                for child in children:
                    child.kill()
                for child in children:
                    child.close()


def run_tasks(
    function: Callable[[Task], Value],
    tasks: Sequence[Task],
    *,
    workers: Workers,
    limits: TaskLimits,
) -> Generator[TaskResult[Task, Value]]:
    """Apply `function` to each task on `workers`, and yield each result when it is ready.

    Tasks start in the given order. `function` must be importable by name. Closing the iterator, or
    an exception in the caller, ends all tasks.
    """
    waiting, running = deque(tasks), dict[Future[Any], Task]()
    if not tasks:
        return
    with workers.executor() as submit:
        while waiting or running:
            for _ in range(min(len(waiting), workers.room - len(running))):
                task = waiting.popleft()
                running[submit(function, task, limits)] = task
            done, _ = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                task = running.pop(future)
                if future.cancelled():
                    waiting.appendleft(task)
                elif problem := future.exception():
                    text = f"it could not be run ({type(problem).__name__}: {problem})"
                    yield TaskResult(task=task, error=ChildFailedError(text))
                else:
                    value, error = future.result()
                    yield TaskResult(task=task, value=value, error=error)


def run_in(
    child: Child, function: Callable[[Task], Value], task: Task, limits: TaskLimits
) -> TaskOutcome:
    """The outcome of a task in a child process."""
    try:
        return child.run(function, task, limits), None
    except VideoMMEError as error:
        return None, error
