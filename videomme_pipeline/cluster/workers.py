"""Workers that find their tasks in a folder, as the run sees them."""

import json
import math
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

from videomme_pipeline.cluster.queue import (
    BEAT_SECONDS,
    CLAIMED,
    FASTEST_POLL_SECONDS,
    OUTCOMES,
    RUN,
    TASKS,
    WORKERS,
    Pulse,
    create_run,
    names_in,
    put,
)
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.tasks import TaskExecutor, TaskLimits, TaskOutcome, Workers
from videomme_pipeline.project.runs.settings import CLUSTER_FILE, ClusterSpec
from videomme_pipeline.storage.publish import writing

SILENT_WORKER_SECONDS = 30.0
"""The tasks of a worker that did not touch its file for so long are done by another one."""
AWAY_SECONDS = 60.0
"""A run ends after it could not use its folder for so long."""
PATIENCE_SECONDS = 10.0
"""The time to wait for another worker, if all so far cannot run tasks."""
SLOWEST_POLL_SECONDS = 0.25
_MESSAGE_SECONDS = 3.0


class QueueSpec(ClusterSpec):
    """Workers that find their tasks in a folder.

    A run without a worker for `max_wait_minutes` ends.
    """

    max_wait_minutes: int = Field(default=1440, ge=1)


class Jobs(Protocol):
    """The jobs of the workers of a run."""

    def check(self, workers: int, tasks: int, alone_seconds: float) -> str:
        """The states of the jobs in words. Starts jobs if `workers` are too few for open `tasks`.

        `alone_seconds` is for how long tasks have been open without a worker.

        Raises:
            ClusterError: if there is no worker and none can be expected.
        """


class FolderSpec(QueueSpec):
    """Workers that somebody else starts, on any machine that has the folder."""

    kind: Literal["folder"] = "folder"

    def connect(
        self, folder: Path, on_message: Callable[[str], None]
    ) -> AbstractContextManager[Workers]:
        return queue_workers(self, folder, on_message, _NoJobs(folder.parent, on_message))

    def check_jobs(self) -> str | None:
        return None


@dataclass
class _NoJobs:
    folder: Path
    on_message: Callable[[str], None]
    _has_said: bool = False

    def check(self, workers: int, tasks: int, alone_seconds: float) -> str:  # noqa: ARG002
        if alone_seconds > _MESSAGE_SECONDS and not self._has_said:
            self._has_said = True
            self.on_message(
                "cluster: no worker yet; waiting for the first one. Start workers with "
                f"`python -m videomme_pipeline.cluster.worker --watch {self.folder}`"
            )
        return ""


@contextmanager
def queue_workers(
    spec: QueueSpec,
    folder: Path,
    on_message: Callable[[str], None],
    jobs: Jobs,
    most_tasks: int = 1,
) -> Iterator["QueueWorkers"]:
    """The workers that find the empty folder `folder`. They end their work after the block.

    `most_tasks` is the number of tasks at the same time to which the workers may grow.
    """
    create_run(folder)
    workers = QueueWorkers(folder, spec.max_wait_minutes, on_message, jobs, most_tasks)
    collector = threading.Thread(target=workers.collect, name="cluster", daemon=True)
    collector.start()
    try:
        yield workers
    finally:
        workers.is_closing.set()
        workers.has_tasks.set()
        collector.join()
        with suppress(OSError):
            (folder / RUN).unlink()


class _Worker:
    """A worker: the pulse of its file, its number of tasks, and why it runs none."""

    def __init__(self, file: Path) -> None:
        self._file, self._pulse, self._content = file, Pulse(file), dict[str, Any]()
        self._read()

    def look(self) -> None:
        self._pulse.look()
        self._read()

    def _read(self) -> None:
        if not self._content:
            with suppress(FileNotFoundError):  # its claim was seen first, or it has left
                self._content = json.loads(self._file.read_bytes())

    @property
    def tasks(self) -> int:
        return int(self._content.get("tasks", 1))

    @property
    def problem(self) -> str | None:
        return self._content.get("problem")

    @property
    def is_alive(self) -> bool:
        return self._pulse.silent_seconds < SILENT_WORKER_SECONDS

    @property
    def works(self) -> bool:
        return self.is_alive and self._pulse.is_there and self.problem is None


