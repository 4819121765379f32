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
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from videomme_pipeline.cluster import queue
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.tasks import Submit, TaskLimits, TaskOutcome, Workers
from videomme_pipeline.project.runs.settings import CLUSTER_FILE, ClusterSpec
from videomme_pipeline.storage.publish import writing

SILENT_WORKER_SECONDS = 30.0
"""The tasks of a worker that did not touch its file for so long are done by another one."""
AWAY_SECONDS = 60.0
"""A run ends after it could not use its folder for so long."""
PATIENCE_SECONDS = 10.0
"""The time to wait for another worker, if none so far can run tasks."""
SLOWEST_POLL_SECONDS = 0.25
_MESSAGE_SECONDS = 3.0


class QueueSpec(ClusterSpec):
    """Workers that find their tasks in a folder.

    A run without a worker for `max_wait_minutes` ends.
    """

    max_wait_minutes: int = Field(default=1440, ge=1)


class FolderSpec(QueueSpec):
    """Workers that somebody else starts, on any machine that has the folder."""

    kind: Literal["folder"] = "folder"

    def connect(
        self, folder: Path, on_message: Callable[[str], None]
    ) -> AbstractContextManager[Workers]:
        command = f"python -m videomme_pipeline.cluster.worker --watch {folder.parent}"
        message_once = cache(on_message)

        def check(_workers: int, _tasks: int, alone_seconds: float) -> str:
            if alone_seconds > _MESSAGE_SECONDS:
                message_once(f"cluster: no worker yet; start workers with `{command}`")
            return ""

        return queue_workers(self, folder, on_message, check)

    def check_jobs(self) -> str | None:
        return None


@contextmanager
def queue_workers(
    spec: QueueSpec,
    folder: Path,
    on_message: Callable[[str], None],
    check: Callable[[int, int, float], str],
    most_tasks: int = 1,
) -> Iterator["QueueWorkers"]:
    """The workers that find the empty folder `folder`. They end their work after the block."""
    queue.create_run(folder)
    workers = QueueWorkers(folder, spec.max_wait_minutes, on_message, check, most_tasks)
    collector = threading.Thread(target=workers.collect, name="cluster", daemon=True)
    collector.start()
    try:
        yield workers
    finally:
        workers.is_closing.set()
        collector.join()
        with suppress(OSError):
            (folder / queue.RUN).unlink()


