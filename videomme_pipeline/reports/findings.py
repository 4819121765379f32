"""Findings as lines on a terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console

from videomme_pipeline.errors import Finding, Status
from videomme_pipeline.reports.terminal.tables import Row, show_line
from videomme_pipeline.scoring.statistics.estimates import p_value_text

_STYLES = {
    Status.ERROR: "bold red",
    Status.WARNING: "yellow",
    Status.NOTE: "dim",
    Status.UNKNOWN: "dim",
    Status.OK: "green",
}
WORST_FIRST = tuple(_STYLES)
_CITATION = {
    "blocked": ("Do not cite", "bold red"),
    "warning": ("Warning", "yellow"),
    "unknown": ("Not known", "dim"),
}


def show_findings(console: Console, findings: Iterable[Finding]) -> None:
    """Print one line per finding: status, check, run, summary, probability and advice."""
    for row in findings:
        chance = "" if row.chance is None else f"by chance: p {p_value_text(row.chance)}"
        subject = f"{row.check}  {row.run}" if row.run else row.check
        text = "; ".join(filter(None, [f"{subject}: {row.summary}", chance, row.advice]))
        show_line(console, text, f"{row.status:7}", _STYLES[row.status])


def show_audit(console: Console, findings: Sequence[Finding]) -> None:
    """Print the findings and their numbers: "1 error, 0 warnings, 3 notes, 2 unknown"."""
    show_findings(console, findings)
    counts = Counter(row.status for row in findings)
    numbers = (
        f"{counts[status]} {status}{'s' * (counts[status] != 1 and status is not Status.UNKNOWN)}"
        for status in WORST_FIRST[:-1]
    )
    show_line(console, ", ".join(numbers))


def show_citation(console: Console, findings: Iterable[Row]) -> None:
    """Print rows of `citation_findings` that are not ok, one line each."""
    for row in findings:
        check = row["check_name"].replace("_", " ")
        text = f"{row['evaluation']} ({check}): {row['summary']}. What to do: {row['advice']}."
        show_line(console, text, *_CITATION[row["status"]])
