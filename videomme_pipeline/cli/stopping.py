"""Ctrl-C and SIGTERM: a command stops at any moment, within seconds, and says what is stored.

A stop ends the process as a kill would, and everything survives a kill. Commands run in a second
thread, so that the main thread can react while they import or run native code.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h\n"
_STANDARD_OUTPUT, _STANDARD_ERROR = 1, 2

_actions: list[tuple[Callable[[], str], float]] = []
"""The actions of a stop, and the seconds that each may take."""


@contextmanager
def on_stop(action: Callable[[], str], seconds: float = 4.0) -> Iterator[None]:
    """If the command is stopped in the block, call `action` and print the text it returns.

    The command continues while `action` runs. The process ends after `seconds` at the latest.
    """
    _actions.append((action, seconds))
    try:
        yield
    finally:
        _actions.remove((action, seconds))


@contextmanager
def interruptible_children() -> Iterator[None]:
    """Let processes that are started in the block receive SIGINT. Other children never do."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_stoppable(command: Callable[[], None]) -> None:
    """Run `command`. A signal ends this process with status 130 (Ctrl-C) or 143 (SIGTERM).

    Call it on the main thread, as the last thing that the process does.
    """
    terminal = _STANDARD_ERROR
    with suppress(OSError):  # standard error is closed
        terminal = os.dup(_STANDARD_ERROR)  # Dagster redirects it while it runs a step
    received: list[int] = []
    gc.set_threshold(500_000)  # imports create a million objects, and none of them is garbage
    awakened, awaken = os.pipe()
    os.set_blocking(awaken, False)
    signal.set_wakeup_fd(awaken, warn_on_full_buffer=False)
    # A handler may interrupt an import or the owner of a lock, so it only notes the signal.
    _handle_signals(lambda number, _frame: received.append(number))
    # Keep Ctrl-C, which a terminal sends to all processes, away from child processes.
    blocked = (signal.SIG_BLOCK, [signal.SIGINT])
    with ThreadPoolExecutor(1, initializer=signal.pthread_sigmask, initargs=blocked) as threads:
        ended = threads.submit(_status, command)
        ended.add_done_callback(lambda _: os.write(awaken, b"\0"))
        while not ended.done():
            os.read(awakened, 1)  # a handler runs only when the main thread wakes up
            if received:
                _stop(received[0], terminal)
    _handle_signals(signal.SIG_DFL)
    if "duckdb" not in sys.modules:  # its binding would report its types as leaked
        gc.freeze()  # a search for garbage before the end of the process would take half a second
    sys.exit(ended.result())


def _stop(number: int, terminal: int) -> NoReturn:
    """End this process and its children after signal `number`, with a line on `terminal`."""
    _handle_signals(signal.SIG_IGN)
    texts = _results_of_actions()
    _discard_output()
    with suppress(OSError):  # standard error is closed
        cursor = _SHOW_CURSOR if os.isatty(terminal) else ""
        os.write(terminal, f"{cursor}{' '.join(['Stopped.', *texts])}\n".encode())
    try:
        _end_children()
    finally:
        os._exit(128 + number)


def _handle_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in _SIGNALS:
        signal.signal(number, handler)


def _status(command: Callable[[], None]) -> str | int | None:
    """Run `command`, and return its exit status for `sys.exit`.

    No exception leaves the thread, or DuckDB's binding would report its types as leaked.
    """
    try:
        command()
    except SystemExit as ended:
        return ended.code
    except BaseException as error:  # noqa: BLE001 - any other error has a traceback
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _results_of_actions() -> list[str]:
    """The texts of the actions that finish in time. An action that fails has no text."""
    texts: list[str] = []

    def act() -> None:
        for action, _ in reversed(_actions):
            with suppress(Exception):
                texts.append(action())

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(max((seconds for _, seconds in _actions), default=0))
    return list(texts)


def _discard_output() -> None:
    """Print nothing more. The command still runs, and could print lines after the last message."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (_STANDARD_OUTPUT, _STANDARD_ERROR):
            os.dup2(nowhere, stream)


def _end_children() -> None:
    """Kill all child processes, so that no daemon and no log reader survives."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
