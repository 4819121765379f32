"""Tables of rows: how they are written, read, verified and set aside when they are damaged."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from upath import UPath

from videomme_pipeline.errors import DamagedFileError, StorageError
from videomme_pipeline.rows import from_table, to_table
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.names import fingerprint_in
from videomme_pipeline.storage.objects import is_local
from videomme_pipeline.storage.publish import publish

Row = TypeVar("Row")
Item = TypeVar("Item")
Value = TypeVar("Value")
_log = logging.getLogger(__name__)
REQUESTS = 8
"""Requests to an object store that are sent at the same time."""
SET_ASIDE = ".corrupt"
"""Suffix of a damaged file that was set aside."""


def write_rows(  # noqa: PLR0913 - what a footer contains
    path: UPath,
    rows: Iterable[Row],
    row_class: type[Row],
    *,
    fingerprint: str,
    settings: Mapping[str, object] | None = None,
    parts: Mapping[str, object] | None = None,
    only_new: bool = False,
) -> None:
    """Publish `rows` as Parquet. With `only_new`, a file that exists is kept.

    The file's metadata has the fingerprint, the `settings` that the rows were built with, and the
    named `parts` of the fingerprint, as JSON.
    """
    metadata = {
        "fingerprint": fingerprint,
        "settings": json.dumps(settings or {}, sort_keys=True),
        "parts": json.dumps(parts or {}, sort_keys=True),
    }
    publish(path, parquet.encode(to_table(rows, row_class, metadata)), only_new=only_new)


def read_rows(path: UPath, row_class: type[Row]) -> list[Row]:
    """The rows that `write_rows` stored.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        DamagedFileError: if the file is damaged. The file is set aside, and the next run rebuilds
            it.
    """
    with setting_aside(path):
        return from_table(_read_table(path), row_class)


def read_files(paths: Iterable[UPath], row_class: type[Row]) -> list[Row]:
    return [row for path in paths for row in read_rows(path, row_class)]


def read_table(path: UPath, columns: list[str] | None = None) -> pa.Table:
    """The stored table, or some of its columns. Raises the errors of `read_rows`."""
    with setting_aside(path):
        return _read_table(path, columns)


def _read_table(path: UPath, columns: list[str] | None = None) -> pa.Table:
    table = parquet.read_table(path, columns)
    _check_name(path, parquet.metadata_of(table))
    return table


def _check_name(path: UPath, metadata: Mapping[str, str]) -> None:
    """Raise ValueError if a file has the name of another one, which a plan would take for fresh."""
    named = fingerprint_in(path.name)
    if named is not None and metadata.get("fingerprint", named) != named:
        raise ValueError(f"it was renamed: its fingerprint is {metadata['fingerprint']}")


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
            _check_name(path, parquet.read_metadata(path))
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
    return _json_of(path, "settings")


def stored_parts(path: UPath) -> dict[str, Any]:
    """The named parts of a file's fingerprint; empty if it has none, is missing or damaged."""
    return _json_of(path, "parts")


def _json_of(path: UPath, key: str) -> dict[str, Any]:
    value = _metadata(path).get(key)
    return dict(json.loads(value)) if value else {}


def _metadata(path: UPath) -> dict[str, str]:
    """The metadata of the file at `path`; empty if it is missing or damaged (then set aside)."""
    with suppress(FileNotFoundError, StorageError), logging_damage(path):
        metadata = parquet.read_metadata(path)
        _check_name(path, metadata)
        return metadata
    return {}
