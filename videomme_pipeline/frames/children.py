"""Child processes, each of which may crash, hang or run out of memory without affecting others.

A child reads one task at a time from its standard input and writes the result to its standard
output. A child that dies or takes too long is replaced. Only its own task fails, and the result
of that task has the reason. Children end when their parent ends, for any reason. This module
does not depend on the kind of the tasks.

`multiprocessing` is not used: its pools lose every task when one child dies, and its children
import the parent's main module first, which in a Dagster run is all of Dagster.
"""

import contextlib
import os
import pickle
import queue
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.processes import child_environment

Task = TypeVar("Task")
Value = TypeVar("Value")

_LENGTH_BYTES = 8


class ChildFailedError(VideoMMEError):
    """A task ended its child process: it crashed, hung, or ran out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult(Generic[Task, Value]):
    """The value of one task, or the error that ended it."""

    task: Task
    value: Value | None = None
    error: ChildFailedError | None = None


def run_in_children(
    function: Callable[[Task], Value],
    tasks: Sequence[Task],
    *,
    workers: int,
    time_limit_seconds: float,
    memory_limit_bytes: int | None = None,
) -> Generator[TaskResult[Task, Value]]:
    """Apply `function` to each task in child processes, and yield each result when it is ready.

    Tasks start in the given order. `function` must be importable by name. An exception in it
    ends only its task. Closing the iterator, or an exception in the caller, ends all children.
    """
    waiting = list(reversed(tasks))
    children: list[_Child] = []
    selector = selectors.DefaultSelector()
    try:
        while waiting or any(child.busy for child in children):
            while waiting and sum(child.busy for child in children) < workers:
                child = next((c for c in children if not c.busy), None)
                if child is None:
                    child = _Child(memory_limit_bytes)
                    children.append(child)
                    selector.register(child.output, selectors.EVENT_READ, child)
                child.start(function, waiting.pop(), time_limit_seconds)
            deadline = min(child.deadline for child in children if child.busy)
            ready = [key.data for key, _ in selector.select(max(0.0, deadline - time.monotonic()))]
            late = [c for c in children if c.busy and c not in ready and c.is_late]
            for child in [*ready, *late]:
                task = child.task
                value, error = child.finish() if child in ready else (None, child.time_out())
                if not child.alive:
                    selector.unregister(child.output)
                    children.remove(child)
                    child.end()
                yield TaskResult(task=task, value=value, error=error)
    finally:
        selector.close()
        for child in children:
            child.end()


@dataclass(slots=True, eq=False)
class _Child:
    """One child process and its current task."""

    memory_limit_bytes: int | None
    busy: bool = field(default=False, init=False)
    alive: bool = field(default=True, init=False)
    task: Any = field(default=None, init=False)
    deadline: float = field(default=0.0, init=False)
    _limit_seconds: float = field(default=0.0, init=False)
    _log: IO[bytes] = field(init=False)
    _process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        limit = [] if self.memory_limit_bytes is None else [str(self.memory_limit_bytes)]
        self._process = subprocess.Popen(
            [*command, *limit],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**child_environment(), "PYTHONPATH": os.pathsep.join(_import_path())},
        )

    @property
    def output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    def start(self, function: Callable[[Any], Any], task: Any, limit_seconds: float) -> None:
        self.busy, self.task, self._limit_seconds = True, task, limit_seconds
        self.deadline = time.monotonic() + limit_seconds
        with contextlib.suppress(BrokenPipeError):  # the child died; `finish` reports it
            assert self._process.stdin is not None
            _send(self._process.stdin, (function, task))

    def finish(self) -> tuple[Any, ChildFailedError | None]:
        """The value of the task, or the error that ended it."""
        self.busy = False
        try:
            is_value, value = _receive(self.output)
        except (EOFError, pickle.UnpicklingError):
            self.alive = False
            return None, ChildFailedError(self._cause_of_death())
        return (value, None) if is_value else (None, ChildFailedError(value))

    def time_out(self) -> ChildFailedError:
        self.busy = self.alive = False
        return ChildFailedError(
            f"not finished after {self._limit_seconds:g} s, so it was stopped; "
            "raise the time limit if the machine is slow"
        )

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _cause_of_death(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
        output = f"; its last output was {last[0]!r}" if last else ""
        if code == -signal.SIGKILL:
            return f"its process was killed, most likely because memory ran out{output}"
        if code < 0:
            return f"its process crashed ({signal.Signals(-code).name}){output}"
        return f"its process ended with exit code {code}{output}"


def main() -> None:
    """Run the child: read tasks from standard input, and write results to standard output."""
    tasks, results = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # output that decoders print must not mix with the results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent reacts to an interrupt
    _prefer_this_process_as_oom_victim()
    if len(sys.argv) > 1:
        limit = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    received: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(tasks, received), daemon=True).start()
    with os.fdopen(results, "wb") as sink:
        while True:
            _send(sink, _do(*received.get()))


def _do(function: Callable[[Any], Any], task: Any) -> tuple[bool, Any]:
    try:
        return True, function(task)
    except MemoryError:
        return False, "it ran out of memory"
    except Exception as error:  # noqa: BLE001 - any error concerns only this task
        return False, f"{type(error).__name__}: {error}"


def _listen(tasks: int, received: "queue.Queue[Any]") -> None:
    """Queue the received tasks, and end this process immediately when its parent has ended."""
    with os.fdopen(tasks, "rb") as source:
        try:
            while True:
                received.put(_receive(source))
        except EOFError:
            os._exit(0)


def _send(sink: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    sink.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    sink.flush()


def _receive(source: IO[bytes]) -> Any:
    head = source.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        raise EOFError
    data = source.read(int.from_bytes(head, "big"))
    return pickle.loads(data)


def _import_path() -> list[str]:
    """The import path of the parent, with this library first."""
    library = str(Path(__file__).resolve().parents[2])
    return [library, *(path for path in sys.path if path)]


def _prefer_this_process_as_oom_victim() -> None:
    """Ask Linux to kill this process rather than its parent when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
