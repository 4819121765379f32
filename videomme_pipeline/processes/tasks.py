"""Tasks of heavy work, submitted to a `concurrent.futures.Executor`.

Every task runs in a child process with a time limit and a memory limit (`children`), here and on
the workers of a cluster. So a decoder that crashes ends its own task and nothing else. Tasks return
rows and names of stored files, never frames.
"""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast
from uuid import uuid4

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.processes.children import Child, ChildFailedError
from videomme_pipeline.processes.cores import usable_cores

Task = TypeVar("Task")
Value = TypeVar("Value")

LOOK_SECONDS = 1.0
"""Seconds between looks at the workers while no task ends."""
MAX_LOSSES = 3
"""Number of times that a task is submitted again after the cluster lost the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    seconds: float
    memory_bytes: int | None = None


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
    def nodes(self) -> int:
        """The number of machines, or workers of a cluster, that now work on tasks."""

    @property
    def description(self) -> str:
        """The workers in words, for progress, or "" for those of this machine."""

    @property
    def dashboard(self) -> str | None:
        """The URL of a page that shows the workers, or None."""

    def problems(self) -> Mapping[str, str | None]:
        """The reason why a worker of a cluster runs no tasks, or None, by the worker's address."""

    def executor(self, run: str) -> AbstractContextManager[Executor]:
        """An executor of `run_limited` for one run. Tasks that still run are ended after the block.

        The executor cancels the future of a task that the cluster has lost.
        """


@dataclass(frozen=True)
class LocalWorkers:
    """Child processes of this process, by default one per usable core."""

    count: int = field(default_factory=usable_cores)
    nodes = 1
    description = ""
    dashboard = None

    @property
    def room(self) -> int:
        return self.count

    def problems(self) -> Mapping[str, str | None]:
        return {}

    @contextmanager
    def executor(self, run: str) -> Iterator[Executor]:
        with ThreadPoolExecutor(self.count, thread_name_prefix="worker") as threads:
            try:
                yield threads
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                end_children(run)


def run_tasks(
    function: Callable[[Task], Value],
    tasks: Sequence[Task],
    *,
    workers: Workers,
    limits: TaskLimits,
) -> Generator[TaskResult[Task, Value]]:
    """Apply `function` to each task on `workers`, and yield each result when it is ready.

    Tasks start in the given order. `function` must be importable by name. An exception in it
    ends only its task. Closing the iterator, or an exception in the caller, ends all tasks.
    """
    run = uuid4().hex
    waiting, running = deque(enumerate(tasks)), dict[Future[Any], tuple[int, Task]]()
    losses: Counter[int] = Counter()
    if not tasks:
        return
    with workers.executor(run) as executor:
        while waiting or running:
            for _ in range(min(len(waiting), workers.room - len(running))):
                number, task = waiting.popleft()
                future = executor.submit(run_limited, run, function, task, limits)
                running[future] = number, task
            done, _ = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                number, task = running.pop(future)
                losses[number] += future.cancelled()
                if future.cancelled() and losses[number] <= MAX_LOSSES:
                    waiting.appendleft((number, task))
                else:
                    yield _result(task, future)


def _result(task: Task, future: Future[Any]) -> TaskResult[Task, Any]:
    if future.cancelled():
        problem = f"its cluster lost it {MAX_LOSSES + 1} times; check the scheduler, then run again"
        return TaskResult(task=task, error=ChildFailedError(problem))
    if error := future.exception():
        problem = f"it could not be run ({type(error).__name__}: {error})"
        return TaskResult(task=task, error=ChildFailedError(problem))
    value, error = future.result()
    return TaskResult(task=task, value=value, error=error)


# What an executor runs, here or on another machine.

TaskOutcome = tuple[Any, VideoMMEError | None]
"""The value of a task, and the error that ended it."""


_thread = threading.local()
_children: dict[str, list[Child]] = defaultdict(list)
_ended_runs: deque[str] = deque(maxlen=1_000)
"""Tasks of these runs may still arrive. A worker of a cluster can serve many thousands of runs."""


def run_limited(
    run: str, function: Callable[[Task], Value], task: Task, limits: TaskLimits
) -> TaskOutcome:
    """Run a task of `run` in the child process of this thread."""
    child = _own_child(run, limits.memory_bytes)
    if run in _ended_runs:
        _children.pop(run, None)
        return None, ChildFailedError("its run has ended")
    try:
        return child.run(function, task, time_limit_seconds=limits.seconds), None
    except VideoMMEError as error:
        return None, error


def end_children(run: str) -> None:
    """End the child processes of `run` in this process. The tasks of these children fail."""
    _ended_runs.append(run)
    children = _children.pop(run, [])
    for child in children:
        child.kill()
    for child in children:
        child.close()


def _own_child(run: str, memory_bytes: int | None) -> Child:
    """The child of this thread, for the tasks of one run."""
    if getattr(_thread, "run", None) != (run, memory_bytes):
        if hasattr(_thread, "child"):
            _thread.child.close()
        _thread.run, _thread.child = (run, memory_bytes), Child(memory_bytes)
        _children[run].append(_thread.child)
    child: Child = _thread.child
    return child
