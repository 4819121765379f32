"""The headline scores of several benchmarks side by side: rows of the view `across_benchmarks`."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

SETTINGS = ("model", "sampling", "track", "reader")


def across_rows(
    cells: Sequence[Mapping[str, Any]], benchmarks: Sequence[str], *, average: bool
) -> list[dict[str, Any]]:
    """One row per settings that were evaluated on one of `benchmarks`, the most complete first.

    `cells` are rows of the view `across_benchmarks`. `scores` has a cell for each of `benchmarks`,
    or None where nothing was evaluated. With `average`, a row has the mean of its scores, or None
    unless each of `benchmarks` was evaluated completely.
    """
    by_settings: dict[tuple[str, ...], dict[str, dict[str, Any] | None]] = {}
    for cell in cells:
        scores = by_settings.setdefault(tuple(cell[name] for name in SETTINGS), {})
        if cell["benchmark"] in benchmarks and cell["score"] is not None:
            others = {*SETTINGS, "benchmark"}
            scores[cell["benchmark"]] = {k: v for k, v in cell.items() if k not in others}
    rows = [
        dict(zip(SETTINGS, settings, strict=True))
        | {"scores": {name: scores.get(name) for name in benchmarks}}
        | ({"average": _average(scores, benchmarks)} if average else {})
        for settings, scores in by_settings.items()
        if scores
    ]
    return sorted(rows, key=lambda row: sum(cell is None for cell in row["scores"].values()))


def _average(scores: Mapping[str, Any], benchmarks: Sequence[str]) -> float | None:
    """The mean over all benchmarks, or None if one is missing or incomplete."""
    cells = [scores.get(name) for name in benchmarks]
    if any(cell is None or not cell["complete"] for cell in cells):
        return None
    return fmean(cell["score"] for cell in cells if cell is not None)
