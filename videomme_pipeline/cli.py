"""The command line: `videomme`. Each command reads its arguments, calls the library, prints.

Results go to standard output, everything else to standard error. Only this module knows that
there is a Dagster project; it is imported when a command needs it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from videomme_pipeline.errors import ConfigurationError, VideoMMEError

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from assets.resources import Project
    from assets.run import Refreshed

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Evaluate video language models on Video-MME and Video-MME-v2.",
)
frames_app = typer.Typer(no_args_is_help=True, help="Look at the frames that models are sent.")
app.add_typer(frames_app, name="frames")

out = Console()
err = Console(stderr=True)

LISTED_FAILURES = 10
_MARKS = {
    "ok": "[green]ok     [/]",
    "warning": "[yellow]warning[/]",
    "failed": "[bold red]failed [/]",
}
EvaluationNames = Annotated[
    list[str] | None, typer.Argument(metavar="[EVALUATION]...", help="Names of evaluation files.")
]
BenchmarkNames = Annotated[
    list[str] | None,
    typer.Option("--benchmark", "-b", help="All evaluations of this benchmark; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def main() -> None:
    """Run the command line; an error that is raised on purpose is one paragraph, no trace."""
    try:
        app()
    except VideoMMEError as error:
        err.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has seen enough (`videomme sql … | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command(epilog="Example: videomme run smoke-embedded")
def run(
    evaluations: EvaluationNames = None,
    benchmark: BenchmarkNames = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be made, and make nothing.")
    ] = False,
) -> None:
    """Bring evaluations up to date: only what is stale is made, then the scores are shown.

    Without a name, all evaluations. Fails when a partition could not be made; all others are
    kept, and the next run tries only what is missing.
    """
    from assets.run import plan_project, refresh_project  # noqa: PLC0415

    with _opened() as (project, instance):
        names = _chosen(project, evaluations, benchmark)
        if dry_run:
            _show_counts(plan_project(project, instance, names))
            return
        refreshed = refresh_project(project, instance, names)
        _show_refreshed(refreshed)
        _show_scores(project, names)
        page = project.store.local("reports", "index.html").resolve()
        err.print(f"\nReport page  {page}", highlight=False, soft_wrap=True)
        err.print("Dagster UI   make ui  (then open http://localhost:3000)", highlight=False)
        if refreshed.behind:
            raise typer.Exit(1)


@app.command(epilog="Example: videomme status smoke-embedded --reasons")
def status(
    evaluations: EvaluationNames = None,
    benchmark: BenchmarkNames = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="List every partition that is not fresh, and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How many partitions of each asset are fresh, stale, missing and failed."""
    from assets.freshness import Freshness, counts  # noqa: PLC0415
    from assets.run import plan_project  # noqa: PLC0415

    with _opened() as (project, instance):
        states = plan_project(project, instance, _chosen(project, evaluations, benchmark))
    if as_json:
        listed = [
            {"partition": s.name, "state": s.freshness, "reason": s.reason}
            for s in states
            if s.freshness is not Freshness.FRESH
        ]
        _print_json({"assets": counts(states), "not_fresh": listed})
        return
    _show_counts(states)
    if reasons:
        for state in states:
            if state.freshness is not Freshness.FRESH:
                out.print(
                    f"{state.name}: {state.freshness}, {state.reason}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )


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
) -> None:
    """Read the letter out of responses: JSON lines in, the same with letter, rule and span out."""
    from videomme_pipeline.annotations.question import Letter  # noqa: PLC0415
    from videomme_pipeline.configuration import nearest  # noqa: PLC0415
    from videomme_pipeline.scoring.read_answer import ReaderName, read_lines  # noqa: PLC0415

    if reader not in set(ReaderName):
        raise ConfigurationError(f"no reader `{reader}`: {nearest(reader, list(ReaderName))}")
    unknown = set(letters) - set(Letter)
    if unknown:
        raise ConfigurationError(f"--letters {letters}: only A to H are letters of options")
    failed = False
    for row in read_lines(sys.stdin, ReaderName(reader), [Letter(letter) for letter in letters]):
        failed = failed or "error" in row
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    if failed:
        raise typer.Exit(1)


@app.command(epilog="Example: videomme init my-model --benchmark smoke")
def init(
    name: Annotated[str, typer.Argument(help="Name of the new evaluation.")],
    benchmark: Annotated[str, typer.Option("--benchmark", "-b")] = "smoke",
) -> None:
    """Write a commented evaluation file to start from."""
    from assets.resources import configuration_folder  # noqa: PLC0415
    from videomme_pipeline.evaluation import write_example  # noqa: PLC0415

    path = write_example(configuration_folder() / "evaluations" / f"{name}.yaml", benchmark)
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


@app.command(epilog="Example: videomme ui --port 3000")
def ui(
    port: Annotated[int, typer.Option(help="Port of the web page.")] = 3000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Open the Dagster UI with schedules and sensors; Ctrl-C stops all of it."""
    from assets.instance import prepare_home  # noqa: PLC0415

    prepare_home()
    dagster = str(Path(sys.executable).with_name("dagster"))
    command = [dagster, "dev", "-w", "workspace.yaml", "-p", str(port), "-h", host]
    # A process group of its own, ended as a whole: no daemon is left to pick up later runs.
    process = subprocess.Popen(command, start_new_session=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
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
    project: "Project", evaluations: Sequence[str] | None, benchmarks: Sequence[str] | None
) -> list[str]:
    """The evaluations that a command is about; each must exist."""
    configuration = project.configuration
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


def _show_counts(states: Sequence[Any]) -> None:
    from assets.freshness import Freshness, counts  # noqa: PLC0415
    from videomme_pipeline.reports.terminal import show_rows  # noqa: PLC0415

    rows = [
        {"asset": asset, **{freshness.value: counted[freshness] for freshness in Freshness}}
        for asset, counted in counts(states).items()
    ]
    show_rows(out, rows, {name: name for name in ("asset", *Freshness)})


def _show_refreshed(refreshed: "Refreshed") -> None:
    if refreshed.run_id is None:
        err.print("Everything is fresh: no frame decoded, no model asked.", highlight=False)
        return
    made = ", ".join(f"{count} {asset}" for asset, count in refreshed.made.items())
    err.print(f"Made {made or 'nothing'}.", highlight=False, soft_wrap=True)
    failed = [state for state in refreshed.behind if state.reason]
    for state in failed[:LISTED_FAILURES]:
        err.print(
            f"[bold red]Failed[/] {escape(state.name)}: {escape(state.reason)}",
            highlight=False,
            soft_wrap=True,
        )
    if len(failed) > LISTED_FAILURES:
        err.print(f"… and {len(failed) - LISTED_FAILURES} more: videomme status --reasons")


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