@dataclass(eq=False)
class QueueWorkers:
    """The workers that find a folder, and a thread that collects their outcomes.

    `check` gets the number of workers, the number of open tasks, and for how many seconds tasks
    have been open without a worker. It returns the states of the workers' jobs in words, and raises
    ClusterError if no worker can be expected. `most_tasks` is the number of tasks at the same time
    to which the workers may grow.
    """

    folder: Path
    max_wait_minutes: float
    on_message: Callable[[str], None]
    check: Callable[[int, int, float], str]
    most_tasks: int
    is_closing: threading.Event = field(default_factory=threading.Event)
    _pulses: dict[str, queue.Heartbeat] = field(default_factory=dict)
    _alive: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """The contents of the files of workers that are alive: `tasks` and `problem`."""
    _problems: dict[str, float] = field(default_factory=dict)
    """The problems of workers so far, and when they were seen first."""
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
        self._require_workers()
        return 2 * max(1, sum(self._working()), self.most_tasks)

    @property
    def nodes(self) -> int:
        return len(self._working())

    @property
    def description(self) -> str:
        return f"{self.nodes} {'worker' if self.nodes == 1 else 'workers'}"

    def problems(self) -> Mapping[str, str | None]:
        """The problem of each worker that finds the run within some seconds."""
        self.is_closing.wait(2.5 * queue.BEAT_SECONDS)
        return {name: worker["problem"] for name, worker in self._alive.items()}

    @contextmanager
    def executor(self) -> Iterator[Submit]:
        own: set[str] = set()

        def submit(
            function: Callable[[Any], Any], task: Any, limits: TaskLimits
        ) -> Future[TaskOutcome]:
            number, future = f"{next(self._numbers):08}", Future[TaskOutcome]()
            own.add(number)
            self._tasks[number] = future
            with writing(file := self.folder / queue.TASKS / number):
                queue.put(file, pickle.dumps((limits, pickle.dumps((function, task)))))
            return future

        try:
            yield submit
        finally:
            self._withdraw(own)

    def collect(self) -> None:
        """Collect outcomes and look at the workers until the end of the run."""
        looked_at, delay = -math.inf, queue.FASTEST_POLL_SECONDS
        while not self.is_closing.wait(delay):
            delay = min(1.5 * delay, SLOWEST_POLL_SECONDS)
            try:
                if self._take_outcomes():
                    delay = queue.FASTEST_POLL_SECONDS
                if time.monotonic() - looked_at > queue.BEAT_SECONDS:
                    looked_at = time.monotonic()
                    self._look()
                self._away = None
            except (OSError, ValueError) as error:
                self._away = self._away or (time.monotonic(), error)

    def _withdraw(self, numbers: set[str]) -> None:
        """Remove tasks. Workers that run them end them within seconds."""
        with suppress(OSError):
            for number in numbers & self._tasks.keys():
                self._tasks.pop(number, None)
                (self.folder / queue.TASKS / number).unlink(missing_ok=True)
            for name in queue.names_in(self.folder / queue.CLAIMED):
                if name.partition("@")[0] in numbers:
                    (self.folder / queue.CLAIMED / name).unlink(missing_ok=True)

    def _take_outcomes(self) -> bool:
        """Give the outcomes to their futures. Ignore a second outcome of a task."""
        numbers = queue.names_in(self.folder / queue.OUTCOMES)
        for number in numbers:
            file = self.folder / queue.OUTCOMES / number
            content = file.read_bytes()
            file.unlink()
            if future := self._tasks.pop(number, None):
                try:
                    value, error = pickle.loads(content)
                    future.set_result((value and pickle.loads(value), error))
                except Exception as error:  # noqa: BLE001 - any error concerns only this task
                    future.set_exception(error)
        return bool(numbers)

    def _look(self) -> None:
        """Show that this run goes on, and look which workers do. Cancel tasks of the others."""
        os.utime(self.folder / queue.RUN)
        folder = self.folder / queue.WORKERS
        claims = [name.split("@") for name in queue.names_in(self.folder / queue.CLAIMED)]
        names = {*queue.names_in(folder), *(worker for _, worker in claims)}
        pulses = {name: self._pulses.get(name) or queue.Heartbeat(folder / name) for name in names}
        self._pulses = pulses
        alive = {
            name
            for name, pulse in pulses.items()
            if pulse.look().silent_seconds < SILENT_WORKER_SECONDS
        }
        contents = {name: pulses[name].content for name in alive}
        self._alive = {name: json.loads(text) for name, text in contents.items() if text}
        for worker in self._alive.values():
            if worker["problem"] and worker["problem"] not in self._problems:
                self._problems[worker["problem"]] = time.monotonic()
                self.on_message(f"cluster: {worker['problem']}")
        if lost := {number for number, name in claims if name not in alive}:
            self._take_outcomes()
            futures = [self._tasks.get(number) for number in lost]
            self._withdraw(lost)
            for future in filter(None, futures):
                future.cancel()
                future.set_running_or_notify_cancel()

    def _working(self) -> list[int]:
        """The number of tasks at the same time of each worker that can work."""
        return [worker["tasks"] for worker in self._alive.values() if not worker["problem"]]

    def _require_workers(self) -> None:
        """Raise an error if no worker will do the open tasks."""
        now, workers, tasks = time.monotonic(), self.nodes, len(self._tasks)
        if self._away and now - self._away[0] > AWAY_SECONDS:
            raise ClusterError(
                f"cluster: {self.folder} cannot be used for {AWAY_SECONDS:g} s ({self._away[1]}); "
                "run again: everything that is already stored is kept"
            )
        if workers or not tasks:
            self._alone_since = now
        alone_seconds = now - min(now, self._alone_since)
        for problem, seen in self._problems.items():
            if min(alone_seconds, now - seen) > PATIENCE_SECONDS:
                raise ClusterError(f"cluster: {problem}")
        states = self.check(workers, tasks, alone_seconds)
        if alone_seconds > 60 * self.max_wait_minutes:
            jobs = f" ({states})" if states else ""
            raise ClusterError(
                f"cluster: no worker for {alone_seconds / 60:.0f} minutes{jobs}; raise "
                f"`max_wait_minutes` in {CLUSTER_FILE}, or run again later"
            )
