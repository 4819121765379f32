"""Functions that tests run in child processes. Few imports, so that a child starts quickly."""

import ctypes
import os
import signal
import time
from pathlib import Path

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


def environment_of_a_child(_: object) -> dict[str, str]:
    """The environment with which this process was started."""
    return dict(
        line.split("=", 1)
        for line in Path("/proc/self/environ").read_text().split("\0")
        if "=" in line
    )


def pid(_: object) -> int:
    return os.getpid()
