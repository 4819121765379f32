"""Rows as a table: aligned and colored on a terminal, tab-separated lines elsewhere."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from videomme_pipeline.reports.terminal.console import printable

Row = Mapping[str, Any]

_NUMBER = re.compile(r"|(≥ )?[+-]?[\d.,]+%?((–| to )[+-]?[\d.,]+)?")
"""A cell that is right-aligned: nothing, a number, a percentage or an interval."""


def show_rows(console: Console, rows: Sequence[Row], titles: Mapping[str, str] = {}) -> None:
    """Print `rows`, one column per key of the first row.

    A column has its title in `titles`, or else its key as title. Without a terminal: one line with
    the keys and one line per row, tab-separated, not shortened.
    """
    if not rows:
        return
    columns = list(rows[0])
    if not console.is_terminal:
        # `console.print` would replace the tabs with spaces.
        cells = [[_text(row.get(name)) for name in columns] for row in rows]
        for line in ([printable(name) for name in columns], *cells):
            console.file.write("\t".join(map(_on_one_line, line)) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = all(_NUMBER.fullmatch(_text(row.get(name))) for row in rows)
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(titles.get(name, name), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(escape(_text(row.get(name))) for name in columns))
    console.print(table)


def show_line(console: Console, text: str, label: str = "", style: str = "") -> None:
    """Print `label`, in `style`, and `text` on one line that is not wrapped."""
    start = f"[{style}]{label}[/] " if label else ""
    console.print(start + escape(text), highlight=False, soft_wrap=True)


def percent(share: float | None) -> str:
    """A share from 0 to 1 as "52.8%", or nothing for None."""
    return "" if share is None else f"{100 * share:.1f}%"


def at_least(failed: int, score: str) -> str:
    """`score`, with "≥" if questions failed: they count as wrong. "" and "–" have no bound."""
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
