"""Commands for stored data: cache ls, cache gc."""

from dataclasses import asdict
from typing import Annotated

import typer

from videomme_pipeline.cli.arguments import AsJson
from videomme_pipeline.cli.context import note, open_project, print_json, show

commands = typer.Typer(no_args_is_help=True, help="List what is stored, and free disk space.")


@commands.command("ls", epilog="Example: videomme cache ls")
def cache_ls(as_json: AsJson = False) -> None:
    """List the stored files by sampling, track or evaluation, and the evaluations that use them."""
    from videomme_pipeline.reports.terminal.shelves import show_shelves
    from videomme_pipeline.stages.data_folder import DataFolder

    shelves = [asdict(shelf) for shelf in DataFolder(open_project()).shelves()]
    show(shelves, show_shelves, as_json=as_json)


@commands.command("gc", epilog="Example: videomme cache gc --dry-run")
def cache_gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be freed. Remove nothing.")
    ] = False,
    sampling: Annotated[
        list[str] | None,
        typer.Option(help="Also remove all frames of this sampling, used or not. Repeatable."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation with --sampling.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove frames, packet indexes, subtitles and prompts that nothing uses.

    Keeps everything that evaluation files and samplings.yaml need, and all
    responses, scores and nightly runs.
    """
    from rich.filesize import decimal

    from videomme_pipeline.stages.data_folder import DataFolder, by_reason, remove

    project = open_project()
    folder = DataFolder(project)
    garbage = folder.garbage(sampling or ())
    reasons = by_reason(garbage)
    freed = sum(file.bytes for file in garbage)
    for reason in reasons:
        note(f"{reason['files']:,} files, {decimal(reason['bytes'])}: {reason['why']}")
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
