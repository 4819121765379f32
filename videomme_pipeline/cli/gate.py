"""The command `gate`: whether a candidate is as good as a baseline, for CI."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import (
    AllowUndecided,
    Annotations,
    AsJson,
    BenchmarkName,
    Columns,
    ColumnsOfSecond,
    FailIfVerdict,
    FileReader,
    JUnitFile,
    Margin,
    MaxFailed,
    choice,
    evaluation_argument,
    renamed_columns,
)
from videomme_pipeline.cli.context import announce, err, note, own_store, print_json, write
from videomme_pipeline.cli.stored_scores import (
    benchmark_of,
    file_options,
    names_files,
    note_same_answers,
    rows_and_settings,
)
from videomme_pipeline.errors import ConfigurationError, VideoMMEError, printable

if TYPE_CHECKING:
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.scoring.statistics.gate import FailIf, Gate
    from videomme_pipeline.storage.layout import Store

commands = typer.Typer()

FAILED, WRONG_USAGE, UNDECIDED, NOT_EVALUATED = 1, 2, 3, 4
"""Exit status of a gate that did not pass."""


@commands.command(epilog="Example: videomme gate main.json candidate.json --margin 2")
def gate(
    baseline: Annotated[
        str, evaluation_argument("BASELINE", "An evaluation, or a results file or folder.")
    ],
    candidate: Annotated[
        str, evaluation_argument("CANDIDATE", "Another one of the same benchmark.")
    ],
    baseline_run: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Another run of the baseline, for the mean of all. Repeatable.",
        ),
    ] = None,
    margin: Margin = 2.0,
    fail_if: FailIfVerdict = "worse",
    allow_undecided: AllowUndecided = False,
    facet: Annotated[
        list[str] | None,
        typer.Option(help="Fail if a value of this facet is worse, too. Repeatable."),
    ] = None,
    max_failed: MaxFailed = 0.1,
    common: Annotated[
        bool,
        typer.Option("--common", help="Compare only the questions that all files have."),
    ] = False,
    junit: JUnitFile = None,
    benchmark: BenchmarkName = None,
    reader: FileReader = "careful",
    annotations: Annotations = None,
    columns: Columns = None,
    columns_b: ColumnsOfSecond = None,
    as_json: AsJson = False,
) -> None:
    """Decide if a candidate is as good as a baseline.

    The verdict is better, worse, equivalent (within the margin) or undecided. A
    question that one of two files lacks has no answer. Exits with 0 if the gate
    passes, 1 if it fails, 2 after wrong usage, 3 if undecided, and 4 if the two
    cannot be compared. In GitHub Actions, it writes the summary, the outputs and
    an annotation of the step.
    """
    announce("Comparing…")
    from videomme_pipeline.scoring.statistics.gate import FailIf, decide
    from videomme_pipeline.scoring.statistics.power import as_repeats

    try:
        rule = choice(FailIf, fail_if, "rule for --fail-if")
        store = own_store()
        names = renamed_columns(columns)
        benchmark = benchmark or benchmark_of(store, [baseline, candidate])
        both = [
            file_options(store, benchmark, reader, annotations, columns=chosen)
            for chosen in (names, names | renamed_columns(columns_b))
        ]
        names_a = [baseline, *(baseline_run or ())]
        runs = [rows_and_settings(name, store, both[0])[0] for name in names_a]
        others, _ = rows_and_settings(candidate, store, both[1])
        sides = [*zip(names_a, runs, strict=True), (candidate, others)]
        decision = replace(
            decide(
                as_repeats(runs),
                others,
                margin=margin,
                facets=facet or [],
                asked=_asked(sides, store, common=common),
                max_failed=max_failed,
            ),
            baseline=baseline,
            candidate=candidate,
        )
    except VideoMMEError as error:
        raise not_evaluated(error, baseline, candidate, junit) from error
    if any(names_files(name, store) for name, _ in sides):
        note_same_answers((baseline, candidate), (runs[0], others))
    details: dict[str, object] | None = {} if as_json else None
    raise report("Gate", decision, rule, junit, details, allow_undecided=allow_undecided)


def _asked(
    sides: "Sequence[tuple[str, Sequence[ScoredQuestion]]]", store: "Store | None", *, common: bool
) -> set[str]:
    """The questions that every run was to answer, with the runs given by name and rows.

    An evaluation was to answer the questions that it selects. A results file does not say what was
    asked, so it was to answer all questions of the other runs, or those in `common`.
    """
    ids = [{row.question_id for row in rows} for _, rows in sides]
    selected = [
        own for (name, _), own in zip(sides, ids, strict=True) if not names_files(name, store)
    ]
    limits = ids if common else selected
    return set.intersection(*limits) if limits else set.union(*ids)


def not_evaluated(
    error: VideoMMEError, baseline: str, candidate: str, junit: Path | None
) -> typer.Exit:
    """Print the error, and write the files of CI unless the usage was wrong."""
    from videomme_pipeline.reports.gate import junit_error
    from videomme_pipeline.reports.markdown import in_markdown

    note(f"Error: {error}")
    if isinstance(error, ConfigurationError):
        return typer.Exit(WRONG_USAGE)
    _write_for_ci(junit, "--junit", junit_error(baseline, candidate, str(error)))
    summary = f"Not evaluated: {in_markdown(str(error))}\n"
    _report_to_github({"verdict": "not evaluated"}, summary, str(error))
    return typer.Exit(NOT_EVALUATED)


def report(
    title: str,
    decision: "Gate",
    rule: "FailIf",
    junit: Path | None,
    json_details: Mapping[str, object] | None,
    *,
    allow_undecided: bool,
) -> typer.Exit:
    """Print the decision, as JSON if there are `json_details`, and write the files of CI."""
    from videomme_pipeline.reports.gate import junit as as_junit
    from videomme_pipeline.reports.gate import markdown, sentence, summary

    is_undecided = decision.verdict == "undecided" and not allow_undecided
    status = FAILED if decision.fails(rule) else UNDECIDED if is_undecided else 0
    outcome = {0: "passed", FAILED: "failed", UNDECIDED: "undecided"}[status]
    if json_details is not None:
        verdict = {"verdict": decision.verdict, "outcome": outcome}
        print_json({**asdict(decision), **verdict, **json_details})
    else:
        lines = [f"{title} {outcome}", *map(sentence, decision.checks), summary(decision)]
        write("\n".join(lines) + "\n")
    _write_for_ci(junit, "--junit", as_junit(decision))
    headline = decision.checks[0]
    outputs = {
        "verdict": decision.verdict.value,
        "outcome": outcome,
        "difference": f"{headline.difference:.2f}",
        "low": "" if headline.low is None else f"{headline.low:.2f}",
        "high": "" if headline.high is None else f"{headline.high:.2f}",
        "p_value": f"{headline.p_value:.3g}",
    }
    failing = "; ".join(sentence(check) for check in decision.checks) if status else None
    _report_to_github(outputs, markdown(decision, outcome), failing)
    return typer.Exit(status)


def _write_for_ci(path: Path | None, name: str, text: str, mode: str = "w") -> None:
    """Write the file that an option or variable called `name` chose, or end the command."""
    if path is None:
        return
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        note(f"Error: cannot write {name} {path} ({error.strerror}); choose another path")
        raise typer.Exit(WRONG_USAGE) from error


def _report_to_github(outputs: Mapping[str, str], summary: str, problem: str | None) -> None:
    """Append to the files of GitHub Actions, if there are any, and annotate the step."""
    files = {
        "GITHUB_STEP_SUMMARY": summary,
        "GITHUB_OUTPUT": "".join(f"{key}={value}\n" for key, value in outputs.items()),
    }
    for variable, text in files.items():
        if path := os.environ.get(variable):
            _write_for_ci(Path(path), variable, text, "a")
    if problem is not None and os.environ.get("GITHUB_ACTIONS"):
        escaped = printable(problem).replace("%", "%25").replace("\n", "%0A")
        err.file.write(f"::error title=videomme gate::{escaped}\n")
