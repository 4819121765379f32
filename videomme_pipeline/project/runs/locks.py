"""Locks: runs that need the same machine or the same endpoint use it one after the other.

A lock is a locked file, or a lock in a database that several machines share, and ends with its
process. Dagster's `pool=` does not: after `kill -9` of the run with the slot, the next run waits
forever at full CPU, because only the daemon frees slots and the command line has none.
"""

import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from videomme_pipeline import plugins
from videomme_pipeline.errors import ModelError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.storage.publish import writing

POLL_SECONDS = 0.5
REMINDER_SECONDS = 60.0
ANOTHER_RUN = "another run"
_STEM_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A machine, an endpoint or files. At most `slots` runs use it at the same time.

    `title` is its name in messages; `file_stem` is the name of its lock files, which is unique.
    """

    title: str
    file_stem: str
    slots: int = 1


def this_machine() -> Resource:
    """All cores of this machine, and the files that only one run may write."""
    return Resource(title="this machine", file_stem=_stem("machine", platform.node()))


def local_gpus() -> Resource:
    """Lock on the GPUs of this machine, for servers that a run starts."""
    return Resource(title="the GPUs of this machine", file_stem=_stem("servers", platform.node()))


def endpoint(url: str, slots: int = 1) -> Resource:
    """A model's endpoint, by its URL."""
    address = url.partition("//")[2]
    return Resource(title=url, file_stem=_stem("endpoint", address), slots=slots)


def cost_limit(name: str) -> Resource:
    """The cost limit of a run or an evaluation, from which only one process at a time spends."""
    return Resource(title=f"the cost limit of {name}", file_stem=_stem("cost_limit", name))


class Lock(Protocol):
    """The lock of one slot of a resource."""

    def release(self) -> None:
        """Release the slot. A second call does nothing."""


class Locks(ABC):
    """The locks with which the runs of a project take turns.

    `run` is the name that other runs show while they wait. `on_wait` is called with one sentence
    when a wait starts, every minute, and when it ends. No deadline of a question includes a wait.
    """

    spans_machines: bool
    """True if processes on several machines share these locks."""

    def __init__(self, *, run: str, on_wait: Callable[[str], None]) -> None:
        self._run = run
        self._on_wait = on_wait
        self._locked: dict[Resource, Lock] = {}

    @contextmanager
    def using(self, resource: Resource) -> Iterator[None]:
        """Use `resource` in the block. Entering it waits for a free slot."""
        self._locked[resource] = self._lock_slot(resource) or self._wait(resource)
        try:
            yield
        finally:
            self._locked.pop(resource).release()

    def release_all(self) -> None:
        """Release all locks, even of blocks that never ended, as in a suspended generator."""
        for lock in self._locked.values():
            lock.release()

    def check(self) -> None:
        """Check that this run still has its locks. A lost lock is taken again.

        Raises ModelError if another run has a lost lock now, and StorageError without the database.
        """
        for resource in [name for name, lock in self._locked.items() if self._is_lost(lock)]:
            lock = self._lock_slot(resource)
            if lock is None:
                raise ModelError(
                    f"the database ended the session with the lock of {resource.title}, and "
                    f"{self._use_of(resource)} now. Everything answered so far is stored: run "
                    "again when the other run has ended"
                )
            self._locked[resource] = lock

    def _is_lost(self, lock: Lock) -> bool:  # noqa: ARG002
        """True if `lock`, which was not released, is free for other runs."""
        return False

    @abstractmethod
    def users(self, resource: Resource) -> tuple[str, ...]:
        """The names of the runs that use `resource` now."""

    @abstractmethod
    def _lock_slot(self, resource: Resource) -> Lock | None:
        """Return the lock of a free slot, or None if there is none."""

    def _wait(self, resource: Resource) -> Lock:
        began = shown = time.monotonic()
        self._on_wait(f"Waiting for {self._use_of(resource)}")
        while not (lock := self._lock_slot(resource)):
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


def shared_locks(url: str, *, run: str, on_wait: Callable[[str], None]) -> Locks:
    """The locks of the database at `url`. Its scheme is the name of an entry point."""
    scheme = url.partition(":")[0].partition("+")[0]
    title = f"locks in a database `{scheme}://…`"
    kind = plugins.find_class(plugins.LOCKS, scheme, Locks, title)
    locks: Locks = kind(url, run=run, on_wait=on_wait)
    return locks


class FileLocks(Locks):
    """Locks of files, among all processes that use the same folder."""

    spans_machines = False

    def __init__(self, folder: Path, *, run: str, on_wait: Callable[[str], None]) -> None:
        super().__init__(run=run, on_wait=on_wait)
        self._folder = folder

    def users(self, resource: Resource) -> tuple[str, ...]:
        return tuple(
            _user(path) for path in self._paths(resource) if path.exists() and _is_locked(path)
        )

    def _lock_slot(self, resource: Resource) -> Lock | None:
        from filelock import FileLock, Timeout  # noqa: PLC0415 - a plan takes no lock

        for path in self._paths(resource):
            lock = FileLock(path, blocking=False)
            with writing(path), suppress(Timeout):
                self._folder.mkdir(parents=True, exist_ok=True)
                lock.acquire()
                path.with_suffix(".run").write_text(self._run, encoding="utf-8")
                return lock
        return None

    def _paths(self, resource: Resource) -> list[Path]:
        names = (f"{resource.file_stem}.{slot}.lock" for slot in range(resource.slots))
        return [self._folder / name for name in names]


def _is_locked(path: Path) -> bool:
    from filelock import FileLock, Timeout  # noqa: PLC0415 - as above

    try:
        with FileLock(path, blocking=False):
            return False
    except Timeout:
        return True


def _user(path: Path) -> str:
    """The run that has locked a file. A run may be killed before it has written its name."""
    name = path.with_suffix(".run")
    return (name.read_text(encoding="utf-8") if name.exists() else "") or ANOTHER_RUN


def _stem(kind: str, name: str) -> str:
    """A readable file name for `name`, and a hash, since different names may look the same."""
    word = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return f"{kind}_{word[:_STEM_CHARACTERS]}_{fingerprint(name)[:12]}"
