"""The headline scores of several benchmarks side by side: rows of the view `across_benchmarks`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.subtitles.align import Alignment

SETTINGS = (
    "model", "sampling", "track", "subtitles", "prompt", "generation", "reader", "repeats",
)  # fmt: skip


def with_settings(row: Mapping[str, Any], specification: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the view with the settings in the stored `specification` of its evaluation.

    The prompt of a benchmark is named without the benchmark, so that `authors` is one setting.
    """
    alignment = specification.get("alignment")
    usual = Generation().model_dump()
    generation = specification.get("generation") or {}
    changed = [f"{key} {value}" for key, value in generation.items() if value != usual.get(key)]
    prompt = (specification.get("template") or {}).get("name", "")
    return {
        **row,
        "subtitles": Alignment.model_validate(alignment).name if alignment else "none",
        "prompt": prompt.removeprefix(f"{row['benchmark']}."),
        "generation": ", ".join(changed) or "default",
        "repeats": str(row["repeats"]),
    }


def across_rows(
    cells: Sequence[Mapping[str, Any]], benchmarks: Sequence[str]
) -> list[dict[str, Any]]:
    """The evaluations by their settings, those of the most complete settings first.

    `cells` are results of `with_settings`. `scores` of a row has a cell or None for each of
    `benchmarks`. Several evaluations of one benchmark with the same settings are in further rows,
    the most complete and newest one first.
    """
    evaluated: dict[tuple[str, ...], dict[str, list[Mapping[str, Any]]]] = {}
    for cell in cells:
        if cell["benchmark"] in benchmarks:
            settings = tuple(cell[name] for name in SETTINGS)
            by_benchmark = evaluated.setdefault(settings, defaultdict(list))
            by_benchmark[cell["benchmark"]].append(cell)
    rows = []
    for settings, by_benchmark in evaluated.items():
        columns = [sorted(by_benchmark[name], key=_rank, reverse=True) for name in benchmarks]
        for scores in zip_longest(*columns):
            row: dict[str, Any] = dict(zip(SETTINGS, settings, strict=True))
            row["scores"] = dict(zip(benchmarks, map(_without_settings, scores), strict=True))
            rows.append(row)
    return sorted(rows, key=lambda row: sum(cell is None for cell in row["scores"].values()))


def _rank(cell: Mapping[str, Any]) -> tuple[bool, str]:
    return cell["complete"], str(cell["answered_at"])


def _without_settings(cell: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    left_out = {*SETTINGS, "benchmark", "answered_at"}
    return {key: value for key, value in cell.items() if key not in left_out}
