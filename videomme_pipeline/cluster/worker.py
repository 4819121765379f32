"""A worker: a process that runs the tasks in the folder of a run, in child processes with limits.

    python -m videomme_pipeline.cluster.worker FOLDER [--watch] [--tasks 8] [--idle-seconds 600]

FOLDER is the folder of one run, and the worker ends with the run. With `--watch`, FOLDER contains
the folders of all runs of this user, and the worker waits for the next one.
"""

import argparse
import json
import os
import pickle
import platform
import secrets
import signal
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from videomme_pipeline.cluster import queue
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.cores import usable_cores
from videomme_pipeline.processes.tasks import Slot, TaskLimits, TaskOutcome, end_slots
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

SILENT_RUN_SECONDS = 60.0
"""A run that did not touch its file for so long was killed, or its machine was."""
SLOWEST_POLL_SECONDS = 1.0
_LEAVE_SECONDS = 10.0
"""A worker without a task looks for another run after this time."""


@dataclass(eq=False)
class Worker:
    """Runs up to `tasks` tasks of one run at the same time."""

    folder: Path
    tasks: int
    name: str = f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
    problem: str | None = None
    """Why this worker cannot work on the run."""
    _claims: frozenset[str] = frozenset()
    """The names of all claims in the folder at the last look, and of those since then."""
    _running: dict[Future[TaskOutcome], tuple[str | None, Slot]] = field(default_factory=dict)
    """The running tasks with their numbers, or None if the task was withdrawn."""

    def __post_init__(self) -> None:
        self._run = queue.Heartbeat(self.folder / queue.RUN).look()
        if self._run.content:
            self.problem = queue.problem_with(json.loads(self._run.content))
        else:
            self.problem = (
                f"worker on {platform.node()}: no run has the folder {self.folder}; if it has not "
                f"ended, put the data folder, or `folder` in {CLUSTER_FILE}, where all workers can "
                "read it"
            )

    def work(self, idle_seconds: float | None = None) -> bool:
        """Work until the end of the run, or until there was no task for `idle_seconds`.

        True if the run can have more tasks.
        """
        looked_at, worked_at, delay = 0.0, time.monotonic(), queue.FASTEST_POLL_SECONDS
        free = [Slot() for _ in range(self.tasks)]
        with ThreadPoolExecutor(self.tasks) as threads:
            try:
                while True:
                    if time.monotonic() - looked_at > queue.BEAT_SECONDS:
                        looked_at = time.monotonic()
                        if not self.look():
                            return False
                    is_busy = False
                    while free and (claimed := self.claim()):
                        number, limits, call = claimed
                        slot, is_busy = free.pop(), True
                        future = threads.submit(slot.run, queue.run_pickled, call, limits)
                        self._running[future] = number, slot
                    if not self._running:
                        time.sleep(delay)
                    for future in wait(self._running, delay, FIRST_COMPLETED).done:
                        free.append(self._end(future))
                        is_busy = True
                    if is_busy or self._running:
                        worked_at = time.monotonic()
                    elif idle_seconds and time.monotonic() - worked_at > idle_seconds:
                        return True
                    slower = min(2 * delay, SLOWEST_POLL_SECONDS)
                    delay = queue.FASTEST_POLL_SECONDS if is_busy else slower
            finally:
                end_slots([*free, *(slot for _, slot in self._running.values())])
                self._leave()

    def look(self) -> bool:
        """Show the run that this worker works, or its problem, and end tasks that were withdrawn.

        False if the worker can do nothing for the run.
        """
        if not self._run.look().content or self._run.silent_seconds > SILENT_RUN_SECONDS:
            return False
        own = self.folder / queue.WORKERS / self.name
        with suppress(OSError):  # the next look tries again
            if own.exists():
                os.utime(own)
            else:
                content = {"tasks": self.tasks, "problem": self.problem}
                queue.put(own, json.dumps(content).encode())
            self._claims = frozenset(queue.names_in(self.folder / queue.CLAIMED))
        for future, (number, slot) in self._running.items():
            if number and self._claim_of(number).name not in self._claims:
                self._running[future] = None, slot
                slot.end()
        return self.problem is None

    def claim(self) -> tuple[str, TaskLimits, bytes] | None:
        """Claim the first task that no other worker claims at the same moment, if there is one."""
        with suppress(OSError):  # the run has ended, or the file system is away
            for number in queue.names_in(self.folder / queue.TASKS):
                claim = self._claim_of(number)
                try:
                    (self.folder / queue.TASKS / number).rename(claim)
                except FileNotFoundError:
                    # NFS may repeat a rename whose answer was lost, and report the second one.
                    if not claim.exists():
                        continue
                self._claims |= {claim.name}
                limits, call = pickle.loads(claim.read_bytes())
                return number, limits, call
        return None

    def store(self, number: str, outcome: TaskOutcome) -> None:
        """Store the outcome of a claimed task. Put the task back if that fails."""
        with suppress(OSError):  # the run has ended
            try:
                queue.put(self.folder / queue.OUTCOMES / number, pickle.dumps(outcome))
                self._claim_of(number).unlink(missing_ok=True)
            except OSError:
                self._claim_of(number).rename(self.folder / queue.TASKS / number)

    def _end(self, future: Future[TaskOutcome]) -> Slot:
        """Store the outcome of a task, and return a slot for the next one."""
        number, slot = self._running.pop(future)
        if number is None:
            slot.close()
            return Slot()
        error = future.exception()
        failure = None, ClusterError(f"worker {self.name}: {error}")
        self.store(number, failure if error else future.result())
        return slot

    def _claim_of(self, number: str) -> Path:
        return self.folder / queue.CLAIMED / f"{number}@{self.name}"

    def _leave(self) -> None:
        """Put the claimed tasks back. The run still shows why this worker cannot work."""
        with suppress(OSError):  # the run has ended
            for name in queue.names_in(self.folder / queue.CLAIMED):
                number, _, worker = name.partition("@")
                if worker == self.name:
                    (self.folder / queue.CLAIMED / name).rename(self.folder / queue.TASKS / number)
            if self.problem is None:
                (self.folder / queue.WORKERS / self.name).unlink()


