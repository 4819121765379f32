"""Frozen row dataclasses to Arrow and back.

One row class is one table; its Arrow schema derives from its annotations, so a column is
declared once. Supported column types: str, int, float, bool, bytes, datetime, string enums,
`X | None`, and `tuple[X, ...]` of these. Where a table is stored is not decided here.
"""

import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

Row = TypeVar("Row")

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
    """The Arrow schema of `row_class`; a column is nullable when its type allows None.

    Raises:
        TypeError: for an annotation that has no Arrow type.
    """
    hints = get_type_hints(row_class)
    return pa.schema([_arrow_field(field.name, hints[field.name]) for field in fields(row_class)])


def to_table(
    rows: Iterable[Row], row_class: type[Row], metadata: Mapping[str, str] | None = None
) -> pa.Table:
    """`rows` as a table, with `metadata` in its schema."""
    schema = arrow_schema(row_class)  # type: ignore[arg-type]
    held = list(rows)
    columns = {name: [_plain(getattr(row, name)) for row in held] for name in schema.names}
    return pa.table(columns, schema=schema.with_metadata(metadata))


def from_table(table: pa.Table, row_class: type[Row]) -> list[Row]:
    """The rows of `table`; columns that `row_class` does not have are left out.

    A column with a default may be missing, as in files that are older than it.

    Raises:
        KeyError: when a column of `row_class` without a default is missing in `table`.
    """
    hints = get_type_hints(row_class)
    names = [
        field.name
        for field in fields(row_class)  # type: ignore[arg-type]
        if field.default is MISSING or field.name in table.column_names
    ]
    columns = [_restored(table.column(name).to_pylist(), hints[name]) for name in names]
    return [
        row_class(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
    ]


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
        kept = [item for item in get_args(hint) if item is not type(None)]
        if len(kept) == 1:
            return kept[0], True
        raise TypeError(f"a column has one type, not {hint}")
    return hint, False


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _restored(values: list[Any], hint: Any) -> list[Any]:
    """A column's values as its type has them; what a type is, is asked once a column."""
    hint, _ = _without_none(hint)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return [None if value is None else tuple(_restored(value, item)) for value in values]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return [None if value is None else hint(value) for value in values]
    return values
