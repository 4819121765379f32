"""The command line: `videomme`. Each command reads its arguments, calls the library, prints.

Results go to standard output, everything else to standard error. Only this module knows that
there is a Dagster project; it is imported when a command needs it.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from videomme_pipeline.errors import ConfigurationError, VideoMMEError

if TYPE_CHECKING:
    from dagster import DagsterInstance
    from upath import UPath

    from assets.planning.estimate import Estimate
    from assets.planning.explain import Cause
    from assets.planning.freshness import PartitionState
    from assets.resources import Project
    from assets.run import Refreshed
    from videomme_pipeline.evaluation import Configuration
    from videomme_pipeline.responses.estimate import CostEstimate
    from videomme_pipeline.scoring.nightly.assess import Assessment
    from videomme_pipeline.scoring.readers.judge import AskJudge
    from videomme_pipeline.scoring.readers.read_answer import ReaderName
    from videomme_pipeline.scoring.scored_question import ScoredQuestion
    from videomme_pipeline.store import Store

Kind = TypeVar("Kind", bound=StrEnum)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Evaluate video language models on Video-MME and Video-MME-v2.",
)
frames_app = typer.Typer(no_args_is_help=True, help="Look at the frames that models are sent.")
app.add_typer(frames_app, name="frames")
cache_app = typer.Typer(no_args_is_help=True, help="See what is stored, and remove what may go.")
app.add_typer(cache_app, name="cache")

out = Console()
err = Console(stderr=True)

LISTED_FAILURES = 10
_MARKS = {
    "ok": "[green]ok     [/]",
    "warning": "[yellow]warning[/]",
    "failed": "[bold red]failed [/]",
}
_MARK_OF_SEVERITY = {"error": "failed", "warn": "warning"}
EvaluationNames = Annotated[
    list[str] | None, typer.Argument(metavar="[EVALUATION]...", help="Names of evaluation files.")
]
BenchmarkNames = Annotated[
    list[str] | None,
    typer.Option("--benchmark", "-b", help="All evaluations of this benchmark; repeatable."),
]
JudgeName = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="A model of models.yaml that reads what strict could not."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def main() -> None:
    """Run the command line; an error that is raised on purpose is one paragraph, no trace."""
    try:
        app()
    except VideoMMEError as error:
        err.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)


@app.command(epilog="Example: videomme run smoke-embedded")
def run(
    evaluations: EvaluationNames = None,
    benchmark: BenchmarkNames = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be made and what it takes; make nothing."),
    ] = False,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            metavar="USD",
            min=0.0,
            help="Ask no model any more when this run has spent so much; the next run goes on.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Hash every video again, however unchanged its file looks."),
    ] = False,
) -> None:
    """Bring evaluations up to date: only what is stale is made, then the scores are shown.

    Without a name, all evaluations. Fails when a partition could not be made; all others are
    kept, and the next run tries only what is missing.
    """
    from assets.planning.costs import estimate_costs  # noqa: PLC0415
    from assets.planning.estimate import estimate  # noqa: PLC0415
    from assets.run import plan_project, refresh_project  # noqa: PLC0415

    with _opened() as (project, instance):
        names = _chosen(project.configuration, evaluations, benchmark)
        if verify:
            project.hashes.forget()
        if dry_run:
            states = plan_project(project, instance, names)
            _show_estimates(estimate(states, instance))
            _show_costs(estimate_costs(states))
            return
        refreshed = refresh_project(project, instance, names, max_cost)
        _show_refreshed(refreshed)
        _show_scores(project, names)
        page = project.store.local("reports", "index.html").resolve()
        err.print(f"\nReport page  {page}", highlight=False, soft_wrap=True)
        err.print("Dagster UI   make ui  (then open http://localhost:3000)", highlight=False)
        if refreshed.behind:
            raise typer.Exit(1)


@app.command(epilog="Example: videomme status --explain smoke-embedded")
def status(
    evaluations: EvaluationNames = None,
    benchmark: BenchmarkNames = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="List every partition that is not fresh, and why.")
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="PARTITION",
            help="Why these are as they are: a partition (smoke/frames uniform_n-8|001), an "
            "asset, a video, a sampling, a track or an evaluation.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How many partitions of each asset are fresh, stale, missing and failed, and why."""
    from assets.planning.explain import Explanation, matching  # noqa: PLC0415
    from assets.planning.freshness import Freshness, counts  # noqa: PLC0415
    from assets.run import plan_project  # noqa: PLC0415

    with _opened() as (project, instance):
        names = _chosen(project.configuration, evaluations, benchmark)
        states = plan_project(project, instance, names)
        explanation = Explanation(states, instance)
        causes = explanation.causes() if explain is None else {}
        if explain is not None:
            shown = matching(states, explain)
        else:
            shown = [state for state in states if state.freshness is not Freshness.FRESH]
        because = [(state, explanation.reasons(state)) for state in shown]
    if as_json:
        listed = [
            {
                "partition": state.name,
                "state": state.freshness,
                "reasons": [asdict(reason) for reason in found],
            }
            for state, found in because
        ]
        if explain is not None:
            _print_json(listed)
        else:
            _print_json({"assets": counts(states), "causes": causes, "not_fresh": listed})
        return
    if explain is None:
        _show_counts(states, causes)
    if reasons or explain is not None:
        for state, found in because:
            lines = [f"{state.name}: {state.freshness}", *map(str, found)]
            out.print("\n  ".join(lines), markup=False, highlight=False, soft_wrap=True)


