"""Rows: every value is restored from a table."""

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videomme_pipeline.rows import (
    NOT_STORED,
    JsonMapping,
    arrow_schema,
    describe_columns,
    from_table,
    from_values,
    to_table,
    to_values,
)


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    count: int
    share: float
    seen: bool
    picture: bytes
    color: Color
    at: datetime
    note: str | None
    colors: tuple[Color, ...]
    times: tuple[float, ...] | None


rows = st.builds(
    Row,
    name=st.text(st.characters(exclude_categories=["Cs"])),
    count=st.integers(-(2**63), 2**63 - 1),
    share=st.floats(allow_nan=False),
    seen=st.booleans(),
    picture=st.binary(),
    color=st.sampled_from(Color),
    at=st.datetimes(
        min_value=datetime(1700, 1, 1),
        max_value=datetime(2200, 1, 1),
        timezones=st.just(UTC),
    ),
    note=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    colors=st.lists(st.sampled_from(Color), max_size=3).map(tuple),
    times=st.none() | st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
)


@given(st.lists(rows, max_size=5))
def test_rows_are_restored_from_a_table(given_rows: list[Row]) -> None:
    assert from_table(to_table(given_rows, Row), Row) == given_rows


def test_a_column_is_nullable_exactly_when_its_type_allows_none() -> None:
    schema = arrow_schema(Row)
    assert [field.name for field in schema if field.nullable] == ["note", "times"]


def test_a_type_without_an_arrow_type_is_rejected_by_name() -> None:
    @dataclass(frozen=True)
    class Odd:
        thing: complex

    with pytest.raises(TypeError, match="column thing"):
        arrow_schema(Odd)


def test_a_missing_column_is_an_error_not_a_default() -> None:
    with pytest.raises(KeyError):
        from_table(pa.table({"name": ["x"]}), Row)


def test_a_file_older_than_a_column_has_its_default() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Grown:
        name: str
        added: str | None = None

    assert from_table(pa.table({"name": ["x"]}), Grown) == [Grown(name="x")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    width: int
    height: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    name: str
    size: Size
    color: Color | None = None


PICTURES = [
    Picture(name="a", size=Size(width=1, height=2), color=Color.RED),
    Picture(name="b", size=Size(width=3)),
]


def test_a_nested_value_has_one_column_per_field_in_its_place() -> None:
    table = to_table(PICTURES, Picture)
    assert table.column_names == ["name", "width", "height", "color"]
    assert [column.nullable for column in table.schema] == [False, False, True, True]
    assert from_table(table, Picture) == PICTURES


def test_columns_of_a_nested_value_may_be_missing_if_they_have_defaults() -> None:
    assert from_table(pa.table({"name": ["b"], "width": [3]}), Picture) == PICTURES[1:]
    with pytest.raises(KeyError, match="width"):
        from_table(pa.table({"name": ["b"]}), Picture)


def test_a_nested_value_without_any_column_is_its_default() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Shape:
        height: int | None = None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Wall:
        name: str
        shape: Shape = Shape()

    assert from_table(pa.table({"name": ["x", "y"]}), Wall) == [Wall(name="x"), Wall(name="y")]


def test_a_table_leaves_out_the_columns_marked_as_not_stored() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Plank:
        name: str
        size: Size = field(metadata={NOT_STORED: ("height",)})

    plank = Plank(name="a", size=Size(width=1, height=2))
    assert to_values(plank) == {"name": "a", "width": 1}
    assert from_table(to_table([plank], Plank), Plank) == [Plank(name="a", size=Size(width=1))]


@pytest.mark.parametrize("picture", PICTURES)
def test_a_row_is_restored_from_the_values_of_its_columns(picture: Picture) -> None:
    assert from_values(to_values(picture), Picture) == picture
    assert [*to_values(picture)] == arrow_schema(Picture).names


def test_a_json_mapping_is_one_column_of_json_text() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Labelled:
        name: str
        labels: JsonMapping

    first = Labelled(name="a", labels=JsonMapping({"size": 3, "color": "red", "shape": None}))
    second = Labelled(name="b", labels=JsonMapping())
    table = to_table([first, second], Labelled)
    assert table.column("labels").to_pylist() == ['{"color":"red","size":3}', "{}"]
    assert from_table(table, Labelled) == [first, second]
    assert from_values(to_values(first), Labelled) == first


@dataclass(frozen=True)
class Counted:
    """A nested value."""

    tokens: int
    """Tokens of the prompt,
    cached ones included."""


@dataclass(frozen=True)
class Keyed:
    """A base class. Its docstring describes no column, not even `key`."""

    key: str
    """Unique key."""
    undocumented: str


@dataclass(frozen=True)
class Described(Keyed):
    """A row."""

    counted: Counted
    """Counts."""
    name: str
    """Name of the row."""


def test_a_column_is_described_by_the_docstring_of_its_field() -> None:
    assert describe_columns(Described) == {
        "key": "Unique key.",
        "tokens": "Tokens of the prompt, cached ones included.",
        "name": "Name of the row.",
    }


def test_tables_load_pandas_only_for_those_who_use_it() -> None:
    program = (
        "import sys\n"
        "import numpy as np, pyarrow as pa\n"
        "import videomme_pipeline.rows\n"
        "assert pa.table({'x': np.arange(3), 'y': [1, 2, None]}).num_rows == 3\n"
        "assert 'pandas' not in sys.modules\n"
        "frame = pa.table({'x': [1, None]}).to_pandas()\n"
        "assert pa.array(frame.x).null_count == 1\n"
        "assert pa.Table.from_pandas(frame).to_pylist() == [{'x': 1.0}, {'x': None}]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
