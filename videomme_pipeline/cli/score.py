"""Commands that read and score files: score, compare, read."""

import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import (
    DEFAULT_BENCHMARK,
    FILES,
    Annotations,
    AsJson,
    BenchmarkName,
    Columns,
    ColumnsOfSecond,
    FileReader,
    JudgeName,
    Track,
    choice,
    evaluation_argument,
    known_name,
    renamed_columns,
)
from videomme_pipeline.cli.context import (
    announce,
    note,
    open_project,
    out,
    own_store,
    print_json,
    write,
)
from videomme_pipeline.cli.stored_scores import (
    benchmark_of,
    file_options,
    names_files,
    note_same_answers,
    open_findings,
    print_findings,
    rows_and_settings,
)
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from videomme_pipeline.judge.judge import AskJudge
    from videomme_pipeline.scoring.readers.read_answer import ReaderName

commands = typer.Typer()

Durations = Annotated[
    str,
    typer.Option("--video_duration_type", help="Durations to score, comma-separated.", hidden=True),
]
ByDomain = Annotated[
    bool,
    typer.Option("--return_categories_accuracy", help="Official report: by domain.", hidden=True),
]
BySubCategory = Annotated[
    bool,
    typer.Option(
        "--return_sub_categories_accuracy", help="Official report: by sub-category.", hidden=True
    ),
]
ByTaskType = Annotated[
    bool,
    typer.Option(
        "--return_task_types_accuracy", help="Official report: by task type.", hidden=True
    ),
]
SkipMissing = Annotated[
    bool,
    typer.Option(
        "--skip_missing/--no-skip_missing", help="Leave out videos marked missing.", hidden=True
    ),
]
ResultsFile = Annotated[
    Path | None,
    typer.Option("--results_file", help="The same as the argument.", hidden=True),
]


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
    judge: JudgeName = None,
    group_rule: Annotated[
        str, typer.Option(help="Video-MME-v2: corrected or official.")
    ] = "corrected",
    benchmark: BenchmarkName = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="Answer reader. Default: careful, or the official one for the official report.",
            rich_help_panel=FILES,
        ),
    ] = None,
    annotations: Annotations = None,
    columns: Columns = None,
    video_duration_type: Durations = "short,medium,long",
    return_categories_accuracy: ByDomain = False,
    return_sub_categories_accuracy: BySubCategory = False,
    return_task_types_accuracy: ByTaskType = False,
    skip_missing: SkipMissing = False,
    results_file: ResultsFile = None,
    as_json: AsJson = False,
) -> None:
    """Score a results file.

    The options of the official script, such as --results_file and
    --return_task_types_accuracy, work here, too.
    """
    announce("Scoring…")
    from videomme_pipeline.benchmarks.registry import find_benchmark
    from videomme_pipeline.formats.score_file import parse_durations, score_file
    from videomme_pipeline.reports.score_report import ReportKind, render
    from videomme_pipeline.scoring.readers.read_answer import ReaderName
    from videomme_pipeline.scoring.statistics.groups import GroupRule

    file = _one_file(responses, results_file)
    default = "json" if as_json else "table" if out.is_terminal else "plain"
    kind = choice(ReportKind, report or default, "report")
    store = own_store()
    is_official = kind is ReportKind.OFFICIAL
    benchmark = benchmark or DEFAULT_BENCHMARK
    options = file_options(
        store,
        benchmark,
        reader or (find_benchmark(benchmark).reader if is_official else ReaderName.CAREFUL),
        annotations,
        judge=judge,
        group_rule=choice(GroupRule, group_rule, "group rule"),
        durations=parse_durations(video_duration_type),
        skip_missing=skip_missing,
        columns=renamed_columns(columns),
    )
    ask_judge = _judge(judge, options.reader, file.stem) if judge else None
    scored = score_file(file, options, ask_judge)
    flags = {
        "domain": return_categories_accuracy,
        "sub_category": return_sub_categories_accuracy,
        "task_type": return_task_types_accuracy,
    }
    columns = [column for column, is_set in flags.items() if is_set]
    write(render(scored, kind, columns, width=out.width))
    if is_official:  # the other formats contain the notes
        for message in (*scored.notes, *scored.remarks):
            note(f"Note: {message}")