@app.command(epilog='Example: videomme sql "select * from by_task_type limit 5"')
def sql(select: Annotated[str, typer.Argument(metavar="SELECT")], as_json: AsJson = False) -> None:
    """Ask the DuckDB file: any select over its tables and views.

    Views: `select view_name from duckdb_views() where not internal`. Any DuckDB client opens the
    same file, `videomme.duckdb` in the data folder.
    """
    import duckdb  # noqa: PLC0415

    from videomme_pipeline.reports.terminal import show_rows  # noqa: PLC0415
    from videomme_pipeline.warehouse.database import connect, query  # noqa: PLC0415

    with connect(_project().store) as connection:
        try:
            rows = query(connection, select)
        except duckdb.Error as error:
            raise ConfigurationError(f"DuckDB: {error}") from error
    if as_json:
        _print_json(rows)
    else:
        show_rows(out, rows, {name: name for name in (rows[0] if rows else ())})


@app.command(epilog="Example: videomme read --reader strict --letters ABCD < responses.jsonl")
def read(
    reader: Annotated[str, typer.Option(help="How to read: strict, official_v1 …")] = "strict",
    letters: Annotated[str, typer.Option(help="The letters that are offered.")] = "ABCD",
    judge: JudgeName = None,
) -> None:
    """Read the letter out of responses: JSON lines in, the same with letter, rule and span out."""
    from videomme_pipeline.benchmarks.question import Letter  # noqa: PLC0415
    from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_lines  # noqa: PLC0415

    kind = _choice(ReaderName, reader, "reader")
    unknown = set(letters) - set(Letter)
    if unknown:
        raise ConfigurationError(f"--letters {letters}: only A to H are letters of options")
    offered = [Letter(letter) for letter in letters]
    rows = read_lines(sys.stdin, kind, offered)
    if judge is not None:
        from videomme_pipeline.scoring.readers.judge import judge_lines  # noqa: PLC0415

        rows = judge_lines(rows, offered, _judge(judge, kind, "read"))
    failed = False
    for row in rows:
        failed = failed or "error" in row or row.get("judge_error") is not None
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    if failed:
        raise typer.Exit(1)


