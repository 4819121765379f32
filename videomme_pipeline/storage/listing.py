"""States of files and objects, and the names of stored files that a plan needs."""

import os
from collections import defaultdict
from collections.abc import Iterable
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
                self._names[folder] = StageNames(_names_in(self._root.joinpath(*folder)))
            return self._names[folder]


def _names_in(folder: UPath) -> Iterable[str]:
    """The names of the files in `folder` and in its folders, relative to `folder`."""
    with listing(folder):
        if not is_local(folder):
            return list_objects(folder)
        names, folders = _entries(folder.path)
        for name in folders:
            inner, _ = _entries(os.path.join(folder.path, name))  # noqa: PTH118 - a tenth of the time
            names += [f"{name}/{file}" for file in inner]
        return names


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """The names of the files and of the folders in `folder`; none if there is no such folder."""
    files: list[str] = []
    folders: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            try:
                is_folder, is_file = entry.is_dir(), entry.is_file()
            except OSError:  # a link to itself: reading it fails and names the file
                is_folder, is_file = False, True
            if is_folder or is_file:
                (folders if is_folder else files).append(entry.name)
    return files, folders


def file_states(folder: UPath) -> dict[str, FileState]:
    """The states of all files under `folder` by their names in it, sorted; empty without one."""
    with listing(folder):
        if not is_local(folder):
            return list_objects(folder)
        start = len(folder.path.rstrip("/")) + 1
        return {
            path[start:]: FileState.of(os.stat(path))  # noqa: PTH116 - a plain path
            for parent, _, names in sorted(os.walk(folder.path))
            for path in (os.path.join(parent, name) for name in sorted(names))  # noqa: PTH118
            if os.path.isfile(path)  # noqa: PTH113
        }
