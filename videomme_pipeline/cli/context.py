"""The project of a command, its Dagster instance, and their progress on standard error."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from videomme_pipeline.cli.output import err, note
from videomme_pipeline.cli.stopping import on_stop
from videomme_pipeline.reports.terminal.tables import show_line

if TYPE_CHECKING:
    from videomme_pipeline.assets.instance import Instance
    from videomme_pipeline.project.project import Project
    from videomme_pipeline.project.runs.progress import StageProgress
    from videomme_pipeline.storage.layout import Store


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
            show_line(err, str(problem), "Skipped:", "yellow")
    return project


def own_store() -> "Store | None":
    """The store of the project in the current folder, whose benchmarks are then known, or None."""
    from videomme_pipeline.project.project import configuration_folder, is_project

    return open_project().store if is_project(configuration_folder()) else None


@contextmanager
def open_for_plan(evaluations: "Sequence[str] | None") -> Iterator["Project"]:
    """Open the project as `open_project` does. Its progress is shown on standard error."""
    with showing_progress() as show_progress:
        yield open_project(show_progress, evaluations)


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
    if programs := project.programs():
        note("The configuration names programs that runs start with your rights:")
        for program in programs:
            note(f"  {program}")


@contextmanager
def showing_progress() -> Iterator["Callable[[StageProgress], None]"]:
    """A function that shows progress on standard error, within the block."""
    from videomme_pipeline.reports.terminal.progress import progress_on

    def show(progress: "StageProgress") -> None:
        wait = ", ".join(filter(None, [progress.workers, progress.wait]))
        write(progress.what, progress.done, progress.total, failed=progress.failed, wait=wait)

    with progress_on(err) as write:
        yield show
