"""States of files and objects, and listings that a plan asks many times."""

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from threading import Lock

from upath import UPath

from videomme_pipeline.storage.objects import (
    FileState,
    is_local,
    list_objects,
    listing,
    object_state,
)

NO_BENCHMARKS = (
    *("checkpoints", "decode_times", "failures", "frames", "packets", "races", "servers", "sound"),
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
    """The files under a folder. Each part is listed once, when one of its files is first needed.

    A part is a folder on a local disk. In an object store a part is everything under a folder such
    as "frames" or "videomme/responses".
    """

    def __init__(self, root: UPath) -> None:
        self._root, self._is_local = root, is_local(root)
        self._names: dict[str, frozenset[str]] = {}
        self._objects: dict[str, dict[str, FileState]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def has(self, path: UPath) -> bool:
        if not self._is_local:
            return self._object(path) is not None
        folder, name = os.path.split(path.path)
        if folder not in self._names:
            self._names[folder] = _file_names(folder)
        return name in self._names[folder]

    def state(self, path: UPath) -> FileState:
        """The state of the file at `path`.

        Raises:
            FileNotFoundError: if there was none.
        """
        if self._is_local:
            return file_state(path)
        if state := self._object(path):
            return state
        raise FileNotFoundError(f"{path}: no such object")

    def list_ahead(self, *part: str) -> None:
        """List a part of an object store, such as ("videomme", "responses"), before it is needed.

        Several threads may do so at the same time.
        """
        if not self._is_local:
            self._objects_of("/".join(part))

    def _object(self, path: UPath) -> FileState | None:
        names = path.path[len(self._root.path.rstrip("/")) + 1 :].split("/")
        depth = 1 if names[0] in NO_BENCHMARKS else 2
        if len(names) > depth:
            return self._objects_of("/".join(names[:depth])).get("/".join(names[depth:]))
        with suppress(FileNotFoundError), listing(path):
            return object_state(path)
        return None

    def _objects_of(self, part: str) -> dict[str, FileState]:
        with self._locks[part]:
            if part not in self._objects:
                with listing(self._root / part):
                    self._objects[part] = list_objects(self._root / part)
            return self._objects[part]


def states_of_files(folder: str) -> dict[str, FileState]:
    """The states of the entries of a folder. The state of a broken link is that of the link."""
    try:
        with listing(Path(folder)), os.scandir(folder) as entries:
            return {
                entry.name: FileState.of(entry.stat(follow_symlinks=os.path.exists(entry.path)))  # noqa: PTH110 - not a loop of links
                for entry in entries
            }
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _file_names(folder: str) -> frozenset[str]:
    """The names of the files in a folder; none if there is no such folder."""
    try:
        with listing(Path(folder)), os.scandir(folder) as entries:
            return frozenset(
                entry.name
                for entry in entries
                if entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path)  # noqa: PTH113 - False for a loop of links
            )
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
