"""The folder of a run, which all machines of a cluster share: tasks and outcomes are files.

    run                      the versions of the run, which touches this file until it ends
    workers/WORKER           its number of tasks and its problem; the worker touches this file
    tasks/NUMBER             a task that waits for a worker
    claimed/NUMBER@WORKER    a task that a worker has claimed by renaming its file
    outcomes/NUMBER          the outcome of a task

A file gets its name when it is complete. Nothing is locked or mapped into memory, and clocks of
machines are not compared. Folders are listed and files are opened to see changes, because NFS then
asks its server (read in its manual; only local file systems were tried). Tasks and outcomes are
pickled, so only the user of the run can use the folder.
"""

import json
import os
import pickle
import platform
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from videomme_pipeline.storage.publish import writing

RUN, WORKERS, TASKS, CLAIMED, OUTCOMES = "run", "workers", "tasks", "claimed", "outcomes"
BEAT_SECONDS = 2.0
"""Seconds between two touches of a file by its owner, and between two looks at the file."""
FASTEST_POLL_SECONDS = 0.01
"""Seconds between two lists of a folder just after it changed. They grow while it does not."""
_SAME_VERSIONS = ("videomme-pipeline", "av", "simplejpeg")
"""Packages that determine frames and packet indexes."""


def create_run(folder: Path) -> None:
    """Let workers find a run in an empty folder, which only this user can read from now on."""
    with writing(folder):
        folder.chmod(0o700)
        for name in (WORKERS, TASKS, CLAIMED, OUTCOMES):
            (folder / name).mkdir()
        put(folder / RUN, json.dumps(versions()).encode())


def put(path: Path, content: bytes) -> None:
    """Write a file that other machines see only when it is complete."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    new.write_bytes(content)
    new.replace(path)


def names_in(folder: Path) -> list[str]:
    """The sorted names of the complete files in a folder."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208


class Heartbeat:
    """The content of a file, and how many looks ago its owner touched it.

    Seconds would be wrong after this process was suspended, or waited for the file system.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._touched, self._silent_looks = file, 0, 0
        self.content = b""

    @property
    def silent_seconds(self) -> float:
        return self._silent_looks * BEAT_SECONDS

    def look(self) -> "Heartbeat":
        """Look at the file, every `BEAT_SECONDS`. A file that does not exist has no content."""
        before = self._touched
        try:
            with self._file.open("rb") as file:
                self.content = file.read()
                self._touched = os.fstat(file.fileno()).st_mtime_ns
        except FileNotFoundError:
            self.content = b""
        except OSError:
            pass  # the file system is away
        self._silent_looks = self._silent_looks + 1 if self._touched == before else 0
        return self


@cache
def versions() -> Mapping[str, str]:
    """The versions of this process that determine frames and packet indexes."""
    own = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _SAME_VERSIONS:
        try:
            own[package] = version(package)
        except PackageNotFoundError:
            own[package] = "missing"
    return own


def problem_with(run: Mapping[str, str]) -> str | None:
    """Why this process cannot run the tasks of a run with these versions, or None."""
    different = [
        f"{name} {own}, not {run.get(name)}"
        for name, own in versions().items()
        if own != run.get(name)
    ]
    if not different:
        return None
    return (
        f"worker on {platform.node()}: {', '.join(different)}; install the versions of the machine "
        "that starts the run"
    )


def run_pickled(call: bytes) -> bytes:
    """Run a pickled function and task in a child process. A worker imports nothing for it."""
    function: Callable[[Any], Any]
    function, task = pickle.loads(call)
    return pickle.dumps(function(task))
