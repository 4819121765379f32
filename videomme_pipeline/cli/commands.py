"""Every command by name."""

import typer

from videomme_pipeline.cli import cache, frames, power, results, run, setup

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Evaluate video language models on Video-MME and Video-MME-v2.",
)
for group in (run, results, power, setup):
    app.add_typer(group.commands)
app.add_typer(frames.commands, name="frames")
app.add_typer(cache.commands, name="cache")
