"""Commands that read and score files: score, compare, audit, read."""

import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import open_project, own_store
from videomme_pipeline.cli.output import announce, note, out, print_json, write
from videomme_pipeline.errors import ConfigurationError, Finding, Status, VideoMMEError

if TYPE_CHECKING:
    from videomme_pipeline.judge.judge import AskJudge
    from videomme_pipeline.scoring.readers.read_answer import ReaderName

commands = typer.Typer()


def _official(name: str, text: str) -> Any:
    """An option of the official script, which `--help` does not list."""
    return typer.Option(name, help=text, hidden=True)


@commands.command(epilog="Example: videomme score results.json --report official")
def score(
    responses: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Results file of the official script, lmms-eval, VLMEvalKit, Inspect, EvalScope "
            "or Every Eval Ever, or a folder or quoted pattern with the files of one run.",
        ),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            help="table, plain (tab-separated), json, markdown or official. Default: table on a "
            "terminal, plain elsewhere."
        ),
    ] = None,
    judge: arguments.JudgeName = None,
    group_rule: Annotated[
        str, typer.Option(help="Video-MME-v2: corrected or official.")
    ] = "corrected",
    benchmark: arguments.BenchmarkName = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="Answer reader. Default: careful, or the official one for the official report.",
            rich_help_panel=arguments.FILES,
        ),
    ] = None,
    annotations: arguments.Annotations = None,
    columns: arguments.Columns = None,
    video_duration_type: Annotated[
        str, _official("--video_duration_type", "Durations to score, comma-separated.")
    ] = "short,medium,long",
    by_domain: Annotated[
        bool, _official("--return_categories_accuracy", "Official report: by domain.")
    ] = False,
    by_sub_category: Annotated[
        bool, _official("--return_sub_categories_accuracy", "Official report: by sub-category.")
    ] = False,
    by_task_type: Annotated[
        bool, _official("--return_task_types_accuracy", "Official report: by task type.")
    ] = False,
    skip_missing: Annotated[
        bool, _official("--skip_missing/--no-skip_missing", "Leave out videos marked missing.")
    ] = False,
    results_file: Annotated[
        Path | None, _official("--results_file", "The same as the argument.")
    ] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Score a results file.

    The options of the official script, such as --results_file and
    --return_task_types_accuracy, work here, too.
    """
    announce("Scoring…")
    from videomme_pipeline.benchmarks.registry import find_benchmark
    from videomme_pipeline.cli.stored_scores import file_options
    from videomme_pipeline.formats.score_file import parse_durations, score_file
    from videomme_pipeline.reports.score_report import ReportKind, render
    from videomme_pipeline.scoring.readers.read_answer import ReaderName
    from videomme_pipeline.scoring.statistics.groups import GroupRule

    if (responses is None) == (results_file is None):
        raise ConfigurationError(
            "name one results file: `videomme score FILE`, or --results_file FILE as for the "
            "official script"
        )
    file = responses or results_file or Path()
    default = "json" if as_json else "table" if out.is_terminal else "plain"
    kind = arguments.choice(ReportKind, report or default, "report")
    is_official = kind is ReportKind.OFFICIAL
    store = own_store()
    benchmark = benchmark or arguments.DEFAULT_BENCHMARK
    official_reader = find_benchmark(benchmark).reader if is_official else ReaderName.CAREFUL
    options = file_options(
        store,
        benchmark,
        annotations,
        columns,
        reader=reader or official_reader,
        judge=judge,
        group_rule=arguments.choice(GroupRule, group_rule, "group rule"),
        durations=parse_durations(video_duration_type),
        skip_missing=skip_missing,
    )
    ask_judge = _judge(judge, options.reader, file.stem) if judge else None
    scored = score_file(file, options, ask_judge)
    flags = {"domain": by_domain, "sub_category": by_sub_category, "task_type": by_task_type}
    facets = [facet for facet, is_set in flags.items() if is_set]
    write(render(scored, kind, facets, width=out.width))
    if is_official:  # the other formats contain the notes
        for message in (*scored.notes, *scored.remarks):
            note(f"Note: {message}")


@commands.command(epilog="Example: videomme compare smoke-embedded smoke-blind")
def compare(
    a: Annotated[
        str, arguments.evaluation_argument("A", "An evaluation, or a results file or folder.")
    ],
    b: Annotated[str, arguments.evaluation_argument("B", "Another one of the same benchmark.")],
    benchmark: arguments.BenchmarkName = None,
    reader: arguments.FileReader = "careful",
    track: arguments.Track = "unknown",
    annotations: arguments.Annotations = None,
    columns: arguments.Columns = None,
    columns_b: arguments.ColumnsOfSecond = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Compare B with A question by question.

    Shows B minus A, whether the difference is significant, and which settings
    differ. Two models in one table: `videomme compare t.csv t.csv --columns
    prediction=GPT-4o --columns-b prediction=Qwen`.
    """
    announce("Comparing…")
    from videomme_pipeline.cli import stored_scores
    from videomme_pipeline.reports.terminal.comparison import show_comparison
    from videomme_pipeline.scoring.scored_question import UNKNOWN_TRACK
    from videomme_pipeline.scoring.statistics.compare import compare as compare_rows

    store = own_store()
    options = stored_scores.file_options(
        store, benchmark, annotations, columns, runs=[a, b], reader=reader, track=track
    )
    of_second = arguments.renamed_columns(columns_b)
    runs = [
        stored_scores.read_run(a, store, options),
        stored_scores.read_run(b, store, options, of_second),
    ]
    evaluations = [run.name for run in runs if not run.is_file]
    if of_second:
        names = ((a, *options.columns.values()), (b, *of_second.values()))
        runs = [replace(r, name=", ".join(n)) for r, n in zip(runs, names, strict=True)]
    of_both = runs[0].settings.keys() | runs[1].settings.keys()
    shared = of_both if len(evaluations) == 2 else {"reader"}
    settings = [{key: run.settings[key] for key in run.settings if key in shared} for run in runs]
    comparison = replace(
        compare_rows(
            *(run.rows for run in runs), specification_a=settings[0], specification_b=settings[1]
        ),
        evaluation_a=runs[0].name,
        evaluation_b=runs[1].name,
    )
    same = stored_scores.note_same_answers(*runs)
    if {run.rows[0].track for run in runs} > {UNKNOWN_TRACK}:
        note(
            "Note: the track of the results file is unknown. State with --track whether the model "
            "had subtitles"
        )
    if as_json:
        findings = stored_scores.open_findings(store, evaluations) if store else []
        print_json(asdict(comparison) | {"citation": findings, "same_answers": same})
    else:
        show_comparison(out, comparison)
        if store:
            stored_scores.print_findings(store, evaluations)


