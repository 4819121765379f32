"""Commands about published numbers: recipe list, show, run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import open_project, own_store
from videomme_pipeline.cli.gate import UNDECIDED
from videomme_pipeline.cli.output import announce, note, out, print_json, write
from videomme_pipeline.cli.run import PLANNING, end_if_not_fresh, run_evaluations
from videomme_pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from videomme_pipeline.recipes.recipe import Recipe
    from videomme_pipeline.scoring.scored_question import ScoredQuestion

commands = typer.Typer(
    no_args_is_help=True, help="Published numbers with their settings, and comparisons with them."
)

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="Name of a recipe.")]


@commands.command("list", epilog="Example: videomme recipe list")
def recipe_list(
    benchmark: arguments.BenchmarkName = None, as_json: arguments.AsJson = False
) -> None:
    """List published numbers.

    A grade says where the settings come from: A code and answers of the authors, B
    a statement of the authors, C a measurement of others, D inferred.
    """
    from videomme_pipeline.recipes.recipe import recipes_of
    from videomme_pipeline.reports.terminal.tables import show_rows

    recipes = recipes_of(benchmark or arguments.DEFAULT_BENCHMARK)
    if as_json:
        print_json({name: _facts(recipe) for name, recipe in recipes.items()})
        return
    rows = [
        {
            "recipe": name,
            "model": recipe.title,
            "track": track,
            "metric": metric,
            "published": f"{value:.1f}",
            "grade": recipe.grade,
            "compared": recipe.compared,
            "frames": recipe.settings.get("frames"),
        }
        for name, recipe in recipes.items()
        for track in recipe.published
        for metric, value in recipe.totals(track).items()
    ]
    show_rows(out, rows)


@commands.command("show", epilog="Example: videomme recipe show qwen2.5-vl-7b")
def recipe_show(name: RecipeName, as_json: arguments.AsJson = False) -> None:
    """Show a published number with its sources and settings."""
    import yaml

    from videomme_pipeline.recipes.recipe import find_recipe

    facts = _facts(find_recipe(name))
    if as_json:
        print_json(facts)
    else:
        write(yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=100))


def _facts(recipe: "Recipe") -> dict[str, Any]:
    """The facts in the file of a recipe, and the settings that nobody published."""
    stated = recipe.model_dump(mode="json", exclude_defaults=True)
    return stated | {"compared": recipe.compared, "not_published": recipe.not_published}


@commands.command("run", epilog="Example: videomme recipe run qwen2.5-vl-7b --from results.json")
def recipe_run(
    name: RecipeName,
    file: Annotated[
        Path | None, typer.Option("--from", help="Results file with the answers of the model.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model in models.yaml to ask, which may cost money.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Track of the value: with_subtitles or without_subtitles.")
    ] = None,
    max_cost: arguments.MaxCost = None,
    annotations: arguments.Annotations = None,
    columns: arguments.Columns = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Compare answers with a published number, as its recipe says.

    With --from, a results file is scored. With --model, the evaluation of the recipe
    is written, unless it exists, and run. Lists the settings that the answers do not
    confirm, and those that no source states. Exits with status 3 if the total is not
    consistent, or if too few questions have an answer for a verdict.
    """
    from videomme_pipeline.recipes.recipe import find_recipe
    from videomme_pipeline.recipes.reproduction import reproduce

    if (file is None) == (model is None):
        raise ConfigurationError("give the answers with --from FILE, or a model with --model NAME")
    recipe = find_recipe(name)
    of_track = recipe.track(track)
    if model is not None:
        rows = _ask(name, recipe, model, of_track, max_cost)
        result = reproduce(name, rows, of_track, is_evaluated=True)
    else:
        announce("Scoring…")
        from videomme_pipeline.cli.stored_scores import file_options
        from videomme_pipeline.formats.score_file import score_file

        reader, benchmark = recipe.reader.value, recipe.benchmark
        options = file_options(
            own_store(), benchmark, annotations, columns, reader=reader, track=of_track
        )
        report = score_file(file or Path(), options)
        result = reproduce(name, report.rows, of_track, notes=(*report.notes, *report.remarks))
    if as_json:
        print_json(result)
    else:
        write("\n".join(result.lines()) + "\n")
    if not result.is_consistent:
        raise typer.Exit(UNDECIDED)


def _ask(
    name: str, recipe: "Recipe", model: str, track: str, max_cost: float | None
) -> "Sequence[ScoredQuestion]":
    """The answers of a model to the evaluation of the recipe, which is written and run."""
    from videomme_pipeline.cli.stored_scores import stored_scores
    from videomme_pipeline.evaluation.writing import write_evaluation

    configuration = open_project().configuration
    evaluation = f"{name}-{model}-{track}"
    path = write_evaluation(configuration, evaluation, recipe.evaluation_of(model, track))
    note(f"The evaluation is {path}")
    for fact in recipe.not_proven(is_evaluated=True):
        note(f"Not kept: {fact}")
    note(PLANNING)
    project, refreshed = run_evaluations([evaluation], max_cost)
    end_if_not_fresh(refreshed)
    return stored_scores(project.store, evaluation)
