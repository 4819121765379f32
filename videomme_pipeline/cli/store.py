"""Commands for copies of stored data: store push, store pull."""

from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.context import note, open_project, showing_progress

if TYPE_CHECKING:
    from videomme_pipeline.storage.layout import Store

commands = typer.Typer(
    no_args_is_help=True,
    help="Copy finished tables from or to another place.",
)

Url = Annotated[str, typer.Argument(help="A folder, or an fsspec URL such as s3://bucket/folder.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that have another content.")
]


@commands.command("push", epilog="Example: videomme store push ~/backup")
def store_push(
    url: Url,
    overwrite: Overwrite = False,
    private: Annotated[
        bool, typer.Option("--private", help="All readers of the target accepted the licenses.")
    ] = False,
) -> None:
    """Copy all finished tables from the data folder. Run it again to resume.

    Also verifies the journal, which is not copied, and exits with status 1 if it
    is damaged.
    """
    from videomme_pipeline.errors import StorageError
    from videomme_pipeline.project.runs.journal import journal_of
    from videomme_pipeline.project.upkeep.transfer import check_license
    from videomme_pipeline.storage.layout import Store

    store = open_project().store
    check_license(store, is_private=private)
    damage = None
    try:
        journal_of(store).verify()
    except StorageError as error:
        damage = error
        note(str(error))
    _copy(store, Store.at(url, title="target"), overwrite=overwrite)
    if damage is not None:
        raise typer.Exit(1)


@commands.command("pull", epilog="Example: videomme store pull ~/backup")
def store_pull(url: Url, overwrite: Overwrite = False) -> None:
    """Copy all finished tables into the data folder. Run it again to resume."""
    from videomme_pipeline.storage.layout import Store

    _copy(Store.at(url, title="source"), open_project().store, overwrite=overwrite)


def _copy(source: "Store", target: "Store", *, overwrite: bool) -> None:
    from rich.filesize import decimal

    from videomme_pipeline.project.upkeep.transfer import copy_tables

    with showing_progress() as show:
        copied = copy_tables(source, target, overwrite=overwrite, on_progress=show)
    for name in copied.different:
        note(f"{name}: kept, has another content; `--overwrite` replaces it")
    for problem in copied.problems:
        note(problem)
    note(
        f"Copied {copied.copied:,} files ({decimal(copied.bytes)}) to {target.root}; "
        f"{copied.same:,} were there already."
    )
    if copied.different or copied.problems:
        raise typer.Exit(1)
