"""Convert frozen row dataclasses to Arrow and back.

One row class is one table. Its Arrow schema derives from its annotations, so each column is
declared once. Supported column types: str, int, float, bool, bytes, datetime, string enums,
`X | None`, and `tuple[X, ...]` of these. A field whose type is itself a dataclass has one column
per field of that dataclass, without a prefix. Where a table is stored belongs to `store`.
"""

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

Row = TypeVar("Row")

NOT_STORED = "not_stored"
"""Key in the metadata of a nested field: names of its columns that this table does not have."""

_ARROW_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us", tz="UTC"),
}


@cache
def arrow_schema(row_class: type) -> pa.Schema:
    """Return the Arrow schema of `row_class`. A column is nullable if its type allows None.

    Raises:
        TypeError: if an annotation has no Arrow type.
    """
    return pa.schema([_arrow_field(column.name, column.hint) for column in _columns(row_class)])


def to_table(
    rows: Iterable[Row], row_class: type[Row], metadata: Mapping[str, str] | None = None
) -> pa.Table:
    """Return `rows` as a table, with `metadata` in its schema."""
    schema = arrow_schema(row_class)  # type: ignore[arg-type]
    all_rows = list(rows)
    values = {
        column.name: [_plain(column.value(row)) for row in all_rows]
        for column in _columns(row_class)  # type: ignore[arg-type]
    }
    return pa.table(values, schema=schema.with_metadata(metadata))


def from_table(table: pa.Table, row_class: type[Row]) -> list[Row]:
    """Return the rows of `table`, ignoring columns that `row_class` does not have.

    A column with a default may be missing, as in files that are older than the column.

    Raises:
        KeyError: if a column of `row_class` without a default is missing in `table`.
    """

    def read(name: str, hint: Any) -> list[Any]:
        return _restored(table.column(name).to_pylist(), hint)

    return list(_built(row_class, frozenset(table.column_names), read, table.num_rows))


def to_values(row: Any) -> dict[str, Any]:
    """Return the columns of one row by name, with enums as text."""
    row_class: type = type(row)
    return {column.name: _plain(column.value(row)) for column in _columns(row_class)}


def from_values(values: Mapping[str, Any], row_class: type[Row]) -> Row:
    """Return the row whose columns are `values`; the inverse of `to_values`.

    Raises:
        KeyError: if a column of `row_class` without a default is missing in `values`.
    """

    def read(name: str, hint: Any) -> list[Any]:
        return _restored([values[name]], hint)

    (row,) = _built(row_class, values.keys(), read, 1)
    return row


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a row class, and how to get its value from a row."""

    name: str
    hint: Any
    value: Callable[[Any], Any]


@cache
def _columns(row_class: type) -> tuple[_Column, ...]:
    return tuple(
        _Column(path[-1], hint, attrgetter(".".join(path))) for path, hint in _paths(row_class)
    )


def _paths(row_class: type) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The attribute path and the type of each column; the last name is that of the column."""
    for field, hint in _typed_fields(row_class):
        if not is_dataclass(hint):
            yield (field.name,), hint
            continue
        for path, inner in _paths(hint):  # type: ignore[arg-type]
            if path[-1] not in field.metadata.get(NOT_STORED, ()):
                yield (field.name, *path), inner


@cache
def _typed_fields(row_class: type) -> tuple[tuple[Field[Any], Any], ...]:
    hints = get_type_hints(row_class)
    return tuple((field, hints[field.name]) for field in fields(row_class))


def _built(
    row_class: type[Row],
    names: Iterable[str],
    read: Callable[[str, Any], list[Any]],
    count: int,
) -> Iterator[Row]:
    """Rows of `row_class` from columns: `names` exist, and `read` returns one by name and type."""
    values: dict[str, Iterable[Any]] = {}
    for field, hint in _typed_fields(row_class):  # type: ignore[arg-type]
        if is_dataclass(hint):
            values[field.name] = _built(hint, names, read, count)  # type: ignore[arg-type]
        elif field.default is MISSING or field.name in names:
            values[field.name] = read(field.name, hint)
    if not values:
        return iter([row_class() for _ in range(count)])
    return (
        row_class(**dict(zip(values, row, strict=True)))
        for row in zip(*values.values(), strict=True)
    )


def _arrow_field(name: str, hint: Any) -> pa.Field:
    hint, optional = _without_none(hint)
    return pa.field(name, _arrow_type(name, hint), nullable=optional)


def _arrow_type(name: str, hint: Any) -> pa.DataType:
    if get_origin(hint) is tuple:
        return pa.list_(_arrow_type(name, get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return pa.string()
    if hint in _ARROW_TYPES:
        return _ARROW_TYPES[hint]
    raise TypeError(f"column {name}: {hint} has no Arrow type")


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        types_left = [item for item in get_args(hint) if item is not type(None)]
        if len(types_left) == 1:
            return types_left[0], True
        raise TypeError(f"a column has one type, not {hint}")
    return hint, False


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _restored(values: list[Any], hint: Any) -> list[Any]:
    """The values of a column as its type requires them."""
    hint, _ = _without_none(hint)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return [None if value is None else tuple(_restored(value, item)) for value in values]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return [None if value is None else hint(value) for value in values]
    return values