@app.command(epilog="Example: videomme score results.json --report official")
def score(
    responses: Annotated[
        Path, typer.Argument(help="Results file: official, lmms-eval, VLMEvalKit.")
    ],
    benchmark: Annotated[
        str, typer.Option("--benchmark", "-b", help="videomme or videomme_v2.")
    ] = ("videomme"),
    report: Annotated[
        str | None,
        typer.Option(
            help="official, json, markdown, table, or plain (tabs): the default where no "
            "terminal is."
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(help="Answer reader; the official one for the official report, else strict."),
    ] = None,
    judge: JudgeName = None,
    group_rule: Annotated[str, typer.Option(help="v2: corrected or official.")] = "corrected",
    video_duration_type: Annotated[
        str, typer.Option("--video_duration_type", help="v1: comma-separated durations.")
    ] = "short,medium,long",
    return_categories_accuracy: Annotated[bool, typer.Option("--return_categories_accuracy")] = (
        False
    ),
    return_sub_categories_accuracy: Annotated[
        bool, typer.Option("--return_sub_categories_accuracy")
    ] = False,
    return_task_types_accuracy: Annotated[bool, typer.Option("--return_task_types_accuracy")] = (
        False
    ),
    skip_missing: Annotated[
        bool,
        typer.Option("--skip_missing/--no-skip_missing", help="Leave out videos marked missing."),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Score a results file. The flags with underscores are the official script's own."""
    from videomme_pipeline.benchmarks.media import BENCHMARKS  # noqa: PLC0415
    from videomme_pipeline.configuration import nearest  # noqa: PLC0415
    from videomme_pipeline.formats.score_file import (  # noqa: PLC0415
        ScoreOptions,
        parse_durations,
        score_file,
    )
    from videomme_pipeline.reports.score_report import ReportKind, render  # noqa: PLC0415
    from videomme_pipeline.scoring.readers.read_answer import ReaderName  # noqa: PLC0415
    from videomme_pipeline.scoring.statistics.groups import GroupRule  # noqa: PLC0415

    usual = "json" if as_json else "table" if out.is_terminal else "plain"
    kind = _choice(ReportKind, report or usual, "report")
    if benchmark not in BENCHMARKS:
        raise ConfigurationError(f"no benchmark `{benchmark}`: {nearest(benchmark, BENCHMARKS)}")
    if reader is None:
        official = "official_v2" if benchmark == "videomme_v2" else "official_v1"
        reader = official if kind is ReportKind.OFFICIAL else "strict"
    options = ScoreOptions(
        benchmark=benchmark,
        reader=_choice(ReaderName, reader, "reader"),
        judge=judge,
        group_rule=_choice(GroupRule, group_rule, "group rule"),
        durations=parse_durations(video_duration_type),
        skip_missing=skip_missing,
    )
    ask_judge = _judge(judge, options.reader, responses.stem) if judge else None
    scored = score_file(responses, options, ask_judge)
    sys.stdout.write(
        render(
            scored,
            kind,
            return_categories_accuracy=return_categories_accuracy,
            return_sub_categories_accuracy=return_sub_categories_accuracy,
            return_task_types_accuracy=return_task_types_accuracy,
        )
    )
    for note in scored.notes:
        err.print(f"Note: {note}", markup=False, highlight=False, soft_wrap=True)


@app.command(epilog="Example: videomme export smoke-embedded --format official > results.json")
def export(
    evaluation: Annotated[str, typer.Argument(help="Name of an evaluation that has scores.")],
    form: Annotated[str, typer.Option("--format", help="official, lmms_eval or vlmevalkit.")] = (
        "official"
    ),
) -> None:
    """Write the responses of an evaluation as another evaluator's results file."""
    from videomme_pipeline.benchmarks.question import Question  # noqa: PLC0415
    from videomme_pipeline.configuration import nearest  # noqa: PLC0415
    from videomme_pipeline.formats.registry import FORMATS, write_results  # noqa: PLC0415
    from videomme_pipeline.store import read_rows  # noqa: PLC0415

    if form not in FORMATS:
        raise ConfigurationError(f"no format `{form}`: {nearest(form, FORMATS)}")
    store = _project().store
    benchmark, rows = _scores(store, evaluation)
    questions = read_rows(store.questions(benchmark), Question)
    sys.stdout.write(write_results(questions, rows, FORMATS[form]))


@app.command(epilog="Example: videomme compare smoke-embedded smoke-blind")
def compare(evaluation_a: str, evaluation_b: str, as_json: AsJson = False) -> None:
    """How much better A is than B on the same questions, and whether that is real."""
    from videomme_pipeline.reports.terminal import show_comparison  # noqa: PLC0415
    from videomme_pipeline.scoring.statistics.compare import compare as compare_rows  # noqa: PLC0415
    from videomme_pipeline.store import stored_recipe  # noqa: PLC0415

    store = _project().store
    (benchmark_a, a), (benchmark_b, b) = _scores(store, evaluation_a), _scores(store, evaluation_b)
    comparison = compare_rows(
        a,
        b,
        specification_a=stored_recipe(store.scores(benchmark_a, evaluation_a)),
        specification_b=stored_recipe(store.scores(benchmark_b, evaluation_b)),
    )
    if as_json:
        _print_json(asdict(comparison))
    else:
        show_comparison(out, comparison)


@app.command(epilog="Example: videomme report --share --output results.html")
def report(
    evaluations: EvaluationNames = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File, or folder with --folder.")
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Leave out question text, responses and frames.")
    ] = False,
    folder: Annotated[
        bool, typer.Option("--folder", help="A folder with pictures of the frames; never share it.")
    ] = False,
) -> None:
    """Write the results of evaluations (all without a name) as a page that works offline."""
    from videomme_pipeline.reports.page import write_folder, write_page  # noqa: PLC0415

    if folder and share:
        raise ConfigurationError("--folder holds frames, which must not be shared; choose one")
    store = _project().store
    name = "share.html" if share else "pages" if folder else "report.html"
    for evaluation in evaluations or ():
        _scores_file(store, evaluation)
    target = output or store.local("reports", name)
    if folder:
        path = write_folder(store, target, evaluations=evaluations or None)
    else:
        path = write_page(store, target, evaluations=evaluations or None, share=share)
    err.print(f"Wrote {path.resolve()}", highlight=False, soft_wrap=True)


@frames_app.command("show", epilog="Example: videomme frames show clip.mp4 --sampling uniform_n-16")
def frames_show(
    video: Annotated[str, typer.Argument(help="A video file, or the id of a stored video.")],
    sampling: Annotated[str, typer.Option(help="uniform_n-16, fps_based-1-max-64 …")],
    benchmark: Annotated[str, typer.Option("--benchmark", "-b")] = "smoke",
    output: Annotated[Path | None, typer.Option("--output", "-o", help=".jpg or .png")] = None,
) -> None:
    """Write the contact sheet of a video: the frames that a model would be sent."""
    from videomme_pipeline.frames.sampling_names import parse_sampling  # noqa: PLC0415
    from videomme_pipeline.frames.show import show_frames  # noqa: PLC0415

    project = _project()
    path, duration = Path(video), None
    if not path.is_file():
        held = project.benchmarks.get(benchmark)
        if held is None or video not in held.videos:
            raise ConfigurationError(
                f"{video} is neither a file nor a stored video of {benchmark}; "
                f"materialize {benchmark}/videos first, or give a path"
            )
        path, duration = Path(held.videos[video].path), held.questions[video][0].duration
    target = output or Path(f"{path.stem}.{sampling}.jpg")
    frames = show_frames(
        path, parse_sampling(sampling), target, store=project.store, duration=duration
    )
    limit = f", {frames.limit}" if frames.limit else ""
    err.print(
        f"Wrote {target}: {len(frames.frames)} frames of {frames.asked} asked{limit}, "
        f"{frames.bytes:,} bytes",
        highlight=False,
        soft_wrap=True,
    )


@cache_app.command("ls", epilog="Example: videomme cache ls")
def cache_ls(as_json: AsJson = False) -> None:
    """What is stored: frames by sampling, the rest by track or evaluation, and who names it."""
    from assets.disk import DataFolder  # noqa: PLC0415
    from videomme_pipeline.reports.terminal import SHELF_COLUMNS, shelf_rows, show_rows  # noqa: PLC0415

    shelves = [asdict(shelf) for shelf in DataFolder(_project()).shelves()]
    if as_json:
        _print_json(shelves)
    else:
        show_rows(out, shelf_rows(shelves), SHELF_COLUMNS)


@cache_app.command("gc", epilog="Example: videomme cache gc --dry-run")
def cache_gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be freed, and remove nothing.")
    ] = False,
    sampling: Annotated[
        list[str] | None,
        typer.Option(help="Also all frames of this sampling, whoever names it; repeatable."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --sampling.")] = False,
) -> None:
    """Remove frames, packet indexes, subtitles and prompts that nothing names any more.

    What an evaluation file, samplings.yaml and a stored video still name together stays, and so
    do responses, scores and nights.
    """
    from rich.filesize import decimal  # noqa: PLC0415

    from assets.disk import DataFolder, remove  # noqa: PLC0415

    folder = DataFolder(_project())
    garbage = folder.garbage(sampling or ())
    freed: Counter[str] = Counter()
    for item in garbage:
        freed[item.why] += item.bytes
    files = Counter(item.why for item in garbage)
    for why, size in freed.most_common():
        err.print(f"{files[why]} files, {decimal(size)}: {why}", highlight=False, soft_wrap=True)
    for shelf in folder.shelves():
        if shelf.kind == "frames" and shelf.name in (sampling or ()) and shelf.named_by:
            users = ", ".join(shelf.named_by)
            err.print(f"{shelf.name} is used by {users}: they will decode again", highlight=False)
    if dry_run:
        err.print(f"Would free {decimal(freed.total())}; nothing was removed.", highlight=False)
        return
    if sampling and not yes:
        typer.confirm(f"Remove {len(garbage)} files?", abort=True, err=True)
    remove(garbage)
    err.print(f"Freed {decimal(freed.total())}.", highlight=False)


@app.command(epilog="Example: videomme init my-model --benchmark smoke")
def init(
    name: Annotated[str, typer.Argument(help="Name of the new evaluation.")],
    benchmark: Annotated[str, typer.Option("--benchmark", "-b")] = "smoke",
) -> None:
    """Write a commented evaluation file to start from."""
    from videomme_pipeline.evaluation import write_example  # noqa: PLC0415

    configuration = _project().configuration
    _chosen(configuration, None, [benchmark])
    path = write_example(configuration.folder / "evaluations", name, benchmark)
    err.print(f"Wrote {path}. Edit it, then: videomme run {name}", highlight=False, soft_wrap=True)


@app.command(epilog="Example: videomme doctor")
def doctor(as_json: AsJson = False) -> None:
    """Check what a run needs: libraries, disk, keys, endpoints, licence flag, data, versions."""
    from assets.doctor import examine  # noqa: PLC0415

    findings = list(examine(_project()))
    if as_json:
        _print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            out.print(
                f"{_MARKS[finding.verdict]} {escape(finding.check)}: {escape(finding.message)}",
                highlight=False,
                soft_wrap=True,
            )
    if any(finding.verdict == "failed" for finding in findings):
        raise typer.Exit(1)


@app.command(epilog="Example: videomme nightly smoke-embedded")
def nightly(
    evaluations: EvaluationNames = None,
    date: Annotated[
        str | None, typer.Option(help="The night to ask, such as 2026-11-21; default: today.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask tracked evaluations again and hold them against their baselines.

    What is tracked stands in nightly.yaml; without a name, all of it. A night that is stored is
    not asked again. Fails when a check that counts as an error does.
    """
    from assets.run import run_night  # noqa: PLC0415
    from assets.stages.nightly import read_nightly  # noqa: PLC0415
    from assets.triggers.schedules import night_at  # noqa: PLC0415

    with _opened() as (project, instance):
        timezone = read_nightly(project.configuration).timezone
        night = date or night_at(datetime.now(UTC), timezone)
        reports = run_night(project, instance, evaluations or [], night)
    if as_json:
        _print_json([asdict(report) for report in reports])
    else:
        _show_nights(reports)
    if any(f.severity == "error" for report in reports for f in report.findings if not f.passed):
        raise typer.Exit(1)


@app.command(epilog="Example: videomme ui --port 3000")
def ui(
    port: Annotated[int, typer.Option(help="Port of the web page.")] = 3000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Open the Dagster UI with schedules and sensors; Ctrl-C stops all of it."""
    from assets.dagster_internals.processes import end_dead_runs  # noqa: PLC0415
    from assets.instance import open_instance  # noqa: PLC0415

    with open_instance() as instance:
        end_dead_runs(instance)
    dagster = str(Path(sys.executable).with_name("dagster"))
    command = [dagster, "dev", "-w", "workspace.yaml", "-p", str(port), "-h", host]
    # Before the start: what a shell tells its background jobs to ignore, children would ignore too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    # A process group of its own, ended as a whole: no daemon is left to pick up later runs.
    process = subprocess.Popen(command, start_new_session=True)
    try:
        raise typer.Exit(process.wait())
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _project(on_progress: Any = None) -> "Project":
    from assets.resources import no_progress, open_project  # noqa: PLC0415

    project = open_project(on_progress=on_progress or no_progress)
    for problem in project.configuration.problems.values():
        err.print(f"[yellow]Left out:[/] {escape(str(problem))}", highlight=False, soft_wrap=True)
    return project


@contextmanager
def _opened() -> Iterator[tuple["Project", "DagsterInstance"]]:
    """The project with progress on standard error, and the Dagster instance."""
    from assets.instance import open_instance  # noqa: PLC0415
    from videomme_pipeline.reports.terminal import ProgressLines  # noqa: PLC0415

    with ProgressLines(err) as lines, open_instance() as instance:
        yield (
            _project(lambda progress: lines.show(progress.what, progress.done, progress.total)),
            instance,
        )


def _chosen(
    configuration: "Configuration",
    evaluations: Sequence[str] | None,
    benchmarks: Sequence[str] | None,
) -> list[str]:
    """The evaluations that a command is about; each must exist."""
    unknown = [name for name in benchmarks or () if name not in configuration.benchmarks]
    if unknown:
        raise ConfigurationError(
            f"benchmark {unknown[0]} is not set up; those in benchmarks.yaml: "
            f"{', '.join(configuration.benchmarks)}"
        )
    names = [configuration.evaluation(name).name for name in evaluations or ()]
    names += [e.name for b in benchmarks or () for e in configuration.evaluations_of(b)]
    if not evaluations and not benchmarks:
        names = list(configuration.evaluations)
    return list(dict.fromkeys(names))


def _choice(kinds: type[Kind], value: str, what: str) -> Kind:
    """`value` as one of a closed set, or an error that names the nearest one."""
    from videomme_pipeline.configuration import nearest  # noqa: PLC0415

    known = [kind.value for kind in kinds]
    if value not in known:
        raise ConfigurationError(f"no {what} `{value}`: {nearest(value, known)}")
    return kinds(value)


def _judge(model: str, reader: "ReaderName", asked_for: str) -> "AskJudge":
    """Asks `model` what a response chooses; its answers are kept in the journal."""
    from videomme_pipeline.scoring.readers.judge import Judge, JudgeSpec, ask_judge  # noqa: PLC0415
    from videomme_pipeline.scoring.readers.read_answer import ReaderName  # noqa: PLC0415

    if reader is not ReaderName.STRICT:
        raise ConfigurationError(
            f"--judge {model}: a judge reads what strict could not, not {reader}; leave one out"
        )
    project = _project()
    judge = Judge.of(JudgeSpec(model=model), project.configuration.catalog)
    return partial(ask_judge, judge, project.store.journal, asked_for)


def _scores(store: "Store", evaluation: str) -> tuple[str, list["ScoredQuestion"]]:
    """The benchmark and the scored questions of an evaluation that was run."""
    from videomme_pipeline.scoring.scored_question import ScoredQuestion  # noqa: PLC0415
    from videomme_pipeline.store import read_rows  # noqa: PLC0415

    path = _scores_file(store, evaluation)
    return path.parent.parent.name, read_rows(path, ScoredQuestion)


def _scores_file(store: "Store", evaluation: str) -> "UPath":
    """Where the scores of an evaluation that was run are stored."""
    from videomme_pipeline.configuration import nearest  # noqa: PLC0415

    files = {path.stem: path for path in store.path().glob("*/scores/*.parquet")}
    if evaluation not in files:
        hint = nearest(evaluation, list(files)) if files else "nothing was scored yet"
        raise ConfigurationError(
            f"evaluation {evaluation} has no scores, {hint} (videomme run {evaluation})"
        )
    return files[evaluation]


def _show_counts(
    states: "Sequence[PartitionState]", causes: "Mapping[str, Counter[Cause]]"
) -> None:
    from assets.planning.freshness import Freshness, counts  # noqa: PLC0415
    from videomme_pipeline.reports.terminal import show_rows  # noqa: PLC0415

    rows = [
        {
            "asset": asset,
            **{freshness.value: counted[freshness] for freshness in Freshness},
            "because": ", ".join(
                f"{number} {cause}" for cause, number in causes.get(asset, Counter()).most_common()
            ),
        }
        for asset, counted in counts(states).items()
    ]
    show_rows(out, rows, {name: name for name in ("asset", *Freshness, "because")})


def _show_estimates(estimates: "Sequence[Estimate]") -> None:
    """What a run would do, and what comparable partitions took before."""
    from videomme_pipeline.reports.terminal import ESTIMATE_COLUMNS, estimate_rows, show_rows  # noqa: PLC0415

    if not estimates:
        err.print("Everything is fresh: a run would make nothing.", highlight=False)
        return
    show_rows(out, estimate_rows([asdict(held) for held in estimates]), ESTIMATE_COLUMNS)


def _show_costs(estimates: "Sequence[CostEstimate]") -> None:
    """What the models behind endpoints would be asked, and what that would cost."""
    from videomme_pipeline.reports.terminal import COST_COLUMNS, cost_rows, show_rows  # noqa: PLC0415

    if estimates:
        out.print()
        show_rows(out, cost_rows(estimates), COST_COLUMNS)


def _show_refreshed(refreshed: "Refreshed") -> None:
    from assets.planning.freshness import Freshness  # noqa: PLC0415

    if refreshed.run_id is None:
        err.print("Everything is fresh: no frame decoded, no model asked.", highlight=False)
        return
    made = ", ".join(f"{count} {asset}" for asset, count in refreshed.made.items())
    err.print(f"Made {made or 'nothing'}.", highlight=False, soft_wrap=True)
    if refreshed.stopped_by is not None:
        err.print(
            f"[bold yellow]Stopped[/] {escape(refreshed.stopped_by)}",
            highlight=False,
            soft_wrap=True,
        )
    failed = [state for state in refreshed.behind if state.freshness is Freshness.FAILED]
    for state in failed[:LISTED_FAILURES]:
        err.print(
            f"[bold red]Failed[/] {escape(state.name)}: {escape(state.reason)}",
            highlight=False,
            soft_wrap=True,
        )
    if len(failed) > LISTED_FAILURES:
        err.print(f"… and {len(failed) - LISTED_FAILURES} more: videomme status --reasons")


def _show_nights(reports: Sequence["Assessment"]) -> None:
    for report in reports:
        drop = report.detectable_drop
        detectable = "" if drop is None else f", detectable drop {drop:.1%}"
        out.print(f"[bold]{escape(report.evaluation)}[/], {report.date}{detectable}")
        for finding in report.findings:
            mark = _MARKS["ok" if finding.passed else _MARK_OF_SEVERITY[finding.severity.value]]
            out.print(
                f"{mark} {finding.check.value}: {escape(finding.summary)}",
                highlight=False,
                soft_wrap=True,
            )


def _show_scores(project: "Project", evaluations: Sequence[str]) -> None:
    from videomme_pipeline.reports.terminal import SCORE_COLUMNS, score_rows, show_rows  # noqa: PLC0415
    from videomme_pipeline.warehouse.database import connect, query  # noqa: PLC0415

    with connect(project.store) as connection:
        rows = query(
            connection,
            "select * from leaderboard where list_contains(?, evaluation) "
            "order by benchmark, accuracy desc",
            [list(evaluations)],
        )
    show_rows(out, score_rows(rows), SCORE_COLUMNS)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")
