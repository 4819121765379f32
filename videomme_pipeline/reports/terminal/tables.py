"""Rows as a table: aligned and colored on a terminal, tab-separated lines elsewhere."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from videomme_pipeline.reports.terminal.console import printable

Row = Mapping[str, Any]

_NUMBER = re.compile(r"|(≥ )?[+-]?[\d.,]+%?((–| to )[+-]?[\d.,]+)?")
"""A cell that is right-aligned: nothing, a number, a percentage or an interval."""
_MIN_TEXT_WIDTH = 14
"""Texts are not wrapped to fewer characters, because numbers with units and short names are read as
a whole."""


def show_rows(console: Console, rows: Sequence[Row], titles: Mapping[str, str] = {}) -> None:
    """Print `rows`, one column per key of the first row.

    A column has its title in `titles`, or else its key as title. On a terminal that is too narrow,
    values that all rows share are printed once, below the table, texts are wrapped at spaces, and
    the columns that still do not fit follow in further tables that name the rows again. Without a
    terminal: one line with the keys and one line per row, tab-separated, not shortened.
    """
    if not rows:
        return
    names = list(rows[0])
    columns = [[_text(row.get(name)) for row in rows] for name in names]
    if not console.is_terminal:
        # `console.print` would replace the tabs with spaces.
        for line in ([printable(name) for name in names], *zip(*columns, strict=True)):
            console.file.write("\t".join(map(_on_one_line, line)) + "\n")
        return
    shown = [
        _Column(titles.get(name, name), cells)
        for name, cells in zip(names, columns, strict=True)
        if any(cells)
    ]
    shared: list[_Column] = []
    if len(rows) > 1 and _width(shown, _Column.full_width) > console.width:
        shared = [column for column in shown if len(set(column.cells)) == 1]
        shown = [column for column in shown if column not in shared]
    for block in _blocks(shown, console.width):
        _print_table(console, block)
    if shared:
        values = ", ".join(f"{column.title} {column.cells[0]}" for column in shared)
        show_line(console, f"In all rows: {values}")


@dataclass(frozen=True, slots=True)
class _Column:
    """The title and the texts of one column on a terminal."""

    title: str
    cells: Sequence[str]

    def full_width(self) -> int:
        """The width of the longest line."""
        return max(cell_len(line) for text in self._texts() for line in text.split("\n"))

    def least_width(self) -> int:
        """The width to which texts can be wrapped: the longest word, and no narrow column."""
        words = [word for text in self._texts() for word in text.split()]
        longest = max(map(cell_len, words), default=0)
        return max(longest, min(self.full_width(), _MIN_TEXT_WIDTH))

    def is_numeric(self) -> bool:
        return all(map(_NUMBER.fullmatch, self.cells))

    def _texts(self) -> Sequence[str]:
        return [self.title, *self.cells]


def _width(columns: Sequence[_Column], width_of: Callable[[_Column], int]) -> int:
    """The width of a table with two spaces between its columns."""
    return sum(map(width_of, columns)) + 2 * (len(columns) - 1)


def _blocks(columns: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
    """Yield the columns in tables that fit into `width`.

    Further tables begin with the first column that names the rows: all values of it differ.
    """
    named = [column for column in columns if len(set(column.cells)) == len(column.cells)]
    block: list[_Column] = []
    for column in columns:
        if len(block) > 1 and _width([*block, column], _Column.least_width) > width:
            yield block
            block = [*named, *columns][:1]
        block.append(column)
    yield block


def _print_table(console: Console, columns: Sequence[_Column]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        justify: JustifyMethod = "right" if column.is_numeric() else "left"
        least = min(column.least_width(), console.width)
        table.add_column(escape(column.title), justify=justify, overflow="fold", min_width=least)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(escape, cells))
    console.print(table)


def show_line(console: Console, text: str, label: str = "", style: str = "") -> None:
    """Print `label`, in `style`, and `text` as one paragraph."""
    start = f"[{style}]{label}[/] " if label else ""
    console.print(start + escape(text), highlight=False, soft_wrap=True)


def percent(share: float | None) -> str:
    """A share from 0 to 1 as "52.8%", or nothing for None."""
    return "" if share is None else f"{100 * share:.1f}%"


def at_least(failed: int, score: str) -> str:
    """`score` after a "≥" if questions failed, because they count as wrong. "" and "–" stay."""
    return f"≥ {score}" if failed and score.strip("–") else score


def interval(low: float | None, high: float | None) -> str:
    """Two shares as percentages, "41.2–64.4", or nothing if one is None."""
    return "" if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def _on_one_line(cell: str) -> str:
    return cell.replace("\t", "\\t").replace("\n", "\\n")


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else printable(str(value))
