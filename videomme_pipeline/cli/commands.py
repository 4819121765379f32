"""Every command by name."""

from typing import Annotated

import typer

from videomme_pipeline.cli import (
    audit,
    cache,
    checkpoints,
    frames,
    gate,
    power,
    probe,
    race,
    recipes,
    results,
    run,
    score,
    serve,
    setup,
    store,
    sweep,
)
from videomme_pipeline.cli.context import write

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate video language models on Video-MME and Video-MME-v2.",
)
for group in (run, sweep, score, audit, gate, race, recipes, checkpoints, results, power):
    app.add_typer(group.commands)
for group in (setup, probe):
    app.add_typer(group.commands)
app.add_typer(serve.commands)
app.add_typer(frames.commands, name="frames")
app.add_typer(cache.commands, name="cache")
app.add_typer(store.commands, name="store")


def _show_version(is_given: bool) -> None:
    from videomme_pipeline import __version__

    if is_given:
        write(f"videomme {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of all commands."""
