"""Commands about published numbers: recipes, reproduce."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import (
    Annotations,
    AsJson,
    BenchmarkName,
    Columns,
    renamed_columns,
)
from videomme_pipeline.cli.context import (
    announce,
    note,
    open_for_run,
    open_project,
    out,
    own_store,
    print_json,
    show,
)
from videomme_pipeline.cli.stored_scores import file_options, stored_scores
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from videomme_pipeline.recipes.recipe import Recipe
    from videomme_pipeline.recipes.reproduction import Reproduction

commands = typer.Typer()


def _complete(typed: str) -> list[str]:
    from videomme_pipeline.recipes.recipe import recipe_names

    return [name for name in recipe_names() if name.startswith(typed)]


@commands.command(epilog="Example: videomme recipes qwen2.5-vl-7b")
def recipes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE", help="Show this recipe.", autocompletion=_complete),
    ] = None,
    benchmark: BenchmarkName = "videomme",
    as_json: AsJson = False,
) -> None:
    """List published numbers with their settings, or show one.

    A grade says where the settings come from: A code and answers of the authors, B
    a statement of the authors, C a measurement of others, D inferred.
    """
    from videomme_pipeline.recipes.recipe import find_recipe, recipes_of
    from videomme_pipeline.reports.terminal.recipes import show_recipe, show_recipes

    if as_json:
        chosen = {name: find_recipe(name)} if name else recipes_of(benchmark)
        print_json({key: recipe.model_dump(mode="json") for key, recipe in chosen.items()})
    elif name is not None:
        show_recipe(out, find_recipe(name))
    else:
        show_recipes(out, recipes_of(benchmark))


@commands.command(epilog="Example: videomme reproduce qwen2.5-vl-7b --from results.json")
def reproduce(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="Name of a recipe.", autocompletion=_complete)
    ],
    file: Annotated[
        Path | None, typer.Option("--from", help="Results file with the answers of the model.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model in models.yaml to ask, which may cost money.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Track of the value: with_subtitles or without_subtitles.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(metavar="USD", min=0.0, help="With --model: stop at this cost."),
    ] = None,
    annotations: Annotations = None,
    columns: Columns = None,
    as_json: AsJson = False,
) -> None:
    """Compare answers with a published number, as its recipe says.

    With --from, a results file is scored. With --model, the evaluation of the recipe
    is written, unless it exists, and run. Shows which settings nothing proves, and
    which ones nobody published.
    """
    from videomme_pipeline.recipes.recipe import find_recipe
    from videomme_pipeline.reports.terminal.recipes import show_reproduction

    if (file is None) == (model is None):
        raise ConfigurationError("give the answers with --from FILE, or a model with --model NAME")
    chosen = find_recipe(recipe)
    of_track = chosen.track(track)
    if model is not None:
        result = _ask(recipe, chosen, model, of_track, max_cost)
    else:
        announce("Scoring…")
        result = _score(recipe, chosen, file or Path(), of_track, annotations, columns)
    show(result, show_reproduction, as_json=as_json)


def _score(
    name: str,
    recipe: "Recipe",
    file: Path,
    track: str,
    annotations: Path | None,
    columns: list[str] | None,
) -> "Reproduction":
    """The answers in a results file, read as the recipe says."""
    from videomme_pipeline.formats.score_file import score_file
    from videomme_pipeline.recipes.reproduction import reproduce as compare

    options = file_options(
        own_store(),
        recipe.benchmark,
        recipe.used_reader.value,
        annotations,
        track=track,
        columns=renamed_columns(columns),
    )
    report = score_file(file, options)
    return compare(name, report.rows, track, notes=report.notes)


def _ask(
    name: str, recipe: "Recipe", model: str, track: str, max_cost: float | None
) -> "Reproduction":
    """The answers of a model to the evaluation of the recipe."""
    from videomme_pipeline.cli.run import PLANNING, end_if_not_fresh, report_run
    from videomme_pipeline.evaluation.writing import write_evaluation
    from videomme_pipeline.recipes.reproduction import reproduce as compare

    configuration = open_project().configuration
    configuration.catalog.find(model)
    evaluation = f"{name}-{model}-{track}"
    folder = configuration.folder / "evaluations"
    path = write_evaluation(folder, evaluation, recipe.evaluation(model, track))
    note(f"The evaluation is {path}")
    unproven = recipe.not_kept()
    for fact in unproven:
        note(f"Not kept: {fact}")
    note(PLANNING)
    from videomme_pipeline.assets.run import refresh_project

    with open_for_run([evaluation]) as (project, instance):
        refreshed = refresh_project(project, instance, [evaluation], max_cost)
    report_run(refreshed)
    end_if_not_fresh(refreshed)
    _, rows = stored_scores(project.store, evaluation)
    return compare(name, rows, track, unproven=unproven)
