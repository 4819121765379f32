"""Altair charts for the Dagster UI and notebooks, drawn from the views of the DuckDB file."""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.extras import needs_extra

with needs_extra("charts", "drawing charts"):
    import altair as alt
    import pandas as pd

SERIES_COLORS = ("#3b2e8c", "#0f7a4d", "#9a2158", "#6f6a12", "#1f7a8c", "#4a4f57")
"""The colors of the page, distinguishable for color-blind readers."""

FAILED_COLOR = "#d62728"

AltairChart = alt.LayerChart | alt.FacetChart

_WIDTH, _HEIGHT = 420, 200
"""Size of a chart in pixels."""
_LABELS = alt.Y("label:N", title=None, sort=None, axis=alt.Axis(labelLimit=320))
_PERCENT = alt.Scale(domain=[0, 100])


def breakdown_chart(
    connection: duckdb.DuckDBPyConnection, benchmark: str, column: str
) -> AltairChart:
    """Score by `column` as dots with 95% intervals, one line per evaluation, n in the label.

    The benchmark declares which score is shown: the group score or the accuracy in percent.
    """
    facet = find_benchmark(benchmark).facet(column)
    score = facet.measure.value
    is_grouped = facet.measure is Measure.GROUP_SCORE
    scale, size = (1, "groups") if is_grouped else (100, "questions")
    rows = connection.execute(
        f"""
        select evaluation, format('{{}}  (n {{}})', "{column}", max({size}) over same) as label,
               {scale} * {score} as score,
               greatest(0, {scale} * {score}_low) as low,
               least(100, {scale} * {score}_high) as high
        from "{facet.view}"
        where benchmark = ?
        window same as (partition by "{column}")
        order by "{column}", evaluation
        """,
        [benchmark],
    ).df()
    names = sorted(rows["evaluation"].unique())
    series = alt.Scale(domain=names, range=list(SERIES_COLORS))
    legend = alt.Legend(title=None, orient="top", symbolType="circle")
    numbers = [alt.Tooltip(f"{name}:Q", format=".1f") for name in ("score", "low", "high")]
    base = alt.Chart(rows).encode(
        y=_LABELS,
        yOffset=alt.YOffset("evaluation:N", sort=names),
        color=alt.Color("evaluation:N", scale=series, legend=legend),
        tooltip=[alt.Tooltip("evaluation:N"), alt.Tooltip("label:N", title=column), *numbers],
    )
    title = "Group score, 95% CI" if is_grouped else "Accuracy (%), 95% CI"
    intervals = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title, scale=_PERCENT), x2="high:Q"
    )
    shape = alt.Shape("evaluation:N", scale=alt.Scale(domain=names), legend=None)
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(x="score:Q", shape=shape)
    height = alt.Step(max(22, 12 * len(names)))
    return alt.layer(intervals, dots).properties(width=_WIDTH, height=height)


def parts_chart(parts: Sequence[Mapping[str, Any]]) -> AltairChart:
    """A few scores with their intervals, one per line.

    Each of `parts` has `value` (the label), `score`, `low`, `high` (from 0 to 1, or None) and `n`.
    """
    rows = pd.DataFrame(parts)
    scores = ["score", "low", "high"]
    rows[scores] = 100 * rows[scores].astype(float)
    rows["label"] = [f"{part['value']}  (n {part['n']})" for part in parts]
    base = alt.Chart(rows).encode(y=_LABELS, color=alt.value(SERIES_COLORS[0]))
    axis = alt.X("low:Q", title="Score, 95% CI", scale=_PERCENT)
    intervals = base.mark_rule(strokeWidth=2).encode(x=axis, x2="high:Q")
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(x="score:Q")
    return alt.layer(intervals, dots).properties(width=320, height=alt.Step(22))


def checkpoint_chart(points: Sequence[Mapping[str, Any]]) -> AltairChart:
    """Score against the training step with 95% intervals, one line per template.

    `points` are rows of `accuracy_by_checkpoint`. Each outcome of a gate has another mark.
    """
    rows = pd.DataFrame(points).dropna(subset="score")
    scores = ["score", "score_low", "score_high"]
    rows[scores] = 100 * rows[scores].astype(float)
    color = alt.Color(
        "template:N",
        scale=alt.Scale(range=list(SERIES_COLORS)),
        legend=alt.Legend(title=None, orient="top"),
    )
    axis = alt.Axis(tickCount=6, labelOverlap=True)
    base = alt.Chart(rows).encode(x=alt.X("step:Q", title="Training step", axis=axis), color=color)
    low = alt.Y("score_low:Q", title="Score, 95% CI", scale=alt.Scale(zero=False))
    intervals = base.mark_rule(strokeWidth=2).encode(y=low, y2="score_high:Q")
    outcomes = alt.Scale(
        domain=["passed", "undecided", "failed"], range=["circle", "diamond", "cross"]
    )
    shape = alt.Shape("outcome:N", scale=outcomes, legend=alt.Legend(title=None, orient="bottom"))
    gates = base.mark_point(filled=True, size=60, opacity=1).encode(y="score:Q", shape=shape)
    failed = gates.transform_filter(alt.datum.outcome == "failed")
    line = base.mark_line().encode(y="score:Q")
    failed = failed.encode(color=alt.value(FAILED_COLOR), size=alt.value(90))
    return alt.layer(line, intervals, gates, failed).properties(width=_WIDTH, height=_HEIGHT)
