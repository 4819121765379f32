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
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from videomme_pipeline.cluster.queue import (
    BEAT_SECONDS,
    CLAIMED,
    FASTEST_POLL_SECONDS,
    OUTCOMES,
    RUN,
    TASKS,
    WORKERS,
    Pulse,
    names_in,
    problem_with,
    put,
    run_pickled,
)
from videomme_pipeline.errors import ClusterError
from videomme_pipeline.processes.cores import usable_cores
from videomme_pipeline.processes.tasks import Slot, TaskLimits, TaskOutcome, end_slots
from videomme_pipeline.project.runs.settings import CLUSTER_FILE

SILENT_RUN_SECONDS = 60.0
"""A run that did not touch its file for so long was killed, or its machine was."""
SLOWEST_POLL_SECONDS = 1.0


@dataclass(eq=False)
class Run:
    """A run as one worker sees it. `tasks` is how many the worker runs at the same time."""

    folder: Path
    worker: str
    tasks: int
    problem: str | None = None
    claimed: frozenset[str] = frozenset()
    """The claims of all workers at the last look."""

    def __post_init__(self) -> None:
        self._pulse = Pulse(self.folder / RUN)
        with suppress(OSError):
            self.problem = problem_with(json.loads((self.folder / RUN).read_bytes()))

    @property
    def is_over(self) -> bool:
        return not self._pulse.is_there or self._pulse.silent_seconds > SILENT_RUN_SECONDS

    def look(self) -> None:
        """Look whether the run goes on, and show it that this worker does."""
        self._pulse.look()
        if self.is_over:
            if self.claimed:
                self.leave()
            return
        own = self.folder / WORKERS / self.worker
        with suppress(OSError):  # the next look tries again
            if own.exists():
                os.utime(own)
            else:
                put(own, json.dumps({"tasks": self.tasks, "problem": self.problem}).encode())
            self.claimed = frozenset(names_in(self.folder / CLAIMED))

    def claim(self) -> "Claim | None":
        """Claim the first task that no other worker claims at the same moment."""
        if self.is_over or self.problem:
            return None
        with suppress(OSError):  # the run has ended, or the file system is away
            for number in names_in(self.folder / TASKS):
                file = self.folder / CLAIMED / f"{number}@{self.worker}"
                try:
                    (self.folder / TASKS / number).rename(file)
                except FileNotFoundError:
                    # NFS may repeat a rename whose answer was lost, and report the second one.
                    if not file.exists():
                        continue
                self.claimed |= {file.name}
                limits, call = pickle.loads(file.read_bytes())
                return Claim(self, number, limits, call)
        return None

    def leave(self) -> None:
        """Put the claimed tasks back."""
        self.claimed = frozenset()
        with suppress(OSError):  # the run has ended
            for name in names_in(self.folder / CLAIMED):
                number, _, worker = name.partition("@")
                if worker == self.worker:
                    (self.folder / CLAIMED / name).rename(self.folder / TASKS / number)
            if self.problem is None:  # the run shows a problem
                (self.folder / WORKERS / self.worker).unlink()


@dataclass(frozen=True, eq=False)
class Claim:
    """A claimed task: its number, its limits, and the pickled function and argument."""

    run: Run
    number: str
    limits: TaskLimits
    call: bytes

    @property
    def name(self) -> str:
        return f"{self.number}@{self.run.worker}"

    def store(self, outcome: TaskOutcome) -> None:
        """Store the outcome, and give the claim up. Put the task back if that fails."""
        claim = self.run.folder / CLAIMED / self.name
        with suppress(OSError):  # the run has ended
            try:
                put(self.run.folder / OUTCOMES / self.number, pickle.dumps(outcome))
                claim.unlink(missing_ok=True)
            except OSError:
                claim.rename(self.run.folder / TASKS / self.number)
                raise


