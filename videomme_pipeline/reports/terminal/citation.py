"""Output of the open citation findings."""

from collections.abc import Iterable

from rich.console import Console

from videomme_pipeline.reports.terminal.tables import Row, show_line
from videomme_pipeline.scoring.audit.citation_checks import Status

_LABELS = {
    Status.BLOCKED: ("Do not cite", "bold red"),
    Status.WARNING: ("Warning", "yellow"),
    Status.UNKNOWN: ("Not known", "dim"),
}


def show_findings(console: Console, findings: Iterable[Row]) -> None:
    """Print rows of `citation_findings` that are not ok, one line each."""
    for row in findings:
        check = row["check_name"].replace("_", " ")
        text = f"{row['evaluation']} ({check}): {row['summary']}"
        show_line(console, f"{text}. What to do: {row['advice']}.", *_LABELS[Status(row["status"])])