@commands.command(epilog="Example: videomme audit results.json")
def audit(
    runs: Annotated[
        list[str], arguments.evaluation_argument("RUN", "Results files or folders, or evaluations.")
    ],
    benchmark: arguments.BenchmarkName = None,
    blind: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run of the same model without frames.")
    ] = None,
    track: arguments.Track = "unknown",
    annotations: arguments.Annotations = None,
    columns: arguments.Columns = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Check results files, or evaluations, for what makes a score wrong.

    Prints one line per finding: status, check, fact, and how often chance gives
    it. What a file does not contain cannot be checked, and a finding says so. Exits
    with status 1 if a finding is an error.
    """
    announce("Checking…")
    from videomme_pipeline.cli.stored_scores import audited_run, file_options
    from videomme_pipeline.reports.findings import WORST_FIRST, show_audit
    from videomme_pipeline.reports.published import published_cells
    from videomme_pipeline.scoring.findings.checks import audit as findings_of
    from videomme_pipeline.scoring.findings.run import Runs

    store = own_store()
    options = file_options(store, benchmark, annotations, columns, runs=runs, track=track)
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
        published=published_cells(audited[0].benchmark.name),
    )
    findings += [row for row in findings_of(all_runs) if row.status is not Status.OK]
    findings.sort(key=lambda row: (runs.index(row.run), WORST_FIRST.index(row.status)))
    if as_json:
        ids: dict[str, set[str]] = {"incorrect": set(), "unreadable": set(), "failed": set()}
        for row in (row for run in audited for row in run.answers):
            if row.outcome in ids:
                ids[row.outcome].add(row.question_id)
        by_outcome = {outcome: sorted(questions) for outcome, questions in ids.items()}
        print_json({"runs": runs, "findings": findings, **by_outcome})
    else:
        show_audit(out, findings)
    if any(row.status is Status.ERROR for row in findings):
        raise typer.Exit(1)


@commands.command(epilog="Example: videomme read --reader careful --letters ABCD < responses.jsonl")
def read(
    reader: Annotated[
        str, typer.Option(help="Answer reader, for example careful or official_v1.")
    ] = "careful",
    letters: Annotated[
        str, typer.Option(help="Letters of the options, for lines without `options`.")
    ] = "ABCD",
) -> None:
    """Read the chosen letter from responses.

    Standard input is JSON lines with `response`; standard output is the same
    lines with `letter`, `rule` and `span`. The reader careful uses `options` of a
    line if it has them. Exits with status 1 if a line cannot be parsed.
    """
    from videomme_pipeline.benchmarks.question import Letter
    from videomme_pipeline.scoring.readers.read_answer import ReaderName
    from videomme_pipeline.scoring.response_lines import read_lines

    kind = arguments.choice(ReaderName, reader, "reader")
    if set(letters) - set(Letter):
        raise ConfigurationError(f"--letters {letters}: only A to N are letters of options")
    offered = [Letter(letter) for letter in letters]
    failed = False
    for row in read_lines(sys.stdin, kind, offered):
        failed = failed or "error" in row
        write(json.dumps(row, ensure_ascii=False) + "\n")
    if failed:
        raise typer.Exit(1)


def _judge(model: str, reader: "ReaderName", evaluation: str) -> "AskJudge":
    """A function that asks `model` what responses choose, and stores its replies in the journal."""
    from videomme_pipeline.judge.judge import Judge, JudgeSpec, ask_judge
    from videomme_pipeline.project.runs.journal import journal_of
    from videomme_pipeline.scoring.readers.read_answer import ReaderName

    if reader is not ReaderName.CAREFUL:
        raise ConfigurationError(
            f"--judge {model}: a judge reads only what the careful reader cannot, but --reader is "
            f"{reader}; leave out one of the two"
        )
    project = open_project()
    judge = Judge.of(JudgeSpec(model=model), project.configuration.catalog)
    return partial(ask_judge, judge, journal_of(project.store), evaluation)
