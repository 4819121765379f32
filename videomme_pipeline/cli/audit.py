"""The command `audit`: facts about runs that anyone who cites a score should know."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from videomme_pipeline.cli.arguments import (
    Annotations,
    AsJson,
    BenchmarkName,
    Columns,
    Output,
    Track,
    check_output,
    evaluation_argument,
    known_name,
    renamed_columns,
)
from videomme_pipeline.cli.context import announce, note, out, own_store, print_json
from videomme_pipeline.cli.stored_scores import (
    audited_run,
    benchmark_of,
    file_options,
    names_files,
    open_findings,
)
from videomme_pipeline.errors import VideoMMEError

if TYPE_CHECKING:
    from videomme_pipeline.scoring.audit.findings import Finding

commands = typer.Typer()


@commands.command(epilog="Example: videomme audit results.json")
def audit(
    runs: Annotated[
        list[str], evaluation_argument("RUN", "Results files or folders, or evaluations.")
    ],
    benchmark: BenchmarkName = None,
    blind: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A run of the same model without frames."),
    ] = None,
    track: Track = "unknown",
    annotations: Annotations = None,
    columns: Columns = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Check results files, or evaluations, for what makes a score wrong.

    Prints one line per finding: severity, id, fact, and how often chance gives
    it. What a file does not contain cannot be checked, and a note says so. The
    output is also written as an HTML page if you name one. Exits with status 1 if a
    finding is an error.
    """
    announce("Checking…")
    from videomme_pipeline.reports.audit import audit_page, show_findings
    from videomme_pipeline.reports.published import published_cells
    from videomme_pipeline.scoring.audit.findings import Audit, Finding, Severity
    from videomme_pipeline.scoring.scored_question import TRACKS, UNKNOWN_TRACK

    check_output(output)
    store = own_store()
    options = file_options(
        store,
        benchmark or benchmark_of(store, runs),
        "careful",
        annotations,
        track=known_name([*TRACKS, UNKNOWN_TRACK], track, "track"),
        columns=renamed_columns(columns),
    )
    audited, findings = [], list[Finding]()
    for name in runs:
        try:
            audited.append(audited_run(name, store, options))
        except VideoMMEError as error:
            if name == runs[-1] and not audited:
                raise
            fact = str(error).removeprefix(f"{name}: ")
            findings.append(
                Finding(severity=Severity.ERROR, fact=fact, finding="unreadable", run=name)
            )
    audit_of_all = Audit(
        runs=audited,
        blind=audited_run(blind, store, options) if blind else None,
        published=published_cells(audited[0].benchmark.name),
    )
    findings += audit_of_all.findings()
    if store:
        stored = open_findings(store, [name for name in runs if not names_files(name, store)])
        findings += [f for row in stored if (f := _of_citation(row)) is not None]
    findings.sort(key=lambda row: (runs.index(row.run), list(Severity).index(row.severity)))
    if output is not None:
        output.write_text(audit_page(findings), encoding="utf-8")
        note(f"Wrote {output}")
    if as_json:
        print_json({"runs": runs, "findings": findings})
    else:
        show_findings(out, findings)
    if any(row.severity is Severity.ERROR for row in findings):
        raise typer.Exit(1)


_ALSO_FINDINGS = ("answers", "letters", "sameness")
"""Citation checks whose facts are findings of every run."""


def _of_citation(row: dict[str, Any]) -> "Finding | None":
    """A citation finding about an evaluation, which only stored data can show."""
    from videomme_pipeline.scoring.audit.findings import Finding, Severity

    if row["check_name"] in _ALSO_FINDINGS:
        return None
    severities = {"blocked": Severity.ERROR, "warning": Severity.WARNING}
    return Finding(
        severity=severities.get(row["status"], Severity.NOTE),
        fact=f"{row['summary']}; {row['advice']}",
        finding=row["check_name"],
        run=row["evaluation"],
    )
