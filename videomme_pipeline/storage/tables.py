"""Tables of rows: how they are written, read, verified and set aside when they are damaged."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from upath import UPath

from videomme_pipeline.errors import DamagedFileError, StorageError
from videomme_pipeline.rows import from_table, to_table
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.listing import file_state, states_of_files
from videomme_pipeline.storage.objects import FileState, is_local, list_objects, listing
from videomme_pipeline.storage.publish import publish

Row = TypeVar("Row")
Item = TypeVar("Item")
Value = TypeVar("Value")
_log = logging.getLogger(__name__)
REQUESTS = 8
"""Requests to an object store that are sent at the same time."""
SET_ASIDE = ".corrupt"
"""Suffix of a damaged file that was set aside."""


def write_rows(
    path: UPath,
    rows: Iterable[Row],
    row_class: type[Row],
    *,
    fingerprint: str,
    settings: Mapping[str, object] | None = None,
) -> pa.Table:
    """Publish `rows` as Parquet.

    The file's metadata has the fingerprint and the `settings` that the rows were built with, as
    JSON.
    """
    metadata = {"fingerprint": fingerprint, "settings": json.dumps(settings or {}, sort_keys=True)}
    table = to_table(rows, row_class, metadata)
    publish(path, parquet.encode(table))
    return table


def read_rows(path: UPath, row_class: type[Row]) -> list[Row]:
    """The rows that `write_rows` stored.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        DamagedFileError: if the file is damaged. The file is set aside, and the next run rebuilds
            it.
    """
    with setting_aside(path):
        return from_table(parquet.read_table(path), row_class)


def read_files(paths: Iterable[UPath], row_class: type[Row]) -> list[Row]:
    return [row for path in paths for row in read_rows(path, row_class)]


@dataclass(frozen=True, slots=True)
class StoredRow(Generic[Row]):
    """The only row of a file, and the fingerprint in its footer."""

    row: Row
    fingerprint: str


class RowFile(Generic[Row]):
    """A file of rows. Another read parses the file again only if the file changed."""

    def __init__(self, path: UPath, row_class: type[Row]) -> None:
        self._path, self._row_class = path, row_class
        self._cached: tuple[FileState, tuple[Row, ...]] | None = None

    def read(self) -> tuple[Row, ...]:
        """The rows. Raises the errors of `read_rows`."""
        state = file_state(self._path)
        if self._cached is None or self._cached[0] != state:
            self._cached = state, tuple(read_rows(self._path, self._row_class))
        return self._cached[1]


class RowFolder(Generic[Row]):
    """A folder of files with one row each. Another read reads only the files that changed.

    Objects are read by several threads, from local copies if there are any.
    """

    def __init__(self, folder: UPath, row_class: type[Row]) -> None:
        self._folder, self._row_class = folder, row_class
        self._cached: dict[str, tuple[FileState, StoredRow[Row]]] = {}

    def read(self) -> dict[str, StoredRow[Row]]:
        """The rows by file name without suffix, sorted; empty if there is no folder."""
        states = self._states()
        current = {
            name: (state, row)
            for name, (state, row) in self._cached.items()
            if states.get(name) == state
        }
        changed = [name for name in states if name not in current]
        rows = _read_all(
            lambda name: self._read(name, states[name]), changed, are_local=is_local(self._folder)
        )
        read = {n: (states[n], row) for n, row in zip(changed, rows, strict=True) if row}
        self._cached = current | read
        return {name: self._cached[name][1] for name in states if name in self._cached}

    def _states(self) -> dict[str, FileState]:
        """The states of the files by name without suffix, sorted; empty if there is no folder."""
        if is_local(self._folder):
            states = states_of_files(self._folder.path)
        else:
            with listing(self._folder):
                states = list_objects(self._folder)
        return {
            name.removesuffix(".parquet"): states[name]
            for name in sorted(states)
            if name.endswith(".parquet") and not name.startswith(".")
        }

    def _read(self, name: str, state: FileState) -> StoredRow[Row] | None:
        """The row of one file, or None if the file is damaged. A damaged file is set aside."""
        path = self._folder / f"{name}.parquet"
        try:
            with setting_aside(path):
                table = parquet.read_copied_table(path, state)
                (row,) = from_table(table, self._row_class)
                return StoredRow(row, parquet.metadata_of(table).get("fingerprint", ""))
        except DamagedFileError as error:
            _log.warning("%s", error)
            return None


def read_table(path: UPath, columns: list[str] | None = None) -> pa.Table:
    """The stored table, or some of its columns. Raises the errors of `read_rows`."""
    with setting_aside(path):
        return parquet.read_table(path, columns)


def verify(paths: Iterable[UPath]) -> tuple[list[UPath], list[str]]:
    """Verify all bytes of stored tables.

    Returns:
        The intact files, and a sentence for each other file. Damaged files are set aside.
    """
    files = list(paths)
    problems = _read_all(_problem_of, files, are_local=all(map(is_local, files)))
    intact = [path for path, problem in zip(files, problems, strict=True) if not problem]
    return intact, [problem for problem in problems if problem]


def _problem_of(path: UPath) -> str | None:
    """Description of the damage of a stored table, or None. A damaged table is set aside."""
    try:
        with setting_aside(path):
            parquet.read_bytes(path)
    except (DamagedFileError, FileNotFoundError, StorageError) as error:
        return str(error)
    return None


def _read_all(
    read: Callable[[Item], Value], items: Sequence[Item], *, are_local: bool
) -> list[Value]:
    """The results of `read`, in the order of `items`. Several objects are read at the same time."""
    if are_local:
        return list(map(read, items))
    with ThreadPoolExecutor(REQUESTS) as threads:
        return list(threads.map(read, items))


@contextmanager
def setting_aside(path: UPath) -> Iterator[None]:
    """Set the file at `path` aside if the block cannot understand its content.

    Raises:
        DamagedFileError: in this case. The message says that the next run rebuilds the file.
    """
    try:
        yield
    except DamagedFileError as error:
        raise DamagedFileError(f"{error}{set_aside(path)}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{path}: the file is damaged ({error!r}){set_aside(path)}"
        ) from error


@contextmanager
def logging_damage(path: UPath) -> Iterator[None]:
    """End the block, set the file aside and log it if the block cannot understand its content."""
    try:
        with setting_aside(path):
            yield
    except DamagedFileError as error:
        _log.warning("%s", error)


def set_aside(path: Path | UPath) -> str:
    """Rename a damaged file to `….corrupt`, and return what to do, for the end of a message."""
    aside = path.with_name(f"{path.name}{SET_ASIDE}")
    try:
        path.rename(str(aside))
    except OSError:
        return "; remove it, then run again to rebuild it"
    return f" and was renamed to {aside.name}; run again to rebuild it"


def stored_fingerprint(path: UPath) -> str | None:
    """The fingerprint of the file at `path`, or None if it is missing or damaged."""
    return _metadata(path).get("fingerprint") or None


def stored_settings(path: UPath) -> dict[str, Any]:
    """The settings in the file at `path`; empty if it has none, is missing or damaged."""
    value = _metadata(path).get("settings")
    return dict(json.loads(value)) if value else {}


def _metadata(path: UPath) -> dict[str, str]:
    """The metadata of the file at `path`; empty if it is missing or damaged (then set aside)."""
    with suppress(FileNotFoundError, StorageError), logging_damage(path):
        return parquet.read_metadata(path)
    return {}
