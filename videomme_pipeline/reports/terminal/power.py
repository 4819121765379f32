"""Output of `videomme power`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from videomme_pipeline.reports.terminal.tables import percent, show_rows

if TYPE_CHECKING:
    from videomme_pipeline.scoring.statistics.power import PowerAnalysis

COLUMNS = {
    "videos": "videos",
    "questions": "questions",
    "discordance": "discordance",
    "correlation": "correlation",
    "alpha": "level",
    "power": "power",
    "effect": "detectable difference (points)",
}


def show_power(console: Console, analyses: Sequence["PowerAnalysis"]) -> None:
    """Print one row per analysis; the last column has points of accuracy."""
    rows = [
        {
            "videos": f"{one.videos:,}",
            "questions": f"{one.questions:,}",
            "discordance": percent(one.discordance),
            "correlation": f"{one.correlation:.2f}",
            "alpha": percent(one.alpha),
            "power": percent(one.power),
            "effect": f"{100 * one.effect:.1f}",
        }
        for one in analyses
    ]
    show_rows(console, rows, COLUMNS)
