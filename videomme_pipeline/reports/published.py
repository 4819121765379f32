"""Published results of the benchmarks, which the page shows as reference rows."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.recipes.recipe import recipes_of
from videomme_pipeline.scoring.findings.run import GROUP_SCORE, OVERALL, PublishedCell


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
    rows = [{**row, "published": True} for row in leaderboard["rows"]]
    for row in rows:
        for part, _ in parts:
            row[part] = {
                track: None if score is None else round(score / 100, 5)
                for track, score in row[part].items()
            }
    return {**leaderboard, "parts": parts, "rows": rows}


def published_cells(benchmark: str) -> list[PublishedCell]:
    """The published scores of `benchmark` by part, one cell per model or recipe and track."""
    leaderboard = published_results(benchmark) or {"rows": [], "parts": []}
    total = GROUP_SCORE if find_benchmark(benchmark).grouping else OVERALL
    names = {part: total if part == OVERALL else part for part, _ in leaderboard["parts"]}
    cells = [
        PublishedCell(
            f"{' '.join(filter(None, (row['model'], row.get('parameters'))))} "
            f"(frames: {row['frames']}) {track} subtitles",
            {name: 100 * row[p][track] for p, name in names.items() if row[p][track] is not None},
        )
        for row in leaderboard["rows"]
        for track in ("without", "with")
    ]
    return cells + [
        PublishedCell(f"{name} {track}", values)
        for name, recipe in recipes_of(benchmark).items()
        for track, values in recipe.published.items()
    ]
