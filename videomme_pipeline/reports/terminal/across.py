"""The headline scores of several benchmarks side by side, in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from videomme_pipeline.reports.across import SETTINGS
from videomme_pipeline.reports.terminal.tables import at_least, percent, show_rows


def show_across(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of `across_rows`. "n of N" marks a score of only n of N questions."""
    shown = [
        {name: row[name] for name in SETTINGS}
        | {name: _shown(cell) for name, cell in row["scores"].items()}
        | ({"average": percent(row["average"])} if "average" in row else {})
        for row in rows
    ]
    show_rows(console, shown)


def _shown(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    part = f" ({cell['questions']:,} of {cell['benchmark_questions']:,})"
    score = at_least(cell["failed"], percent(cell["score"]))
    return f"{score}{'' if cell['complete'] else part} {cell['evaluation']}"
