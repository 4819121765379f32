"""Work in child processes of which each may crash, hang or run out of memory alone.

One task at a time per child, over its standard input and output. A child that dies or takes too
long loses its own task, is named with what happened, and is replaced. Children end when their
parent does, however it ends. What a task does is not known here.

Why not `multiprocessing`: its pools lose every task when one child dies, and its fresh children
import the parent's main module first, which under Dagster is all of Dagster.
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

Given = TypeVar("Given")
Value = TypeVar("Value")

_LENGTH_BYTES = 8


class ChildFailedError(VideoMMEError):
    """A task ended its child process: it crashed, hung, or ran out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Given, Value]):
    """What became of one task: a value, or the error that took it."""

    given: Given
    value: Value | None = None
    error: ChildFailedError | None = None


def run_in_children(
    function: Callable[[Given], Value],
    tasks: Sequence[Given],
    *,
    workers: int,
    time_limit_seconds: float,
    memory_limit_bytes: int | None = None,
) -> Generator[Outcome[Given, Value]]:
    """`function` of each task in child processes, begun in the given order.

    Outcomes come as they finish. `function` must be importable by name; what it raises ends
    only its task. Closing the iterator, or an exception at the caller, ends all children.
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
                child.begin(function, waiting.pop(), time_limit_seconds)
            deadline = min(child.deadline for child in children if child.busy)
            ready = [key.data for key, _ in selector.select(max(0.0, deadline - time.monotonic()))]
            late = [c for c in children if c.busy and c not in ready and c.is_late]
            for child in [*ready, *late]:
                task = child.task
                value, error = child.finish() if child in ready else (None, child.too_late())
                if not child.alive:
                    selector.unregister(child.output)
                    children.remove(child)
                    child.end()
                yield Outcome(given=task, value=value, error=error)
    finally:
        selector.close()
        for child in children:
            child.end()


@dataclass(slots=True, eq=False)
class _Child:
    """One child process and the task it has."""

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
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
        )

    @property
    def output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    def begin(self, function: Callable[[Any], Any], task: Any, limit_seconds: float) -> None:
        self.busy, self.task, self._limit_seconds = True, task, limit_seconds
        self.deadline = time.monotonic() + limit_seconds
        with contextlib.suppress(BrokenPipeError):  # it died; `finish` says so
            assert self._process.stdin is not None
            _send(self._process.stdin, (function, task))

    def finish(self) -> tuple[Any, ChildFailedError | None]:
        """The value of the task, or why there is none."""
        self.busy = False
        try:
            said, value = _receive(self.output)
        except (EOFError, pickle.UnpicklingError):
            self.alive = False
            return None, ChildFailedError(self._how_it_died())
        return (value, None) if said else (None, ChildFailedError(value))

    def too_late(self) -> ChildFailedError:
        self.busy = self.alive = False
        return ChildFailedError(
            f"not done after {self._limit_seconds:g} s, so it was ended; "
            "raise the time limit if the machine is slow"
        )

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _how_it_died(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
        said = f"; it last said {last[0]!r}" if last else ""
        if code == -signal.SIGKILL:
            return f"its process was killed, most likely for want of memory{said}"
        if code < 0:
            return f"its process crashed ({signal.Signals(-code).name}){said}"
        return f"its process ended with exit code {code}{said}"


def main() -> None:
    """The child: tasks from standard input, one outcome each to standard output, until the end."""
    tasks, outcomes = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what a decoder prints must not end up among the outcomes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    _die_first_when_memory_is_short()
    if len(sys.argv) > 1:
        limit = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    received: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(tasks, received), daemon=True).start()
    with os.fdopen(outcomes, "wb") as sink:
        while True:
            _send(sink, _do(*received.get()))


def _do(function: Callable[[Any], Any], task: Any) -> tuple[bool, Any]:
    try:
        return True, function(task)
    except MemoryError:
        return False, "it ran out of memory"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this task's alone
        return False, f"{type(error).__name__}: {error}"


def _listen(tasks: int, received: "queue.Queue[Any]") -> None:
    """Pass tasks on; when the parent is gone, so is this process, whatever it is doing."""
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
    """Where the parent imports from, this library first."""
    library = str(Path(__file__).resolve().parents[2])
    return [library, *(path for path in sys.path if path)]


def _die_first_when_memory_is_short() -> None:
    """Ask Linux to end this process rather than its parent when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
