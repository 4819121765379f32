"""The entry point: every command by name, and how errors are shown."""

import sys

import typer
from rich.markup import escape

from videomme_pipeline.cli import cache, frames, results, run, setup
from videomme_pipeline.cli.context import err
from videomme_pipeline.errors import VideoMMEError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Evaluate video language models on Video-MME and Video-MME-v2.",
)
for group in (run, results, setup):
    app.add_typer(group.commands)
app.add_typer(frames.commands, name="frames")
app.add_typer(cache.commands, name="cache")


def main() -> None:
    """Run the command line. Print a `VideoMMEError` as one paragraph, without a traceback."""
    try:
        app()
    except VideoMMEError as error:
        err.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
