"""Functions that tests run in child processes. Few imports, so that a child starts quickly."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from videomme_pipeline.demo.embedded.language import ScoringTask
from videomme_pipeline.errors import MissingExtraError


def double(number: int) -> int:
    return number * 2


def misbehave(how: str) -> str:
    """Fail like a decoder with a bad video. With any other word, return normally."""
    match how:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(600)
        case "raise":
            raise ValueError("a reason")
        case "miss":
            raise MissingExtraError("demo", "the task", "a_module")
        case "eat":
            return str(len(bytearray(3 << 30)))
        case "print":
            os.write(1, b"noise on standard output")
    return f"did {how}"


def write_pid(path: Path) -> None:
    """Write this process's id to `path`. Hang if the file name starts with "hang"."""
    path.write_text(str(os.getpid()), encoding="ascii")
    if path.name.startswith("hang_natively"):
        ctypes.PyDLL(None).sleep(600)  # native code that never releases the GIL
    elif path.name.startswith("hang"):
        time.sleep(600)


def wait_for_pids(files: Sequence[Path]) -> list[int]:
    """Wait for the process ids that `write_pid` writes to `files`, and return them."""
    end = time.monotonic() + 240
    while time.monotonic() < end and not all(f.exists() and f.read_text() for f in files):
        time.sleep(0.05)
    return [int(file.read_text(encoding="ascii")) for file in files]


def log_and_wait(task: tuple[Path, int]) -> int:
    """Append the number of the task to a file, and wait for a second."""
    path, number = task
    with path.open("a") as log:
        log.write(f"{number}\n")
    time.sleep(1)
    return os.getpid()


def environment_of_a_child(_: object) -> dict[str, str]:
    """The environment with which this process was started."""
    return dict(
        line.split("=", 1)
        for line in Path("/proc/self/environ").read_text().split("\0")
        if "=" in line
    )


def kill_worker(_: object) -> None:
    """Kill the process that has started this one."""
    os.kill(os.getppid(), signal.SIGKILL)


def pid(_: object) -> int:
    return os.getpid()


def score_or_crash(task: ScoringTask) -> dict[str, float]:
    """Prefer the first option. Crash if the question is "always", or "once" and asked first."""
    mark = task.weights.with_name(f"{task.question} crashed")
    if task.question == "always" or (task.question == "once" and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    return {letter: -number for number, letter in enumerate(task.options)}


def keep_process_alive() -> None:
    """Start a thread for which this process waits before it ends."""
    threading.Thread(target=time.sleep, args=(600,)).start()
