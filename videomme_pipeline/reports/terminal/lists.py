"""Tables of `videomme scores`, `power` and `cache ls`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import filesize
from rich.console import Console

from videomme_pipeline.reports.across import SETTINGS
from videomme_pipeline.reports.terminal.tables import Row, at_least, percent, show_rows

if TYPE_CHECKING:
    from videomme_pipeline.scoring.statistics.power import PowerAnalysis

_POWER_TITLES = {"alpha": "level", "effect": "detectable difference (points)"}


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


def show_power(console: Console, analyses: Sequence["PowerAnalysis"]) -> None:
    """Print one row per analysis; the last column has points of accuracy."""
    rows = [
        {
            "videos": f"{analysis.videos:,}",
            "questions": f"{analysis.questions:,}",
            "discordance": percent(analysis.discordance),
            "correlation": f"{analysis.correlation:.2f}",
            "alpha": percent(analysis.alpha),
            "power": percent(analysis.power),
            "effect": f"{100 * analysis.effect:.1f}",
        }
        for analysis in analyses
    ]
    show_rows(console, rows, _POWER_TITLES)


def show_shelves(console: Console, shelves: Sequence[Row]) -> None:
    """Print the stored files of each kind and name, and a last row with the totals."""
    rows = [
        {
            "kind": shelf["kind"],
            "name": shelf["name"],
            "videos": shelf["videos"] or "",
            "files": shelf["files"],
            "size": filesize.decimal(shelf["bytes"]),
            "used_by": ", ".join(shelf["named_by"]) or ("samplings.yaml" * shelf["offered"]),
        }
        for shelf in shelves
    ]
    files, size = (sum(shelf[column] for shelf in shelves) for column in ("files", "bytes"))
    total = {"kind": "all", "files": files, "size": filesize.decimal(size)}
    show_rows(console, [*rows, total], {"used_by": "used by"})
