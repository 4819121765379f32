"""Commands for stored data: cache ls, gc, verify, journal."""

from dataclasses import asdict
from typing import Annotated

import typer

from videomme_pipeline.cli.arguments import AsJson, DryRun
from videomme_pipeline.cli.context import note, open_project, print_json, show

commands = typer.Typer(
    no_args_is_help=True, help="List, verify or move what is stored, and free disk space."
)


@commands.command("ls", epilog="Example: videomme cache ls")
def cache_ls(as_json: AsJson = False) -> None:
    """List the stored files by sampling, track or evaluation, and the evaluations that use them."""
    from videomme_pipeline.reports.terminal.lists import show_shelves
    from videomme_pipeline.stages.data_folder import DataFolder

    shelves = [asdict(shelf) for shelf in DataFolder(open_project()).shelves()]
    show(shelves, show_shelves, as_json=as_json)


@commands.command("gc", epilog="Example: videomme cache gc --dry-run")
def cache_gc(
    dry_run: DryRun = False,
    sampling: Annotated[
        list[str] | None,
        typer.Option(help="Also remove all frames of this sampling, used or not. Repeatable."),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EVALUATION",
            help="Also remove the scores of an evaluation whose file is gone. Its answers stay in "
            "the journal. Repeatable.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation with --sampling.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove frames, packet indexes, subtitles and prompts that nothing needs.

    Keeps what evaluation files, samplings.yaml and shown scores need, files of
    the last 30 days, and all responses, scores and nightly runs.
    """
    from rich.filesize import decimal

    from videomme_pipeline.stages.data_folder import DataFolder, by_reason, remove

    project = open_project()
    for name in forget or ():
        note(f"{'Would forget' if dry_run else 'Forgets'} {name}")
        if not dry_run:
            DataFolder(project).forget(name)
    folder = DataFolder(project)
    garbage = folder.garbage(sampling or ())
    reasons = by_reason(garbage)
    freed = sum(file.bytes for file in garbage)
    for reason in reasons:
        again = f", {reason['cpu_seconds']:,} CPU seconds to build again"
        size = decimal(reason["bytes"]) + (again if reason["cpu_seconds"] else "")
        note(f"{reason['files']:,} files, {size}: {reason['why']}")
    for shelf in folder.shelves():
        if shelf.kind == "frames" and shelf.name in (sampling or ()) and shelf.named_by:
            users = ", ".join(shelf.named_by)
            note(f"{shelf.name} is used by {users}; their frames will be extracted again")
    if dry_run:
        note(f"Would free {decimal(freed)}. Nothing was removed.")
    else:
        if sampling and not yes:
            typer.confirm(f"Remove {len(garbage):,} files?", abort=True, err=True)
        remove(garbage)
        project.store.remove_left_over()
        note(f"Freed {decimal(freed)}.")
    if as_json:
        print_json({"removed": not dry_run, "bytes": freed, "garbage": reasons})


@commands.command("verify", epilog="Example: videomme cache verify ~/backup")
def cache_verify(
    url: Annotated[
        str, typer.Argument(help="A folder, or an fsspec URL such as s3://bucket/folder.")
    ],
) -> None:
    """Verify all bytes of the tables of a store. Damaged tables are set aside."""
    from videomme_pipeline.storage.layout import Store
    from videomme_pipeline.storage.tables import verify

    intact, problems = verify(Store.at(url, title="store").tables())
    for problem in problems:
        note(problem)
    note(f"{len(intact):,} tables are intact, {len(problems):,} are not.")
    if problems:
        raise typer.Exit(1)


@commands.command("journal", epilog="Example: videomme cache journal data/local/journal.sqlite")
def cache_journal(
    source: Annotated[
        str,
        typer.Argument(help="An SQLite file, or postgresql+psycopg2://user:password@host/name."),
    ],
) -> None:
    """Copy another journal into the journal of this project, and verify both.

    The journal of this project is in PostgreSQL if VIDEOMME_POSTGRES_URL is set, and otherwise an
    SQLite file. An SQLite file that was copied is renamed to `….copied`, so that no run uses it.
    """
    from videomme_pipeline.project.runs.journal import copy_into

    copied = copy_into(open_project().store, source)
    for table in copied:
        kept = f", and {table.different:,} others were kept" if table.different else ""
        note(f"Copied {table.copied:,} {table.name}; {table.same:,} were there already{kept}.")