def _one_file(responses: Path | None, results_file: Path | None) -> Path:
    """The results file, which is the argument or the value of `--results_file`.

    Raises:
        ConfigurationError: if there is none, or if there are two.
    """
    if (responses is None) == (results_file is None):
        raise ConfigurationError(
            "name one results file: `videomme score FILE`, or --results_file FILE as for the "
            "official script"
        )
    return responses or results_file or Path()


@commands.command(epilog="Example: videomme compare smoke-embedded smoke-blind")
def compare(
    a: Annotated[str, evaluation_argument("A", "An evaluation, or a results file or folder.")],
    b: Annotated[str, evaluation_argument("B", "Another one of the same benchmark.")],
    benchmark: BenchmarkName = None,
    reader: FileReader = "careful",
    track: Track = "unknown",
    annotations: Annotations = None,
    columns: Columns = None,
    columns_b: ColumnsOfSecond = None,
    as_json: AsJson = False,
) -> None:
    """Compare B with A question by question.

    Shows B minus A, whether the difference is significant, and which settings
    differ. Two models in one table: `videomme compare t.csv t.csv --columns
    prediction=GPT-4o --columns-b prediction=Qwen`.
    """
    announce("Comparing…")
    from videomme_pipeline.reports.terminal.comparison import show_comparison
    from videomme_pipeline.scoring.scored_question import TRACKS, UNKNOWN_TRACK
    from videomme_pipeline.scoring.statistics.compare import compare as compare_rows

    store = own_store()
    options = file_options(
        store,
        benchmark or benchmark_of(store, [a, b]),
        reader,
        annotations,
        track=known_name([*TRACKS, UNKNOWN_TRACK], track, "track"),
        columns=renamed_columns(columns),
    )
    of_second = renamed_columns(columns_b)
    names = [text for text in (a, b) if not names_files(text, store)]
    rows_a, settings_a = rows_and_settings(a, store, options)
    options_b = replace(options, columns={**options.columns, **of_second})
    rows_b, settings_b = rows_and_settings(b, store, options_b)
    if of_second:
        a, b = (", ".join((a, *options.columns.values())), ", ".join((b, *of_second.values())))
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
    # The requests of results files are not known.
    same = note_same_answers((a, b), (rows_a, rows_b)) if len(names) < 2 else None
    if {rows_a[0].track, rows_b[0].track} > {UNKNOWN_TRACK}:
        note(
            "Note: the track of the results file is unknown. State with --track whether the model "
            "had subtitles"
        )
    if as_json:
        findings = open_findings(store, names) if store else []
        print_json(asdict(comparison) | {"citation": findings, "same_answers": same})
    else:
        show_comparison(out, comparison)
        if store:
            print_findings(store, names)


@commands.command(epilog="Example: videomme read --reader careful --letters ABCD < responses.jsonl")
def read(
    reader: Annotated[
        str, typer.Option(help="Answer reader, for example careful or official_v1.")
    ] = "careful",
    letters: Annotated[
        str, typer.Option(help="Letters of the options, for lines without `options`.")
    ] = "ABCD",
    judge: JudgeName = None,
) -> None:
    """Read the chosen letter from responses.

    Standard input is JSON lines with `response`; standard output is the same
    lines with `letter`, `rule` and `span`. The reader careful uses `options` of a
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
        from videomme_pipeline.judge.judge import judge_lines

        rows = judge_lines(rows, _judge(judge, kind, "read"))
    failed = False
    for row in rows:
        failed = failed or "error" in row or row.get("judge_error") is not None
        write(json.dumps(row, ensure_ascii=False) + "\n")
    if failed:
        raise typer.Exit(1)


def _judge(model: str, reader: "ReaderName", evaluation: str) -> "AskJudge":
    """A function that asks `model` which option a response chooses.

    The journal stores the replies under `<evaluation>@judge`.
    """
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
