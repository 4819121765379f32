"""Turns: runs that need the same machine or the same endpoint work there one after the other.

A turn is a locked file in the data folder. The kernel releases the lock when its process ends,
however it ends. Dagster's own `pool=` does not: after `kill -9` of the run that had the slot, the
next run waits forever at full CPU, because only the daemon frees slots and the command line has
no daemon.
"""

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

POLL_SECONDS = 0.5
ANOTHER_RUN = "another run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What runs take turns at: `places` of them may use it at the same time.

    `title` is how messages name it, as in "which is using <title>".
    """

    title: str
    file_stem: str
    places: int = 1


def this_machine() -> Resource:
    """All cores of this machine, and the files that only one run may write."""
    return Resource(title="this machine", file_stem=f"machine_{_word(platform.node())}")


def endpoint(url: str, places: int = 1) -> Resource:
    """A model's endpoint, by its URL."""
    address = url.partition("//")[2]
    return Resource(title=url, file_stem=f"endpoint_{_word(address)}", places=places)


def ignore_wait(message: str) -> None:
    """Wait without saying so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The turns of one data folder.

    `folder` contains the lock files. `run` names the run to those that wait for it. `on_wait` is
    called with one sentence when a wait starts and when it ends.
    """

    folder: Path
    run: str
    on_wait: Callable[[str], None] = ignore_wait

    @contextmanager
    def take(self, resource: Resource) -> Iterator[None]:
        """Use `resource` inside the block, after waiting for a free place."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self._locked(resource) or self._wait(resource)
        try:
            yield
        finally:
            lock.release()

    def holders(self, resource: Resource) -> tuple[str, ...]:
        """The names of the runs that use `resource` now."""
        return tuple(_holder(place) for place in self._places(resource) if _is_locked(place))

    def _wait(self, resource: Resource) -> FileLock:
        began = time.monotonic()
        holders = ", ".join(self.holders(resource)) or ANOTHER_RUN
        self.on_wait(f"waiting for {holders}, which is using {resource.title}")
        while not (lock := self._locked(resource)):
            time.sleep(POLL_SECONDS)
        self.on_wait(f"using {resource.title} after {time.monotonic() - began:.0f} s")
        return lock

    def _locked(self, resource: Resource) -> FileLock | None:
        """The lock of a free place; None if there is none."""
        for place in self._places(resource):
            lock = FileLock(place, blocking=False)
            with suppress(Timeout):
                lock.acquire()
                _holder_file(place).write_text(self.run, encoding="utf-8")
                return lock
        return None

    def _places(self, resource: Resource) -> list[Path]:
        names = (f"{resource.file_stem}.{place}.lock" for place in range(resource.places))
        return [self.folder / name for name in names]


def _is_locked(place: Path) -> bool:
    if not place.exists():
        return False
    try:
        with FileLock(place, blocking=False):
            return False
    except Timeout:
        return True


def _holder(place: Path) -> str:
    """The run that wrote its name last; it may have been killed before it did."""
    try:
        return _holder_file(place).read_text(encoding="utf-8") or ANOTHER_RUN
    except FileNotFoundError:
        return ANOTHER_RUN


def _holder_file(place: Path) -> Path:
    return place.with_suffix(".run")


def _word(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)