@dataclass(eq=False)
class QueueWorkers:
    """The workers that find a folder, and a thread that collects their outcomes."""

    folder: Path
    max_wait_minutes: int
    on_message: Callable[[str], None]
    jobs: Jobs
    most_tasks: int
    is_closing: threading.Event = field(default_factory=threading.Event)
    has_tasks: threading.Event = field(default_factory=threading.Event)
    _workers: Mapping[str, _Worker] = field(default_factory=dict)
    _problems: dict[str, tuple[float, str]] = field(default_factory=dict)
    """When each problem of a worker was seen first."""
    _tasks: dict[str, Future[TaskOutcome]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _alone_since: float = math.inf
    _away: tuple[float, Exception] | None = None
    """Since when the folder cannot be used, and the reason."""

    @property
    def room(self) -> int:
        """Twice the number of tasks at the same time, so that each worker has its next task.

        Raises:
            ClusterError: if the folder is away for too long, or no worker can work.
        """
        self._check()
        return 2 * max(1, sum(worker.tasks for worker in self._working()), self.most_tasks)

    @property
    def nodes(self) -> int:
        return len(self._working())

    @property
    def description(self) -> str:
        return f"{self.nodes} {'worker' if self.nodes == 1 else 'workers'}"

    def problems(self) -> Mapping[str, str | None]:
        """The problem of each worker that has looked into the folder for some seconds."""
        self.is_closing.wait(2.5 * BEAT_SECONDS)
        return {name: worker.problem for name, worker in self._workers.items() if worker.is_alive}

    @contextmanager
    def executor(self) -> Iterator[TaskExecutor]:
        executor = _Executor(self)
        try:
            yield executor
        finally:
            self.withdraw(executor.tasks)

    def submit(self, call: bytes, limits: TaskLimits) -> tuple[str, Future[TaskOutcome]]:
        """Write a task, and return its number and its future."""
        number, future = f"{next(self._numbers):08}", Future[TaskOutcome]()
        self._tasks[number] = future
        with writing(file := self.folder / TASKS / number):
            put(file, pickle.dumps((limits, call)))
        self.has_tasks.set()
        return number, future

    def withdraw(self, numbers: set[str]) -> None:
        """Remove tasks. Workers that run them end them within seconds."""
        with suppress(OSError):
            for number in numbers & self._tasks.keys():
                self._tasks.pop(number, None)
                (self.folder / TASKS / number).unlink(missing_ok=True)
            for name in names_in(self.folder / CLAIMED):
                if name.partition("@")[0] in numbers:
                    (self.folder / CLAIMED / name).unlink(missing_ok=True)

    def collect(self) -> None:
        """Collect outcomes and look at the workers until the end of the run."""
        looked_at, delay = -math.inf, FASTEST_POLL_SECONDS
        while not self.is_closing.is_set():
            is_busy = self.has_tasks.is_set()
            self.has_tasks.clear()
            try:
                is_busy |= self._take_outcomes()
                if time.monotonic() - looked_at > BEAT_SECONDS:
                    looked_at = time.monotonic()
                    self._look()
                self._away = None
            except (OSError, ValueError) as error:
                self._away = self._away or (time.monotonic(), error)
            delay = FASTEST_POLL_SECONDS if is_busy else min(1.5 * delay, SLOWEST_POLL_SECONDS)
            self.has_tasks.wait(delay)

    def _take_outcomes(self) -> bool:
        """Give the outcomes to their futures. Ignore a second outcome of a task."""
        numbers = names_in(self.folder / OUTCOMES)
        for number in numbers:
            file = self.folder / OUTCOMES / number
            content = file.read_bytes()
            file.unlink()
            if future := self._tasks.pop(number, None):
                _resolve(future, content)
        return bool(numbers)

    def _look(self) -> None:
        """Show that this run goes on, and look which workers do. Cancel tasks of the others."""
        os.utime(self.folder / RUN)
        claims = [name.split("@") for name in names_in(self.folder / CLAIMED)]
        names = {*names_in(self.folder / WORKERS), *(worker for _, worker in claims)}
        for name in names & self._workers.keys():
            self._workers[name].look()
        self._workers = {
            name: self._workers.get(name) or _Worker(self.folder / WORKERS / name) for name in names
        }
        for name, worker in self._workers.items():
            if worker.problem and name not in self._problems:
                self._problems[name] = time.monotonic(), worker.problem
                self.on_message(f"cluster: {worker.problem}")
        if lost := {number for number, name in claims if not self._workers[name].is_alive}:
            self._take_outcomes()
            futures = [self._tasks.get(number) for number in lost]
            self.withdraw(lost)
            for future in filter(None, futures):
                future.cancel()
                future.set_running_or_notify_cancel()

    def _working(self) -> list[_Worker]:
        return [worker for worker in self._workers.values() if worker.works]

    def _check(self) -> None:
        now, workers, tasks = time.monotonic(), self.nodes, len(self._tasks)
        if self._away and now - self._away[0] > AWAY_SECONDS:
            raise ClusterError(
                f"cluster: {self.folder} cannot be used for {AWAY_SECONDS:g} s "
                f"({self._away[1]}); run again: everything that is already stored is kept"
            )
        if workers or not tasks:
            self._alone_since = now
        alone_seconds = now - min(now, self._alone_since)
        for seen, problem in self._problems.values():
            if min(alone_seconds, now - seen) > PATIENCE_SECONDS:
                raise ClusterError(f"cluster: {problem}")
        jobs = self.jobs.check(workers, tasks, alone_seconds)
        if alone_seconds > 60 * self.max_wait_minutes:
            raise ClusterError(
                f"cluster: no worker for {alone_seconds / 60:.0f} minutes{jobs}; raise "
                f"`max_wait_minutes` in {CLUSTER_FILE}, or run again later"
            )


def _resolve(future: Future[TaskOutcome], content: bytes) -> None:
    try:
        value, error = pickle.loads(content)
        future.set_result((value if error else pickle.loads(value), error))
    except Exception as error:  # noqa: BLE001 - any error concerns only this task
        future.set_exception(error)


@dataclass(eq=False)
class _Executor:
    """Submits tasks, and knows their numbers."""

    workers: QueueWorkers
    tasks: set[str] = field(default_factory=set)

    def submit(
        self, function: Callable[[Any], Any], task: Any, limits: TaskLimits
    ) -> Future[TaskOutcome]:
        number, future = self.workers.submit(pickle.dumps((function, task)), limits)
        self.tasks.add(number)
        return future
