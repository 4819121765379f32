"""Functions for all commands: the two consoles, JSON output, and the project."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from videomme_pipeline.cli.stopping import on_stop
from videomme_pipeline.errors import printable
from videomme_pipeline.reports.terminal.console import PlainConsole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from videomme_pipeline.assets.instance import Instance
    from videomme_pipeline.errors import Finding
    from videomme_pipeline.project.project import Project
    from videomme_pipeline.project.runs.progress import StageProgress
    from videomme_pipeline.storage.layout import Store

out = PlainConsole()
err = PlainConsole(stderr=True)


def note(text: str) -> None:
    """Print one unwrapped line of plain text on standard error."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def program() -> str:
    """The command that starts this program: `videomme`, or its path if PATH does not have it."""
    is_on_path = shutil.which("videomme") is not None
    return "videomme" if is_on_path else sys.argv[0]


def announce(text: str) -> None:
    """Tell a user at a terminal what a command does, before it imports what it needs."""
    if err.is_terminal:
        note(text)


def print_json(value: Any) -> None:
    """Print `value` on standard output as indented JSON."""
    write(json.dumps(value, indent=2, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def show(value: Any, show_text: "Callable[[PlainConsole, Any], None]", *, as_json: bool) -> None:
    """Print `value` as JSON or, with `show_text`, as text."""
    if as_json:
        print_json(value)
    else:
        show_text(out, value)


def end_with_findings(findings: "Sequence[Finding]", *, as_json: bool) -> None:
    """Print the findings of a check, and exit with status 1 if a finding is a failure."""
    from videomme_pipeline.reports.findings import show_findings

    show(findings, show_findings, as_json=as_json)
    if any(finding.status == "error" for finding in findings):
        raise typer.Exit(1)


def write(text: str) -> None:
    """Write printable text on standard output, without changing its lines."""
    sys.stdout.write(printable(text))


def open_project(
    on_progress: "Callable[[StageProgress], None] | None" = None,
    evaluations: "Sequence[str] | None" = None,
) -> "Project":
    """Open the project in the current folder, and print the evaluation files that have mistakes.

    `evaluations` are the names that the user typed. The command itself prints their mistakes.
    """
    from videomme_pipeline.project.project import open_project
    from videomme_pipeline.project.runs.progress import ignore

    project = open_project(on_progress=on_progress or ignore, on_message=note)
    for name, problem in project.configuration.problems.items():
        if name not in (evaluations or ()):
            text = f"[yellow]Skipped:[/] {escape(str(problem))}"
            err.print(text, highlight=False, soft_wrap=True)
    return project


def own_store() -> "Store | None":
    """The store of the project in the current folder, or None outside of a project.

    The project's own benchmarks are then known.
    """
    from videomme_pipeline.project.project import configuration_folder, is_project

    return open_project().store if is_project(configuration_folder()) else None


@contextmanager
def open_for_plan(evaluations: "Sequence[str] | None") -> Iterator["Project"]:
    """Open the project, with progress on standard error.

    `evaluations` are the names that the user typed.
    """
    with showing_progress() as show_progress:
        yield open_project(show_progress, evaluations)


@contextmanager
def open_for_run(
    evaluations: "Sequence[str] | None",
) -> Iterator[tuple["Project", "Instance"]]:
    """Open the project, with progress on standard error, and the Dagster instance.

    `evaluations` are the names that the user typed. If the command is stopped, its run is canceled.
    """
    with open_for_plan(evaluations) as project, instance_for(project) as instance:
        yield project, instance


@contextmanager
def instance_for(project: "Project") -> Iterator["Instance"]:
    """Open the Dagster instance for a run. If the command is stopped, its run is canceled."""
    from videomme_pipeline.assets.instance import open_instance
    from videomme_pipeline.assets.processes import cancel_own_runs

    stored = "Everything built so far is stored."
    show_progress = project.on_progress

    def show(progress: "StageProgress") -> None:
        nonlocal stored
        stored = progress.stored
        show_progress(progress)

    def cancel() -> str:
        cancel_own_runs(instance)
        return f"{stored} Run again to resume."

    with open_instance() as instance, on_stop(cancel):
        project.on_progress = show
        name_programs(project)
        yield instance


def name_programs(project: "Project") -> None:
    """Print the programs that the configuration names."""
    from videomme_pipeline.project.upkeep.programs import named_programs

    if programs := named_programs(project):
        note("The configuration names programs that runs start with your rights:")
        for program in programs:
            note(f"  {program}")


@contextmanager
def showing_progress() -> Iterator["Callable[[StageProgress], None]"]:
    """A function that shows progress on standard error, within the block."""
    from videomme_pipeline.reports.terminal.progress import ProgressLines

    def show(progress: "StageProgress") -> None:
        wait = ", ".join(filter(None, [progress.workers, progress.wait]))
        lines.show(progress.what, progress.done, progress.total, failed=progress.failed, wait=wait)

    with ProgressLines(err) as lines:
        yield show
