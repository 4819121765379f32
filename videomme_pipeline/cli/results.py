"""Commands that read results: score, read, compare, leaderboard, export, report, sql."""

import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import (
    BENCHMARKS,
    AsJson,
    BenchmarkNames,
    EvaluationNames,
    JudgeName,
    choice,
    complete_evaluation,
    known_name,
)
from videomme_pipeline.cli.citation import open_findings, print_findings
from videomme_pipeline.cli.context import note, open_project, out, print_json, write
from videomme_pipeline.cli.scores import rows_and_settings, scores_file, stored_scores
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from videomme_pipeline.formats.score_file import ScoreOptions
    from videomme_pipeline.scoring.readers.judge import AskJudge
    from videomme_pipeline.scoring.readers.read_answer import ReaderName
    from videomme_pipeline.storage.layout import Store

commands = typer.Typer()


@commands.command(epilog="Example: videomme report --share --output results.html")
def report(
    evaluations: EvaluationNames = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File, or folder with --folder.")
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Leave out question text, responses and frames.")
    ] = False,
    folder: Annotated[
        bool,
        typer.Option("--folder", help="Write a folder with images of the frames. Do not share it."),
    ] = False,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Write nothing: serve the page with frames and videos until Ctrl-C.",
        ),
    ] = False,
    port: Annotated[int, typer.Option(help="Port of --serve; 0 chooses a free one.")] = 8700,
) -> None:
    """Write or serve a results page that works offline.

    Without names, the page shows all evaluations.
    """
    from videomme_pipeline.reports.page import write_folder, write_page

    if share and (folder or serve):
        raise ConfigurationError(
            f"--{'folder' if folder else 'serve'} and --share exclude each other: a shared page "
            "has no frames and videos; leave out one of the two"
        )
    if serve and (folder or output):
        raise ConfigurationError(
            f"--serve and --{'folder' if folder else 'output'} exclude each other: --serve writes "
            "no files; leave out one of the two"
        )
    store = open_project().store
    name = "share.html" if share else "pages" if folder else "report.html"
    for evaluation in evaluations or ():
        scores_file(store, evaluation)
    if serve:
        _serve(store, evaluations, port)
        return
    target = output or store.report(name)
    if folder:
        path = write_folder(store, target, evaluations=evaluations or None)
    else:
        path = write_page(store, target, evaluations=evaluations or None, share=share)
    note(f"Wrote {path.resolve()}")


def _serve(store: "Store", evaluations: list[str] | None, port: int) -> None:
    from videomme_pipeline.reports.page import served_page
    from videomme_pipeline.reports.server import PageServer

    with PageServer(store, port) as server:
        note("Collecting the results …")
        server.show(served_page(store, evaluations or None))
        note(f"Open {server.url} (on this machine only). Ctrl-C ends the server.")
        server.serve_forever()


