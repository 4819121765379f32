"""Lifelines: child processes end when their parent ends, for any reason.

A lifeline is a pipe without data, whose reading end the child has.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

with suppress(ImportError):  # only Unix has them, and reading results does not need them
    import fcntl
    import resource


def end_with_parent(lifeline: int, *, with_group: bool = False) -> None:
    """Let the kernel end this process when its parent has ended, or its whole process group.

    The kernel sends SIGIO when the parent's end of the pipe closes. A thread that waits for the
    parent would need the GIL, which native code may never release.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    owner = -os.getpgrp() if with_group else os.getpid()
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, owner)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        os.read(lifeline, 1)  # returns only if the parent has already ended
        os._exit(0)


def log_path(folder: Path, name: str, number: int) -> Path:
    """The path of the log of process `number` of a model."""
    stem = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    return folder / f"{stem}.{number}.log"


class ProcessGroup:
    """A program and all processes that it starts, which end with this process.

    The program runs in `folder`. Its output goes to `log`. If it `has_pipes`, only its errors do,
    and `input` and `output` are its pipes. Each process may have `max_memory_bytes` of data.
    """

    def __init__(  # noqa: PLR0913 - the options of a process
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: IO[bytes],
        *,
        folder: Path | None = None,
        has_pipes: bool = False,
        max_memory_bytes: int | None = None,
    ) -> None:
        self._lifeline: int | None
        lifeline, self._lifeline = os.pipe()
        options = [str(lifeline), str(max_memory_bytes or 0)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).resolve()), *options, *command],
            stdin=subprocess.PIPE if has_pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if has_pipes else log,
            stderr=log,
            pass_fds=[lifeline],
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        os.close(lifeline)
        self.input, self.output = self._process.stdin, self._process.stdout

    @property
    def exit_status(self) -> int | None:
        """The exit status of the program, or None while it runs."""
        return self._process.poll()

    def wait(self, max_seconds: float | None = None) -> int | None:
        """The exit status of the program, or None if it still runs after `max_seconds`."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(max_seconds)
        return None

    def kill(self) -> None:
        """Kill all processes of the group, without waiting for their end."""
        self._signal(signal.SIGKILL)

    def stop(self, grace_seconds: float) -> None:
        """End all processes of the group: ask them with SIGTERM, and kill them after a while."""
        self._signal(signal.SIGTERM)
        self.wait(grace_seconds)
        self.kill()
        self._process.wait()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)  # the program is the leader of its group


def main() -> None:
    """Become the program of a `ProcessGroup`. Arguments: LIFELINE MAX_MEMORY_BYTES COMMAND …"""
    lifeline, max_memory_bytes, *command = sys.argv[1:]
    end_with_parent(int(lifeline), with_group=True)
    if limit := int(max_memory_bytes):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
