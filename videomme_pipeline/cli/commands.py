"""Every command by name, and the panel of `videomme --help` that lists it."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

from videomme_pipeline.cli import cache, checkpoints, gate, recipes, results, run, score, setup, ui
from videomme_pipeline.cli.output import write

PANELS = {
    "Start": ("init", "doctor", "ui"),
    "Evaluate": ("run", "status", "sweep", "frames"),
    "Compare": ("compare", "gate", "race", "power", "recipe"),
    "Results": ("score", "audit", "read", "scores", "report", "sql", "export"),
    "Training": ("checkpoint", "nightly"),
    "Maintenance": ("cache",),
}
"""The commands by the title of their panel, in the order of `--help`."""
HELP_OPTIONS = ["-h", "--help"]


class Commands(TyperGroup):
    """All commands in their panels."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for title, names in PANELS.items():
            for name in names:
                command: Any = self.commands[name]
                command.rich_help_panel = title

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [name for names in PANELS.values() for name in names]

    def make_context(self, *arguments: Any, **attributes: Any) -> Any:
        _hide_types(self)
        return super().make_context(*arguments, **attributes)


def _hide_types(command: Any) -> None:
    """Let `--help` show no Python type of an option, such as `<bool>`."""
    for parameter in command.get_params(typer.Context(command, help_option_names=HELP_OPTIONS)):
        if isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = ""
    for member in getattr(command, "commands", {}).values():
        _hide_types(member)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS},
    help="Evaluate video language models on Video-MME and Video-MME-v2.",
)
for group in (setup, ui, run, score, gate, results):
    app.add_typer(group.commands)
app.add_typer(cache.frames, name="frames")
app.add_typer(recipes.commands, name="recipe")
app.add_typer(checkpoints.commands, name="checkpoint")
app.add_typer(cache.commands, name="cache")


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
