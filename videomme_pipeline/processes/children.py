"""Child processes, each of which may crash, hang or run out of memory without affecting others.

`multiprocessing` is not used for the processes: its pools lose every task when one child dies,
and its children import the parent's main module first, which in a Dagster run is all of Dagster.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, TypeVar

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.processes.lifeline import end_with_parent
from videomme_pipeline.processes.secrets import child_environment

with suppress(ImportError):  # only Unix has it, and reading results does not need it
    import resource

Task = TypeVar("Task")
Value = TypeVar("Value")

_LOG_TAIL_BYTES = 4096


class ChildFailedError(VideoMMEError):
    """A task crashed its child process, hung, ran out of memory or raised an unexpected error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    seconds: float
    memory_bytes: int | None = None


@dataclass(slots=True, eq=False)
class Child:
    """A child process that runs one task at a time. It ends when its parent ends, for any reason.

    It is started for the first task, and again if it has ended or the memory limit changes.
    """

    _process: "_Process | None" = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run(self, function: Callable[[Task], Value], task: Task, limits: TaskLimits) -> Value:
        """The value of `function(task)`. Threads that share the child wait for each other.

        Raises ChildFailedError if the task ended its process or raised an unexpected error, and
        each VideoMMEError that the task raises.
        """
        with self._turn:
            if self._process is not None and not self._process.can_run(limits):
                self._process.close()
                self._process = None
            if self._process is None:
                self._process = _Process(limits.memory_bytes)
            if self._is_closed:  # `kill` was called before the process existed
                self._process.kill()
            value: Value = self._process.run(function, task, limits.seconds)
            return value

    def kill(self) -> None:
        """End the process, from any thread. A task that is running fails, and so do later ones."""
        self._is_closed = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """Kill the process, wait until its task has failed, and release its resources."""
        self.kill()
        with self._turn:
            if self._process is not None:
                self._process.close()
                self._process = None


class _Process:
    def __init__(self, memory_limit_bytes: int | None) -> None:
        library = str(Path(__file__).resolve().parents[2])
        import_path = [library, *filter(None, sys.path)]
        self._memory_limit_bytes = memory_limit_bytes
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        lifeline, self._lifeline = os.pipe()
        self._connection, connection = Pipe()
        descriptors = [lifeline, connection.fileno()]
        limit = [] if memory_limit_bytes is None else [memory_limit_bytes]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", f"from {__name__} import main; main()"),
                *map(str, descriptors + limit),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=descriptors,
            env={**child_environment(), "PYTHONPATH": os.pathsep.join(import_path)},
        )
        os.close(lifeline)
        connection.close()

    def can_run(self, limits: TaskLimits) -> bool:
        return self._process.poll() is None and limits.memory_bytes == self._memory_limit_bytes

    def run(self, function: Callable[[Any], Any], task: Any, limit_seconds: float) -> Any:
        with suppress(ConnectionError):  # the child died; reading its result shows it
            self._connection.send((function, task))
        try:
            if not self._connection.poll(limit_seconds):
                self.end()
                raise ChildFailedError(
                    f"not finished after {limit_seconds:g} s, so it was stopped; "
                    "raise the time limit if the machine is slow"
                )
            is_value, value = self._connection.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            raise ChildFailedError(exit_report(self._process.wait(), self._log)) from None
        except (KeyboardInterrupt, SystemExit):
            self.end()  # its result must not be taken for that of the next task
            raise
        if is_value:
            return value
        raise value if isinstance(value, VideoMMEError) else ChildFailedError(value)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self.kill()
        self._process.wait()

    def close(self) -> None:
        self.end()
        os.close(self._lifeline)
        self._connection.close()
        self._log.close()


def exit_report(status: int, log: IO[bytes]) -> str:
    """Exit status and last output line of a process that has ended, in words."""
    log.seek(max(log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES, 0))
    last = log.read().decode(errors="replace").strip().splitlines()[-1:]
    output = f"; its last output was {last[0]!r}" if last else ""
    if status == -signal.SIGKILL:
        return f"its process was killed, most likely because memory ran out{output}"
    if status < 0:
        return f"its process crashed ({signal.Signals(-status).name}){output}"
    return f"its process ended with exit code {status}{output}"


def main() -> None:
    """Run the child. Arguments: LIFELINE CONNECTION [MEMORY_LIMIT_BYTES]"""
    end_with_parent(int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM):  # only the parent reacts: it ends its children
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):  # Linux kills this process rather than its parent if memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if len(sys.argv) > 3:
        limit = int(sys.argv[3])
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with Connection(int(sys.argv[2])) as parent, suppress(EOFError):
        while True:
            function, task = parent.recv()
            parent.send(_do(function, task))


def _do(function: Callable[[Any], Any], task: Any) -> tuple[bool, Any]:
    try:
        return True, function(task)
    except VideoMMEError as error:
        return False, error
    except MemoryError:
        return False, "it ran out of memory"
    except Exception as error:  # noqa: BLE001 - any error concerns only this task
        return False, f"{type(error).__name__}: {error}"
