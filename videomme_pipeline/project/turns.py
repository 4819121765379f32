"""Turns: runs that need the same machine or the same endpoint use it one after the other.

A run has a turn while it has locked a file. The kernel releases the lock when the process ends for
any reason. Dagster's `pool=` does not: after `kill -9` of the run with the slot, the next run waits
forever at full CPU, because only the daemon frees slots and the command line has no daemon.
"""

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

POLL_SECONDS = 0.5
REMINDER_SECONDS = 60.0
ANOTHER_RUN = "another run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A machine or an endpoint. At most `places` runs use it at the same time.

    `title` is its name in messages; `file_stem` is the name of its lock files.
    """

    title: str
    file_stem: str
    places: int = 1


def this_machine() -> Resource:
    """All cores of this machine, and the files that only one run may write."""
    return Resource(title="this machine", file_stem=f"machine_{_word(platform.node())}")


def servers_here() -> Resource:
    """The GPUs of this machine, for the servers that a run starts."""
    return Resource(title="the GPUs of this machine", file_stem=f"servers_{_word(platform.node())}")


def endpoint(url: str, places: int = 1) -> Resource:
    """A model's endpoint, by its URL."""
    address = url.partition("//")[2]
    return Resource(title=url, file_stem=f"endpoint_{_word(address)}", places=places)


class Turns(Protocol):
    """How the runs of a project take turns."""

    def take(self, resource: Resource) -> AbstractContextManager[None]:
        """Return a block that uses `resource`. Entering it waits for a free place."""


class LockFileTurns:
    """Turns among all processes that use the same folder.

    `run` is the name that other runs show while they wait. `on_wait` is called with one sentence
    when a wait starts, every minute, and when it ends. A wait lasts as long as the other run works.
    It is no part of the deadline of a question, which begins with its first request.
    """

    def __init__(self, folder: Path, *, run: str, on_wait: Callable[[str], None]) -> None:
        self._folder = folder
        self._run = run
        self._on_wait = on_wait
        self._locks: list[FileLock] = []

    @contextmanager
    def take(self, resource: Resource) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock_a_place(resource) or self._wait(resource)
        self._locks.append(lock)
        try:
            yield
        finally:
            lock.release()

    def release_all(self) -> None:
        """Release all locks, even of blocks that never ended, as in a suspended generator."""
        for lock in self._locks:
            lock.release()

    def users(self, resource: Resource) -> tuple[str, ...]:
        """The names of the runs that use `resource` now."""
        return tuple(_user(place) for place in self._places(resource) if _is_locked(place))

    def _wait(self, resource: Resource) -> FileLock:
        began = shown = time.monotonic()
        self._on_wait(f"Waiting for {self._use_of(resource)}")
        while not (lock := self._lock_a_place(resource)):
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            if now - shown >= REMINDER_SECONDS:
                shown = now
                self._on_wait(f"Waiting for {now - began:.0f} s for {self._use_of(resource)}")
        self._on_wait(f"Using {resource.title} after {time.monotonic() - began:.0f} s")
        return lock

    def _use_of(self, resource: Resource) -> str:
        users = ", ".join(self.users(resource)) or ANOTHER_RUN
        return f"{users}, which is using {resource.title}"

    def _lock_a_place(self, resource: Resource) -> FileLock | None:
        """Return the lock of a free place, or None if there is none."""
        for place in self._places(resource):
            lock = FileLock(place, blocking=False)
            with suppress(Timeout):
                lock.acquire()
                _user_file(place).write_text(self._run, encoding="utf-8")
                return lock
        return None

    def _places(self, resource: Resource) -> list[Path]:
        names = (f"{resource.file_stem}.{place}.lock" for place in range(resource.places))
        return [self._folder / name for name in names]


def _is_locked(place: Path) -> bool:
    if not place.exists():
        return False
    try:
        with FileLock(place, blocking=False):
            return False
    except Timeout:
        return True


def _user(place: Path) -> str:
    """The run that uses a locked place. A run may be killed before it has written its name."""
    try:
        return _user_file(place).read_text(encoding="utf-8") or ANOTHER_RUN
    except FileNotFoundError:
        return ANOTHER_RUN


def _user_file(place: Path) -> Path:
    return place.with_suffix(".run")


def _word(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)
