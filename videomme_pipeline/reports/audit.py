"""The findings of an audit as lines on a terminal and as a page."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from videomme_pipeline.reports.document import render_static
from videomme_pipeline.reports.terminal.tables import show_line
from videomme_pipeline.scoring.audit.findings import Finding, Severity

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print one line per finding, run by run, and the numbers of findings."""
    for row in findings:
        by_chance = row.by_chance and f"; by chance: {row.by_chance}"
        text = f"{row.finding}  {row.run}: {row.fact}{by_chance}"
        show_line(console, text, f"{row.severity:7}", _STYLES[row.severity])
    show_line(console, _summary(findings))


def audit_page(findings: Sequence[Finding]) -> str:
    """The HTML document with one table per run. It has no text of a question or a response."""
    return render_static("audit.html", findings=findings, summary=_summary(findings))


def _summary(findings: Sequence[Finding]) -> str:
    """The numbers of findings: "1 error, 0 warnings, 3 notes"."""
    counts = Counter(row.severity for row in findings)
    return ", ".join(f"{counts[kind]} {kind}{'s' * (counts[kind] != 1)}" for kind in Severity)
