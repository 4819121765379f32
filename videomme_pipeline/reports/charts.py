"""Altair charts for the Dagster UI and notebooks, drawn from the views of the DuckDB file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import duckdb

from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.extras import needs_extra
from videomme_pipeline.scoring.recorded_look import RecordedLook

with needs_extra("charts", "drawing charts"):
    import pandas as pd
    from altair import (
        Axis,
        Chart,
        Color,
        FacetChart,
        LayerChart,
        Legend,
        Scale,
        Shape,
        Step,
        Tooltip,
        X,
        Y,
        YOffset,
        layer,
    )

SERIES_COLORS = ("#3b2e8c", "#0f7a4d", "#9a2158", "#6f6a12", "#1f7a8c", "#4a4f57")
"""The colors of the page, distinguishable for color-blind readers."""

AltairChart = LayerChart | FacetChart


def breakdown_chart(
    connection: duckdb.DuckDBPyConnection,
    benchmark: str,
    column: str,
    evaluations: tuple[str, ...] | None = None,
    width_pixels: int = 420,
) -> AltairChart:
    """Score by `column` as dots with 95% intervals, one line per evaluation, n in the label.

    The benchmark declares which score is shown: the group score or the accuracy in percent.
    """
    rows = breakdown_rows(connection, benchmark, column, evaluations)
    facet = find_benchmark(benchmark).facet(column)
    title = "Group score" if facet.measure is Measure.GROUP_SCORE else "Accuracy (%)"
    names = sorted(rows["evaluation"].unique())
    color = Color(
        "evaluation:N",
        scale=Scale(domain=names, range=list(SERIES_COLORS)),
        legend=Legend(title=None, orient="top", symbolType="circle"),
    )
    base = Chart(rows).encode(
        y=Y("label:N", title=None, sort=None, axis=Axis(labelLimit=320)),
        yOffset=YOffset("evaluation:N", sort=names),
        color=color,
        tooltip=[
            Tooltip("evaluation:N"),
            Tooltip("label:N", title=column),
            Tooltip("score:Q", format=".1f"),
            Tooltip("low:Q", format=".1f"),
            Tooltip("high:Q", format=".1f"),
        ],
    )
    axis = X("low:Q", title=f"{title}, 95% CI", scale=Scale(domain=[0, 100]))
    intervals = base.mark_rule(strokeWidth=2).encode(x=axis, x2="high:Q")
    shape = Shape("evaluation:N", scale=Scale(domain=names), legend=None)
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(x="score:Q", shape=shape)
    height = Step(max(22, 12 * len(names)))
    return layer(intervals, dots).properties(width=width_pixels, height=height)


def parts_chart(parts: Sequence[Mapping[str, Any]], width_pixels: int = 320) -> AltairChart:
    """A few scores with their intervals, one per line.

    Each of `parts` has `value` (the label), `score`, `low`, `high` (from 0 to 1, or None) and `n`.
    """
    rows = pd.DataFrame(
        [
            {
                "label": f"{part['value']}  (n {part['n']})",
                **{name: part[name] and 100 * part[name] for name in ("score", "low", "high")},
            }
            for part in parts
        ]
    )
    base = Chart(rows).encode(y=Y("label:N", title=None, sort=None, axis=Axis(labelLimit=320)))
    axis = X("low:Q", title="Score, 95% CI", scale=Scale(domain=[0, 100]))
    intervals = base.mark_rule(strokeWidth=2, color=SERIES_COLORS[0]).encode(x=axis, x2="high:Q")
    dots = base.mark_point(filled=True, size=50, opacity=1, color=SERIES_COLORS[0])
    return layer(intervals, dots.encode(x="score:Q")).properties(
        width=width_pixels, height=Step(22)
    )


def checkpoint_chart(points: Sequence[Mapping[str, Any]], width_pixels: int = 420) -> AltairChart:
    """Score against the training step with 95% intervals, one line per template.

    `points` are rows of `accuracy_by_checkpoint`. Each outcome of a gate has another mark.
    """
    rows = pd.DataFrame(points).dropna(subset="score")
    scores = ["score", "score_low", "score_high"]
    rows[scores] = 100 * rows[scores].astype(float)
    title = Legend(title=None, orient="top")
    base = Chart(rows).encode(
        x=X("step:Q", title="Training step"),
        color=Color("template:N", scale=Scale(range=list(SERIES_COLORS)), legend=title),
    )
    axis = Y("score_low:Q", title="Score, 95% CI", scale=Scale(zero=False))
    intervals = base.mark_rule(strokeWidth=2).encode(y=axis, y2="score_high:Q")
    line = base.mark_line().encode(y="score:Q")
    marks = base.mark_point(filled=True, size=60, opacity=1)
    outcomes = Scale(domain=["passed", "undecided", "failed"], range=["circle", "diamond", "cross"])
    gates = marks.encode(y="score:Q", shape=Shape("outcome:N", scale=outcomes, legend=title))
    return layer(line, intervals, gates).properties(width=width_pixels, height=200)


def race_chart(looks: Sequence[RecordedLook], width_pixels: int = 420) -> AltairChart:
    """Difference in points against the videos asked, with 95% intervals.

    A difference beyond the band is found, and the dashed lines are the margin.
    """
    rows = pd.DataFrame(map(asdict, looks))
    rows["least"] = -rows["boundary"]
    base = Chart(rows).encode(x=X("videos:Q", title="Videos asked"))
    axis = Y("difference:Q", title="Difference in points, 95% CI")
    bounds = base.mark_area(color="#e6e6ea").encode(y="least:Q", y2="boundary:Q")
    margins = Chart(pd.DataFrame({"margin": [looks[0].margin, -looks[0].margin]}))
    dashes = margins.mark_rule(strokeDash=[4, 4]).encode(y="margin:Q")
    intervals = base.mark_rule(strokeWidth=2, color=SERIES_COLORS[0]).encode(
        y="difference_low:Q", y2="difference_high:Q"
    )
    line = base.mark_line(point=True, color=SERIES_COLORS[0]).encode(y=axis)
    return layer(bounds, dashes, intervals, line).properties(width=width_pixels, height=200)


def breakdown_rows(
    connection: duckdb.DuckDBPyConnection,
    benchmark: str,
    column: str,
    evaluations: tuple[str, ...] | None = None,
) -> pd.DataFrame:
    """Rows with `evaluation`, `label` (value and n), `score`, `low` and `high`, in %."""
    facet = find_benchmark(benchmark).facet(column)
    score = facet.measure.value
    scale, size = (1, "groups") if facet.measure is Measure.GROUP_SCORE else (100, "questions")
    return connection.execute(
        f"""
        select evaluation, format('{{}}  (n {{}})', "{column}", max({size}) over same) as label,
               {scale} * {score} as score,
               greatest(0, {scale} * {score}_low) as low,
               least(100, {scale} * {score}_high) as high
        from "{facet.view}"
        where benchmark = ? and (? is null or list_contains(?, evaluation))
        window same as (partition by "{column}")
        order by "{column}", evaluation
        """,
        [benchmark, evaluations, evaluations],
    ).df()
