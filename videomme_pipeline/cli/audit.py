"""The command `audit`: facts about runs that anyone who cites a score should know."""

from typing import Annotated

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
from videomme_pipeline.cli.stored_scores import audited_run, benchmark_of, file_options
from videomme_pipeline.errors import VideoMMEError

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

    Prints one line per finding: status, check, fact, and how often chance gives
    it. What a file does not contain cannot be checked, and a finding says so. The
    output is also written as an HTML page if you name one. Exits with status 1 if a
    finding is an error.
    """
    announce("Checking…")
    from videomme_pipeline.errors import Finding, Status
    from videomme_pipeline.reports.findings import WORST_FIRST, audit_page, show_audit
    from videomme_pipeline.scoring.findings.checks import audit as findings_of
    from videomme_pipeline.scoring.findings.run import Runs
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
            summary = str(error).removeprefix(f"{name}: ")
            findings.append(Finding(Status.ERROR, summary, check="unreadable", run=name))
    all_runs = Runs(
        runs=audited,
        blind=audited_run(blind, store, options) if blind else None,
    )
    findings += [row for row in findings_of(all_runs) if row.status is not Status.OK]
    findings.sort(key=lambda row: (runs.index(row.run), WORST_FIRST.index(row.status)))
    if output is not None:
        output.write_text(audit_page(findings), encoding="utf-8")
        note(f"Wrote {output}")
    if as_json:
        print_json({"runs": runs, "findings": findings})
    else:
        show_audit(out, findings)
    if any(row.status is Status.ERROR for row in findings):
        raise typer.Exit(1)
