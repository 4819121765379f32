"""Published results of the benchmarks, shown beside our own and always marked as published.

Facts with their source, in `published_results/*.json`; scores are in per cent as they were
published. None of them was measured here, and none enters any computation.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def published_results(benchmark: str) -> dict[str, Any] | None:
    """The published leaderboard of `benchmark`, None where there is none (smoke benchmarks).

    `rows` hold, for each of `parts`, the scores without and with subtitles as fractions.
    """
    file = files("videomme_pipeline.reports").joinpath("published_results", f"{benchmark}.json")
    if not file.is_file():
        return None
    held = json.loads(file.read_text(encoding="utf-8"))
    parts = list(held["parts"].items())
    rows = [
        {**row, "published": True} | {part: _fractions(row[part]) for part, _ in parts}
        for row in held["rows"]
    ]
    return {**held, "parts": parts, "rows": rows}


def _fractions(scores: dict[str, float | None]) -> dict[str, float | None]:
    return {
        track: None if score is None else round(score / 100, 5) for track, score in scores.items()
    }
