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
        chance = f"; by chance: {_chance(row)}" if row.chance is not None else ""
        text = f"{row.finding}  {row.run}: {row.fact}{chance}"
        show_line(console, text, f"{row.severity:7}", _STYLES[row.severity])
    show_line(console, summary(findings))


def audit_page(findings: Sequence[Finding]) -> str:
    """The HTML document with one table per run. It has no text of a question or a response."""
    runs = []
    for name in dict.fromkeys(row.run for row in findings):
        of_run = [row for row in findings if row.run == name]
        rows = [
            {"severity": f.severity, "finding": f.finding, "fact": f.fact, "chance": _chance(f)}
            for f in of_run
        ]
        runs.append({"name": name, "summary": summary(of_run), "findings": rows})
    return render_static("audit.html", runs=runs, summary=summary(findings))


def summary(findings: Sequence[Finding]) -> str:
    """The numbers of findings: "1 error, 0 warnings, 3 notes"."""
    counts = Counter(row.severity for row in findings)
    return ", ".join(
        f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in Severity
    )


def _chance(row: Finding) -> str:
    """The probability that chance gives the fact, "" if chance has no part in it."""
    if row.chance is None:
        return ""
    return f"p {row.chance:.2g}" if row.chance >= 1e-12 else "p < 1e-12"
