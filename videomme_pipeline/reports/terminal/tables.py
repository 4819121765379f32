"""Rows as a table: aligned and colored on a terminal, tab-separated lines elsewhere."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

from videomme_pipeline.errors import one_line

Row = Mapping[str, Any]

_NUMBER = re.compile(r"|(≥ )?[+-]?[\d.,]+%?((–| to )[+-]?[\d.,]+)?")
"""A cell that is right-aligned: nothing, a number, a percentage or an interval."""
_MIN_TEXT_WIDTH = 14
"""Texts are not wrapped to fewer characters, because numbers with units are read as a whole."""
_ENDLESS = 100_000


def show_rows(console: Console, rows: Sequence[Row], titles: Mapping[str, str] = {}) -> None:
    """Print `rows`, one column per key of the first row, with its title in `titles` if it has one.

    On a terminal that is too narrow, values that all rows share are printed once, below the table,
    texts are wrapped at spaces, and the columns that still do not fit follow in further tables that
    name the rows again. Without a terminal: tab-separated lines, with the keys in the first one.
    """
    if not rows:
        return
    columns = {name: [_text(row.get(name)) for row in rows] for name in rows[0]}
    if not console.is_terminal:
        # `console.print` would replace the tabs with spaces.
        for line in (map(one_line, columns), *zip(*columns.values(), strict=True)):
            console.file.write("\t".join(line) + "\n")
        return
    shown = {titles.get(name, name): cells for name, cells in columns.items() if any(cells)}
    shared: dict[str, list[str]] = {}
    if len(rows) > 1 and _width(console, shown).maximum > console.width:
        shared = {title: cells for title, cells in shown.items() if len(set(cells)) == 1}
        shown = {title: cells for title, cells in shown.items() if title not in shared}
    named = [title for title, cells in shown.items() if len(set(cells)) == len(rows)]
    block: dict[str, list[str]] = {}
    for title, cells in shown.items():
        if len(block) > 1 and _width(console, {**block, title: cells}).minimum > console.width:
            console.print(_table(console, block))
            block = {key: shown[key] for key in [*named, *shown][:1]}
        block[title] = cells
    console.print(_table(console, block))
    if shared:
        values = ", ".join(f"{title} {cells[0]}" for title, cells in shared.items())
        show_line(console, f"In all rows: {values}")


def _table(console: Console, columns: Mapping[str, Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, cells in columns.items():
        # Without a least width, rich breaks words before it wraps other columns.
        size = measure_renderables(console, console.options, [*map(Text, (title, *cells))])
        table.add_column(
            escape(title),
            justify="right" if all(map(_NUMBER.fullmatch, cells)) else "left",
            overflow="fold",
            min_width=max(size.minimum, min(size.maximum, _MIN_TEXT_WIDTH)),
        )
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(escape, row))
    return table


def _width(console: Console, columns: Mapping[str, Sequence[str]]) -> Measurement:
    """The width of a table on an endless line, and with the longest word of each text on a line."""
    options = console.options.update(width=_ENDLESS)
    return Measurement.get(console, options, _table(console, columns))


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


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else one_line(str(value))
