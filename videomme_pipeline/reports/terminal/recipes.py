"""Recipes and reproductions on a terminal."""

from collections.abc import Mapping

from rich.console import Console

from videomme_pipeline.recipes.recipe import OVERALL, Recipe
from videomme_pipeline.recipes.reproduction import Reproduction
from videomme_pipeline.reports.terminal.tables import show_line, show_rows


def show_recipes(console: Console, recipes: Mapping[str, Recipe]) -> None:
    """Print one row per recipe."""
    rows = [
        {
            "recipe": name,
            "model": recipe.title,
            "without": _overall(recipe, "without_subtitles"),
            "with": _overall(recipe, "with_subtitles"),
            "grade": recipe.grade,
            "frames": recipe.frames or "not published",
        }
        for name, recipe in recipes.items()
    ]
    show_rows(console, rows)


def show_recipe(console: Console, recipe: Recipe) -> None:
    """Print every fact of one recipe, and what was not published."""
    for key, value in recipe.model_dump(mode="json", exclude_none=True).items():
        if value:
            show_line(console, f"{key}: {_text(value)}")
    show_line(console, f"not published: {', '.join(recipe.not_published) or 'nothing'}")


def show_reproduction(console: Console, result: Reproduction) -> None:
    """Print the comparison, line by line, and everything that is not proven."""
    for value in result.values:
        title = f"{result.recipe}, {result.track}, grade {result.grade}"
        show_line(console, f"{title if value.part == OVERALL else value.part}: {value}")
    for text in result.unproven:
        show_line(console, f"Not proven: {text}")
    if result.not_published:
        show_line(console, f"Not published: {', '.join(result.not_published)}")
    for text in result.contradicted_by:
        show_line(console, f"Another source says: {text}")
    for text in result.notes:
        show_line(console, f"Note: {text}")


def _overall(recipe: Recipe, track: str) -> str:
    values = recipe.published.get(track)
    return f"{values[OVERALL]:.1f}" if values else ""


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    return str(value)
