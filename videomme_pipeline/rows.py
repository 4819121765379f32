"""Convert frozen row dataclasses to Arrow and back.

One row class is one table. Its Arrow schema derives from its annotations, so each column is
declared once. Supported column types: str, int, float, bool, bytes, datetime, string enums,
`X | None`, and `tuple[X, ...]` of these. A field whose type is itself a dataclass has one column
per field of that dataclass, without a prefix. A `JsonMapping` is one column of JSON text.
"""

import ast
import inspect
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib.abc import MetaPathFinder
from itertools import pairwise
from operator import attrgetter
from textwrap import dedent
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson
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


class _NoPandas(MetaPathFinder):
    """Prevents an import of pandas.

    Arrow imports pandas with the first array that it builds, which takes 0.4 s and 60 MB. If that
    fails, it imports pandas only when somebody asks for a data frame.
    """

    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, _NoPandas)
pa.array([])
sys.meta_path.remove(_NoPandas)


class JsonMapping(Mapping[str, Any]):
    """An immutable mapping, stored in one column as JSON. A key without a value is left out."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] = types.MappingProxyType({})) -> None:
        self._values = {key: value for key, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The mapping in JSON text. Raises ValueError if the text is not a JSON object."""
        return cls(orjson.loads(text))

    def as_json(self) -> str:
        """The mapping as JSON text, with its keys in alphabetical order."""
        return orjson.dumps(self._values, option=orjson.OPT_SORT_KEYS).decode()

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self._values.get(key, default)  # quicker than that of the base class

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values!r})"


@cache
def arrow_schema(row_class: type) -> pa.Schema:
    """Return the Arrow schema of `row_class`. Raises TypeError if a type has no Arrow type."""
    return pa.schema([_arrow_field(column.name, column.hint) for column in _columns(row_class)])


@cache
def describe_columns(row_class: type) -> dict[str, str]:
    """Description of each column that has one: the docstring below its field."""
    descriptions: dict[str, str] = {}
    for documented in _documented(row_class):
        descriptions |= field_docstrings(documented)
    return {
        column.name: descriptions[column.name]
        for column in _columns(row_class)
        if column.name in descriptions
    }


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
    return pa.table(values, schema=schema.with_metadata(dict(metadata or {})))


def from_table(table: pa.Table, row_class: type[Row]) -> list[Row]:
    """Return the rows of `table`, ignoring columns that `row_class` does not have.

    A column with a default may be missing, as in older files. Raises KeyError without another one.
    """
    names = frozenset(table.column_names)
    return list(_built(row_class, names, lambda n: table.column(n).to_pylist(), table.num_rows))


def to_values(row: Any) -> dict[str, Any]:
    """Return the columns of one row by name, with enums as text."""
    row_class: type = type(row)
    return {column.name: _plain(column.value(row)) for column in _columns(row_class)}


def from_values(values: Mapping[str, Any], row_class: type[Row]) -> Row:
    """Return the row with these columns. Raises KeyError if one without a default is missing."""
    (row,) = _built(row_class, values.keys(), lambda name: [values[name]], 1)
    return row


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a row class, with the function that returns its value in a row."""

    name: str
    hint: Any
    value: Callable[[Any], Any]


@cache
def _columns(row_class: type) -> tuple[_Column, ...]:
    columns = tuple(
        _Column(path[-1], hint, attrgetter(".".join(path))) for path, hint in _paths(row_class)
    )
    repeated = [name for name, count in Counter(c.name for c in columns).items() if count > 1]
    if repeated:
        raise TypeError(f"{row_class.__name__} has two columns called {repeated[0]}; rename one")
    return columns


def _paths(row_class: type) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path and type of each column. The last name in the path is the name of the column."""
    for field, hint in _typed_fields(row_class):
        if is_dataclass(hint):
            for path, inner in _paths(hint):  # type: ignore[arg-type]
                if path[-1] not in field.metadata.get(NOT_STORED, ()):
                    yield (field.name, *path), inner
        else:
            yield (field.name,), hint


def _documented(row_class: type) -> Iterator[type]:
    """The classes whose fields are columns: nested values, bases and the class itself."""
    for _, hint in _typed_fields(row_class):
        if is_dataclass(hint):
            yield from _documented(hint)  # type: ignore[arg-type]
    yield from (base for base in reversed(row_class.__mro__) if is_dataclass(base))


@cache
def field_docstrings(documented: type) -> dict[str, str]:
    """The docstring below each field in the body of a class."""
    (definition,) = ast.parse(dedent(inspect.getsource(documented))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        statement.target.id: inspect.cleandoc(following.value.value).replace("\n", " ")
        for statement, following in pairwise(definition.body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    }


@cache
def _typed_fields(row_class: type) -> tuple[tuple[Field[Any], Any], ...]:
    hints = get_type_hints(row_class)
    return tuple((field, hints[field.name]) for field in fields(row_class))


def _built(
    row_class: type[Row], names: Iterable[str], read: Callable[[str], list[Any]], count: int
) -> Iterator[Row]:
    """The rows of `row_class`. `read` returns the `count` stored values of a column by name."""
    values: dict[str, Iterable[Any]] = {}
    for field, hint in _typed_fields(row_class):  # type: ignore[arg-type]
        if is_dataclass(hint):
            values[field.name] = _built(hint, names, read, count)  # type: ignore[arg-type]
        elif field.default is MISSING or field.name in names:
            values[field.name] = _restored(read(field.name), hint)
    if not values:
        return iter([row_class() for _ in range(count)])
    return (
        row_class(**dict(zip(values, row, strict=True)))
        for row in zip(*values.values(), strict=True)
    )


def _arrow_field(name: str, hint: Any) -> "pa.Field[Any]":
    hint, optional = _without_none(hint)
    return pa.field(name, _arrow_type(name, hint), nullable=optional)


def _arrow_type(name: str, hint: Any) -> pa.DataType:
    if get_origin(hint) is tuple:
        return pa.list_(_arrow_type(name, get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, StrEnum | JsonMapping):
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
    if isinstance(value, JsonMapping):
        return value.as_json()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _restored(values: list[Any], hint: Any) -> list[Any]:
    """The values of one column, converted to the type of the field. Equal texts share a value."""
    hint, _ = _without_none(hint)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return [None if value is None else tuple(_restored(value, item)) for value in values]
    if hint is str or not issubclass(hint, StrEnum | JsonMapping):
        return values
    convert = hint.from_json if issubclass(hint, JsonMapping) else hint
    converted = {text: convert(text) for text in set(values) - {None}}
    return list(map(converted.get, values))