@dataclass(eq=False)
class Worker:
    """Runs up to `tasks` tasks at the same time."""

    tasks: int
    name: str = field(
        default_factory=lambda: f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
    )
    _runs: dict[Path, Run] = field(default_factory=dict)
    _running: dict[Future[TaskOutcome], tuple[Claim | None, Slot]] = field(default_factory=dict)
    """The running tasks. The claim is None if the task was withdrawn."""
    _looked_at: float = 0.0
    _worked_at: float = field(default_factory=time.monotonic)

    @property
    def problem(self) -> str | None:
        """Why this worker cannot work on a run, or None."""
        return next((run.problem for run in self._runs.values() if run.problem), None)

    def work(self, folder: Path, *, watches: bool, idle_seconds: float | None = None) -> None:
        """Work on the run in `folder` until it ends, or on all runs in folders below it."""
        delay = FASTEST_POLL_SECONDS
        free = [Slot() for _ in range(self.tasks)]
        with ThreadPoolExecutor(self.tasks) as threads:
            try:
                while self._look(folder, watches=watches):
                    claims = list(self._claim(len(free)))
                    for claim in claims:
                        slot = free.pop()
                        future = threads.submit(slot.run, run_pickled, claim.call, claim.limits)
                        self._running[future] = claim, slot
                    ended = self._wait(delay)
                    free += [self._end(future) for future in ended]
                    if claims or self._running:
                        self._worked_at = time.monotonic()
                    elif idle_seconds and time.monotonic() - self._worked_at > idle_seconds:
                        return
                    is_busy = claims or ended
                    delay = (
                        FASTEST_POLL_SECONDS if is_busy else min(2 * delay, SLOWEST_POLL_SECONDS)
                    )
            finally:
                end_slots([*free, *(slot for _, slot in self._running.values())])
                for run in self._runs.values():
                    run.leave()

    def _look(self, folder: Path, *, watches: bool) -> bool:
        """Look at all runs every few seconds, and end withdrawn tasks. False if all is done."""
        if time.monotonic() - self._looked_at < BEAT_SECONDS:
            return True
        self._looked_at = time.monotonic()
        for path in _folders_in(folder) if watches else [folder]:
            if path not in self._runs:
                self._runs[path] = run = Run(path, self.name, self.tasks)
                if run.problem:
                    print(run.problem, file=sys.stderr, flush=True)  # noqa: T201 - for its log
        for run in self._runs.values():
            run.look()
        self._runs = {path: run for path, run in self._runs.items() if path.exists()}
        for future, (claim, slot) in self._running.items():
            if claim and claim.name not in claim.run.claimed:
                self._running[future] = None, slot
                slot.end()
        return watches or any(not run.is_over and not run.problem for run in self._runs.values())

    def _claim(self, most: int) -> Iterable[Claim]:
        for run in list(self._runs.values()):
            while most and (claim := run.claim()):
                most -= 1
                yield claim

    def _wait(self, seconds: float) -> set[Future[TaskOutcome]]:
        """Wait until a task ends, but no longer than `seconds`."""
        if not self._running:
            time.sleep(seconds)
        return set(wait(self._running, seconds, FIRST_COMPLETED).done)

    def _end(self, future: Future[TaskOutcome]) -> Slot:
        """Store the outcome of a task, and return the slot for the next one."""
        claim, slot = self._running.pop(future)
        if claim is None:
            slot.close()
            return Slot()
        error = future.exception()
        claim.store(
            (None, ClusterError(f"worker {self.name}: {error}")) if error else future.result()
        )
        return slot


def _folders_in(folder: Path) -> list[Path]:
    """The folders of runs of this user. The pickled tasks of another user could do anything."""
    try:
        folders = [path for path in folder.iterdir() if (path / RUN).exists()]
        return [path for path in folders if path.stat().st_uid == os.geteuid()]
    except OSError:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m videomme_pipeline.cluster.worker")
    parser.add_argument("folder", type=Path, help="the folder of a run, or of all runs")
    parser.add_argument("--watch", action="store_true", help="work on all runs in the folder")
    parser.add_argument("--tasks", type=int, default=usable_cores(), help="tasks at the same time")
    parser.add_argument("--idle-seconds", type=float, help="end after so long without a task")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.absolute()
    if not arguments.watch and not (folder / RUN).exists():
        sys.exit(
            f"worker on {platform.node()}: no run has the folder {folder}; if it has not ended, "
            f"put the data folder, or `folder` in {CLUSTER_FILE}, where all workers can read it"
        )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    worker = Worker(arguments.tasks)
    worker.work(folder, watches=arguments.watch, idle_seconds=arguments.idle_seconds)
    sys.exit(1 if worker.problem else 0)


def _stop(number: int, _frame: object) -> None:
    """End this process after it has put its tasks back."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    main()
