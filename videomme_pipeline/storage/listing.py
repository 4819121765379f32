"""States of files and objects, and the names of stored files that a plan needs."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

from upath import UPath

from videomme_pipeline.storage.names import StageNames
from videomme_pipeline.storage.objects import (
    FileState,
    is_local,
    list_objects,
    listing,
    object_state,
)

NO_BENCHMARKS = (
    *("checkpoints", "decode_times", "failures", "frames", "local", "packets", "races", "servers"),
    "sound",
)
"""The folders in a data folder that do not belong to one benchmark."""


def file_state(path: UPath | Path) -> FileState:
    """The state of a file or an object. The state of a broken link is that of the link itself.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the folder cannot be listed, or the object store cannot be reached.
    """
    with listing(path):
        if not is_local(path):
            return object_state(path)
        try:
            return FileState.of(path.stat())
        except OSError:  # a link may lead to nothing or to itself
            return FileState.of(path.lstat())


_DEPTH = 4
"""The levels of folders with files of stages: the data folder, a benchmark, a stage, a variant."""


class Listing:
    """The names of stored files. Each folder of a stage is listed once, when it is first needed."""

    def __init__(self, root: UPath) -> None:
        self._root = root
        self._names: dict[tuple[str, ...], StageNames] = {}
        self._locks: defaultdict[tuple[str, ...], Lock] = defaultdict(Lock)

    def names(self, *folder: str) -> StageNames:
        """The names of the files in a folder such as ("smoke", "prompts") and in its folders.

        Several threads may call it at the same time.
        """
        with self._locks[folder]:
            if folder not in self._names:
                self._names[folder] = StageNames(file_names(self._root.joinpath(*folder)))
            return self._names[folder]


def file_names(folder: UPath) -> Iterable[str]:
    """The names of all files under `folder`, relative to it; none if there is no such folder."""
    with listing(folder):
        return list(_walk(folder.path)) if is_local(folder) else list_objects(folder)


def file_states(folder: UPath) -> dict[str, FileState]:
    """The states of all files under `folder` by their names in it, sorted; empty without one."""
    with listing(folder):
        if not is_local(folder):
            return list_objects(folder)
        states = {}
        for name in sorted(_walk(folder.path)):
            with suppress(OSError):  # another process has removed it, or it is a link to itself
                states[name] = FileState.of(os.stat(f"{folder.path}/{name}"))  # noqa: PTH116 - fast
        return states


def _walk(folder: str, prefix: str = "") -> Iterator[str]:
    """Yield the names of the files in a local folder and in its folders, up to `_DEPTH` levels.

    A link to itself counts as a file. Reading it fails and names it.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            try:
                is_folder, is_file = entry.is_dir(), entry.is_file()
            except OSError:
                is_folder, is_file = False, True
            if is_file:
                yield prefix + entry.name
            elif is_folder and prefix.count("/") < _DEPTH - 1:
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
