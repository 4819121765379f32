"""Output of `videomme power`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from videomme_pipeline.reports.terminal.tables import percent, show_rows

if TYPE_CHECKING:
    from videomme_pipeline.scoring.statistics.power import PowerAnalysis

_TITLES = {"alpha": "level", "effect": "detectable difference (points)"}


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
    show_rows(console, rows, _TITLES)
