"""Published results of the benchmarks, which the page shows as reference rows."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from videomme_pipeline.recipes.recipe import recipes_of
from videomme_pipeline.scoring.findings.run import PublishedCell


@cache
def published_results(benchmark: str) -> dict[str, Any] | None:
    """The published leaderboard of `benchmark`, or None if there is none (smoke benchmarks).

    `rows` have, for each of `parts`, the scores without and with subtitles as fractions.
    """
    file = files("videomme_pipeline.reports").joinpath("published_results", f"{benchmark}.json")
    if not file.is_file():
        return None
    leaderboard = json.loads(file.read_text(encoding="utf-8"))
    parts = list(leaderboard["parts"].items())
    rows = [
        {**row, "published": True} | {part: _fractions(row[part]) for part, _ in parts}
        for row in leaderboard["rows"]
    ]
    return {**leaderboard, "parts": parts, "rows": rows}


def published_cells(benchmark: str) -> list[PublishedCell]:
    """The published accuracies of `benchmark` by part, one cell per model or recipe and track."""
    leaderboard = published_results(benchmark) or {"rows": [], "parts": []}
    parts = [part for part, _ in leaderboard["parts"]]
    cells = [
        PublishedCell(
            f"{row['model']} {row.get('parameters') or ''} {track} subtitles",
            {part: 100 * row[part][track] for part in parts if row[part][track] is not None},
        )
        for row in leaderboard["rows"]
        for track in ("without", "with")
    ]
    return cells + [
        PublishedCell(f"{name} {track}", values)
        for name, recipe in recipes_of(benchmark).items()
        for track, values in recipe.published.items()
        if len(values) > 1
    ]


def _fractions(scores: dict[str, float | None]) -> dict[str, float | None]:
    return {
        track: None if score is None else round(score / 100, 5) for track, score in scores.items()
    }