@commands.command(epilog="Example: videomme compare smoke-embedded smoke-blind")
def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="Name of an evaluation, or results file.",
            autocompletion=complete_evaluation,
        ),
    ],
    b: Annotated[
        str,
        typer.Argument(
            metavar="B",
            help="Another one of the same benchmark.",
            autocompletion=complete_evaluation,
        ),
    ],
    benchmark: Annotated[
        str, typer.Option("--benchmark", "-b", help=f"Benchmark of the files: {BENCHMARKS}.")
    ] = "videomme",
    reader: Annotated[str, typer.Option(help="Answer reader for the files.")] = "strict",
    annotations: Annotated[
        Path | None, typer.Option(help="File of the dataset, for results files without options.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare B with A question by question.

    Shows B minus A, whether the difference is significant, and which settings
    differ.
    """
    from videomme_pipeline.benchmarks.registry import find_benchmark
    from videomme_pipeline.formats.score_file import ScoreOptions
    from videomme_pipeline.scoring.readers.read_answer import ReaderName

    options = ScoreOptions(
        benchmark=find_benchmark(benchmark).name,
        reader=choice(ReaderName, reader, "reader"),
        annotations=annotations,
    )
    _show_comparison(a, b, options, as_json=as_json)


def _show_comparison(a: str, b: str, options: "ScoreOptions", *, as_json: bool) -> None:
    """Print B minus A. Both are evaluations or results files, which `options` apply to."""
    from videomme_pipeline.project.project import configuration_folder, is_project
    from videomme_pipeline.reports.terminal.comparison import show_comparison
    from videomme_pipeline.scoring.statistics.compare import compare as compare_rows
    from videomme_pipeline.scoring.statistics.compare import require_one_track

    names = [text for text in (a, b) if not Path(text).is_file()]
    store = open_project().store if names and is_project(configuration_folder()) else None
    (rows_a, settings_a), (rows_b, settings_b) = (
        rows_and_settings(text, store, options) for text in (a, b)
    )
    require_one_track(rows_a, rows_b)
    shared = settings_a.keys() | settings_b.keys() if len(names) == 2 else {"reader"}
    comparison = replace(
        compare_rows(
            rows_a,
            rows_b,
            specification_a={key: settings_a[key] for key in settings_a if key in shared},
            specification_b={key: settings_b[key] for key in settings_b if key in shared},
        ),
        evaluation_a=a,
        evaluation_b=b,
    )
    if as_json:
        findings = open_findings(store, names) if store else []
        print_json(asdict(comparison) | {"citation": findings})
    else:
        show_comparison(out, comparison)
        if store:
            print_findings(store, names)


@commands.command(epilog="Example: videomme leaderboard --benchmark smoke --benchmark smoke_v2")
def leaderboard(
    benchmarks: BenchmarkNames = None,
    average: Annotated[
        bool,
        typer.Option(
            "--average", help="Add the mean over the benchmarks, for rows that have all of them."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the headline scores of several benchmarks side by side.

    A row is a model with its settings, a column a benchmark. A combination that
    was not evaluated is empty. A score of a part of the questions says of how
    many.
    """
    from videomme_pipeline.reports.across import across_rows
    from videomme_pipeline.reports.terminal.across import show_across
    from videomme_pipeline.warehouse.database import connect, query

    with connect(open_project().store) as connection:
        cells = query(connection, "select * from across_benchmarks order by all")
    names = list(dict.fromkeys(cell["benchmark"] for cell in cells))
    for name in benchmarks or ():
        known_name(names, name, "evaluated benchmark")
    rows = across_rows(cells, benchmarks or names, average=average)
    if as_json:
        print_json(rows)
    else:
        show_across(out, rows)


@commands.command(epilog='Example: videomme sql "select * from by_task_type limit 5"')
def sql(
    select: Annotated[str, typer.Argument(metavar="SELECT", help="Any DuckDB query.")],
    allow_files: Annotated[
        bool,
        typer.Option("--allow-files", help="Let the query read and write files, as in read_csv()."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Query the tables and views of the DuckDB file.

    `select view_name from duckdb_views() where not internal` lists the views.
    Any DuckDB client can open the same file, `videomme.duckdb` in the data
    folder.
    """
    import duckdb

    from videomme_pipeline.reports.terminal.tables import show_rows
    from videomme_pipeline.warehouse.database import connect, query

    with connect(open_project().store, allow_files=allow_files) as connection:
        try:
            rows = query(connection, select)
        except duckdb.PermissionException as error:
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(
                f"DuckDB: {reason}; with --allow-files, the query can use other files"
            ) from error
        except duckdb.Error as error:
            raise ConfigurationError(f"DuckDB: {error}") from error
    if as_json:
        print_json(rows)
    else:
        show_rows(out, rows, {name: name for name in (rows[0] if rows else ())})


@commands.command(epilog="Example: videomme score results.json --report official")
def score(
    responses: Annotated[
        Path,
        typer.Argument(
            help="Results file of the official script, lmms-eval, VLMEvalKit, Inspect, EvalScope "
            "or Every Eval Ever."
        ),
    ],
    benchmark: Annotated[
        str,
        typer.Option("--benchmark", "-b", help=f"Benchmark of the file: {BENCHMARKS}."),
    ] = "videomme",
    report: Annotated[
        str | None,
        typer.Option(
            help="table, plain (tab-separated), json, markdown or official. Default: table on a "
            "terminal, plain elsewhere."
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="Answer reader. Default: strict, or the official one for the official report."
        ),
    ] = None,
    judge: JudgeName = None,
    group_rule: Annotated[
        str, typer.Option(help="Video-MME-v2: corrected or official.")
    ] = "corrected",
    video_duration_type: Annotated[
        str,
        typer.Option(
            "--video_duration_type", help="Video-MME: durations to score, comma-separated."
        ),
    ] = "short,medium,long",
    return_categories_accuracy: Annotated[
        bool,
        typer.Option("--return_categories_accuracy", help="Official report: also by domain."),
    ] = False,
    return_sub_categories_accuracy: Annotated[
        bool,
        typer.Option(
            "--return_sub_categories_accuracy", help="Official report: also by sub-category."
        ),
    ] = False,
    return_task_types_accuracy: Annotated[
        bool,
        typer.Option("--return_task_types_accuracy", help="Official report: also by task type."),
    ] = False,
    skip_missing: Annotated[
        bool,
        typer.Option("--skip_missing/--no-skip_missing", help="Leave out videos marked missing."),
    ] = True,
    annotations: Annotated[
        Path | None,
        typer.Option(help="File of the dataset, for a results file without options."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Show the difference to this results file instead of the scores."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score a results file.

    Options with underscores have the same names and meanings as in the official
    script.
    """
    from videomme_pipeline.benchmarks.registry import find_benchmark
    from videomme_pipeline.formats.score_file import ScoreOptions, parse_durations, score_file
    from videomme_pipeline.reports.score_report import ReportKind, render
    from videomme_pipeline.scoring.readers.read_answer import ReaderName
    from videomme_pipeline.scoring.statistics.groups import GroupRule

    default = "json" if as_json else "table" if out.is_terminal else "plain"
    kind = choice(ReportKind, report or default, "report")
    declared = find_benchmark(benchmark)
    if reader is None:
        reader = declared.reader if kind is ReportKind.OFFICIAL else "strict"
    options = ScoreOptions(
        benchmark=declared.name,
        reader=choice(ReaderName, reader, "reader"),
        judge=judge,
        group_rule=choice(GroupRule, group_rule, "group rule"),
        durations=parse_durations(video_duration_type),
        skip_missing=skip_missing,
        annotations=annotations,
    )
    if against is not None:
        if judge or kind not in (ReportKind.JSON, ReportKind.TABLE, ReportKind.PLAIN):
            raise ConfigurationError("--against has no judge, Markdown or official report")
        _show_comparison(str(against), str(responses), options, as_json=kind is ReportKind.JSON)
        return
    ask_judge = _judge(judge, options.reader, responses.stem) if judge else None
    scored = score_file(responses, options, ask_judge)
    write(
        render(
            scored,
            kind,
            return_categories_accuracy=return_categories_accuracy,
            return_sub_categories_accuracy=return_sub_categories_accuracy,
            return_task_types_accuracy=return_task_types_accuracy,
        )
    )
    if kind is ReportKind.OFFICIAL:  # the other formats contain the notes
        for text in scored.notes:
            note(f"Note: {text}")


@commands.command(epilog="Example: videomme read --reader strict --letters ABCD < responses.jsonl")
def read(
    reader: Annotated[
        str, typer.Option(help="Answer reader, for example strict or official_v1.")
    ] = "strict",
    letters: Annotated[
        str, typer.Option(help="Letters of the options, for lines without `options`.")
    ] = "ABCD",
    judge: JudgeName = None,
) -> None:
    """Read the chosen letter from responses.

    Standard input is JSON lines with `response`; standard output is the same
    lines with `letter`, `rule` and `span`. The reader strict uses `options` of a
    line if it has them. Exits with status 1 if a line cannot be parsed or the
    judge fails.
    """
    from videomme_pipeline.benchmarks.question import Letter
    from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_lines

    kind = choice(ReaderName, reader, "reader")
    if set(letters) - set(Letter):
        raise ConfigurationError(f"--letters {letters}: only A to N are letters of options")
    offered = [Letter(letter) for letter in letters]
    rows = read_lines(sys.stdin, kind, offered)
    if judge is not None:
        from videomme_pipeline.scoring.readers.judge import judge_lines

        rows = judge_lines(rows, _judge(judge, kind, "read"))
    failed = False
    for row in rows:
        failed = failed or "error" in row or row.get("judge_error") is not None
        write(json.dumps(row, ensure_ascii=False) + "\n")
    if failed:
        raise typer.Exit(1)


@commands.command(epilog="Example: videomme export smoke-embedded --format official > results.json")
def export(
    evaluation: Annotated[
        str,
        typer.Argument(
            help="Name of an evaluation that has scores.", autocompletion=complete_evaluation
        ),
    ],
    form: Annotated[
        str,
        typer.Option("--format", help="Format of the file, for example lmms_eval or hugging_face."),
    ] = "official",
) -> None:
    """Write an evaluation as a file of another tool.

    every_eval_ever, every_eval_ever_instances and hugging_face are files for
    public collections of scores.
    """
    from videomme_pipeline.benchmarks.question import Question
    from videomme_pipeline.formats.registry import FORMATS, PUBLICATIONS, write_results
    from videomme_pipeline.formats.results_format import Scored
    from videomme_pipeline.storage.tables import read_rows, stored_settings

    results = [name for name, known in FORMATS.items() if known.write is not None]
    name = known_name([*results, *PUBLICATIONS], form, "format")
    store = open_project().store
    benchmark, rows = stored_scores(store, evaluation)
    questions = read_rows(store.questions(benchmark), Question)
    blocked = "; ".join(
        f"{finding['check_name']}: {finding['summary']}"
        for finding in open_findings(store, [evaluation])
        if finding["status"] == "blocked"
    )
    if name in PUBLICATIONS:
        settings = stored_settings(store.scores(benchmark, evaluation))
        scored = Scored(questions=questions, rows=rows, settings=settings, not_citable=blocked)
        text = PUBLICATIONS[name](scored)
    else:
        text = write_results(questions, rows, FORMATS[name], not_citable=blocked)
        if any(row.repeat for row in rows):
            note("Note: this format has one answer per question; the file has the first repeat")
    print_findings(store, [evaluation])
    if out.is_terminal:
        write(text)
    else:
        sys.stdout.write(text)


def _judge(model: str, reader: "ReaderName", evaluation: str) -> "AskJudge":
    """A function that asks `model` which option a response chooses.

    The journal stores the replies under `<evaluation>@judge`.

    Raises:
        ConfigurationError: if `reader` is not strict, or models.yaml has no such model.
    """
    from videomme_pipeline.scoring.readers.judge import Judge, JudgeSpec, ask_judge
    from videomme_pipeline.scoring.readers.read_answer import ReaderName

    if reader is not ReaderName.STRICT:
        raise ConfigurationError(
            f"--judge {model}: a judge reads only what the strict reader cannot, but --reader is "
            f"{reader}; leave out one of the two"
        )
    project = open_project()
    judge = Judge.of(JudgeSpec(model=model), project.configuration.catalog)
    return partial(ask_judge, judge, project.store.journal, evaluation)
