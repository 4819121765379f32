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

with suppress(ImportError):  # only Unix has it, and reading results does not need it
    import fcntl


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


class ProcessGroup:
    """A program and all processes that it starts, which end with this process.

    Their output goes to `log`.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
    ) -> None:
        self._lifeline: int | None
        lifeline, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).resolve()), str(lifeline), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[lifeline],
            env=dict(environment),
            start_new_session=True,
        )
        os.close(lifeline)

    @property
    def exit_status(self) -> int | None:
        """The exit status of the program, or None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def stop(self, grace_seconds: float) -> None:
        """End all processes of the group: ask them with SIGTERM, and kill them after a while."""
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_seconds)
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)  # the program is the leader of its group


def main() -> None:
    """Become the program of a `ProcessGroup`. Arguments: LIFELINE COMMAND …"""
    end_with_parent(int(sys.argv[1]), with_group=True)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")


if __name__ == "__main__":
    main()
