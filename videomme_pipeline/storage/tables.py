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
from videomme_pipeline.rows import Row, from_table, to_table
from videomme_pipeline.storage import parquet
from videomme_pipeline.storage.names import StoredName
from videomme_pipeline.storage.objects import is_local
from videomme_pipeline.storage.publish import publish

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
    """The rows that `write_rows` stored. Raises FileNotFoundError if there is no file at `path`.

    Raises DamagedFileError if the file is damaged. It is set aside, and the next run rebuilds it.
    """
    with setting_aside(path):
        return from_table(_read_table(path), row_class)


def read_files(paths: Iterable[UPath], row_class: type[Row]) -> list[Row]:
    return [row for path in paths for row in read_rows(path, row_class)]


def read_table(path: UPath, columns: list[str] | None = None) -> pa.Table:
    """The stored table, or some of its columns. Raises the errors of `read_rows`."""
    with setting_aside(path):
        return _read_table(path, columns)


def read_tables(paths: Sequence[UPath]) -> tuple[list[pa.Table], list[str]]:
    """The intact tables, and a sentence for each other file. Damaged files are set aside."""
    return _read_each(read_table, paths)


def verify(paths: Sequence[UPath]) -> tuple[list[UPath], list[str]]:
    """The intact files, after reading all of their bytes, and the sentences of `read_tables`."""

    def verified(path: UPath) -> UPath:
        read_table(path)
        return path

    return _read_each(verified, paths)


def _read_each(
    read: Callable[[UPath], Value], paths: Sequence[UPath]
) -> tuple[list[Value], list[str]]:
    """The results of `read`, and its errors. Several objects are read at the same time."""

    def try_to_read(path: UPath) -> Value | str:
        try:
            return read(path)
        except (DamagedFileError, FileNotFoundError, StorageError) as error:
            return str(error)

    with ThreadPoolExecutor(1 if all(map(is_local, paths)) else REQUESTS) as threads:
        results = list(threads.map(try_to_read, paths))
    values = [result for result in results if not isinstance(result, str)]
    return values, [result for result in results if isinstance(result, str)]


def _read_table(path: UPath, columns: list[str] | None = None) -> pa.Table:
    table = parquet.read_table(path, columns)
    _check_name(path, parquet.metadata_of(table))
    return table


def _check_name(path: UPath, metadata: Mapping[str, str]) -> None:
    """Raise ValueError if a file has the name of another one, which a plan would take for fresh."""
    name = StoredName.parse(path.name)
    if name and metadata.get("fingerprint", name.fingerprint) != name.fingerprint:
        raise ValueError(f"it was renamed: its fingerprint is {metadata['fingerprint']}")


@contextmanager
def setting_aside(path: UPath) -> Iterator[None]:
    """Set the file aside and raise DamagedFileError if the block cannot understand its content."""
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


def stored_settings(path: UPath) -> dict[str, Any]:
    """The settings in the file at `path`; empty if it has none, is missing or damaged."""
    return _json_of(path, "settings")


def stored_parts(path: UPath) -> dict[str, Any]:
    """The named parts of a file's fingerprint; empty if it has none, is missing or damaged."""
    return _json_of(path, "parts")


def _json_of(path: UPath, key: str) -> dict[str, Any]:
    """A value in the footer of a file. A damaged file is set aside."""
    with suppress(FileNotFoundError, StorageError), logging_damage(path):
        metadata = parquet.read_metadata(path)
        _check_name(path, metadata)
        return dict(json.loads(metadata.get(key) or "{}"))
    return {}