def watch(folder: Path, tasks: int) -> None:
    """Work on all runs of this user in `folder`, one after the other, until this process ends."""
    left: dict[Path, float] = {}
    while True:
        for run in _runs_in(folder):
            touched = _touched(run)
            # A run that was killed, or of another version, is left until somebody touches it.
            if touched and left.get(run) != touched:
                worker = Worker(run, tasks)
                if worker.problem and run not in left:
                    print(worker.problem, file=sys.stderr, flush=True)  # noqa: T201 - for its log
                if not worker.work(_LEAVE_SECONDS):
                    left[run] = _touched(run)
        time.sleep(SLOWEST_POLL_SECONDS)


def _runs_in(folder: Path) -> list[Path]:
    """The folders of runs of this user. The pickled tasks of another user could do anything."""
    with suppress(OSError):
        return [path for path in folder.iterdir() if path.stat().st_uid == os.geteuid()]
    return []


def _touched(run: Path) -> float:
    """When the run touched its file, or 0 if this is no run or has ended."""
    with suppress(OSError):
        return (run / queue.RUN).stat().st_mtime
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m videomme_pipeline.cluster.worker")
    parser.add_argument("folder", type=Path, help="the folder of a run, or of all runs")
    parser.add_argument("--watch", action="store_true", help="work on all runs in the folder")
    parser.add_argument("--tasks", type=int, default=usable_cores(), help="tasks at the same time")
    parser.add_argument("--idle-seconds", type=float, help="end after so long without a task")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.absolute()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    if arguments.watch:
        watch(folder, arguments.tasks)
    worker = Worker(folder, arguments.tasks)
    worker.work(arguments.idle_seconds)
    sys.exit(worker.problem)  # None is exit status 0


def _stop(number: int, _frame: object) -> None:
    """End this process after it has put its tasks back."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    main()
