"""Charts as pictures, for places that show one: the Dagster UI, a notebook, a README.

Each takes a connection to the DuckDB file and draws what a view says; nothing is computed. The
results page draws its own marks inside its tables and does not use these.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from videomme_pipeline.extras import needs_extra

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
        Text,
        Tooltip,
        X,
        Y,
        YOffset,
        condition,
        layer,
        value,
    )

SERIES_COLOURS = ("#3b2e8c", "#0f7a4d", "#9a2158", "#6f6a12", "#1f7a8c", "#4a4f57")
"""The page's colours: told apart by colour-blind readers, and each has a shape of its own."""

GROUP_COLUMNS = ("level", "second_head", "third_head", "group_type")
"""Columns of Video-MME-v2, which are scored by group."""

Picture = LayerChart | FacetChart


def breakdown_chart(
    connection: duckdb.DuckDBPyConnection,
    benchmark: str,
    column: str,
    evaluations: tuple[str, ...] | None = None,
    width_pixels: int = 420,
) -> Picture:
    """Score by `column` as dots with 95 % intervals, one lane per evaluation, n in the label.

    Columns of v2 (`GROUP_COLUMNS`) show the group score, all others the accuracy, in per cent.
    """
    rows = breakdown_rows(connection, benchmark, column, evaluations)
    title = "Group score" if column in GROUP_COLUMNS else "Accuracy %"
    names = sorted(rows["evaluation"].unique())
    colour = Color(
        "evaluation:N",
        scale=Scale(domain=names, range=list(SERIES_COLOURS)),
        legend=Legend(title=None, orient="top", symbolType="circle"),
    )
    base = Chart(rows).encode(
        y=Y("label:N", title=None, sort=None, axis=Axis(labelLimit=320)),
        yOffset=YOffset("evaluation:N", sort=names),
        color=colour,
        tooltip=[
            Tooltip("evaluation:N"),
            Tooltip("label:N", title=column),
            Tooltip("score:Q", format=".1f"),
            Tooltip("low:Q", format=".1f"),
            Tooltip("high:Q", format=".1f"),
        ],
    )
    axis = X("low:Q", title=f"{title}, 95 % interval", scale=Scale(domain=[0, 100]))
    intervals = base.mark_rule(strokeWidth=2).encode(x=axis, x2="high:Q")
    shape = Shape("evaluation:N", scale=Scale(domain=names), legend=None)
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(x="score:Q", shape=shape)
    height = Step(max(22, 12 * len(names)))
    return layer(intervals, dots).properties(width=width_pixels, height=height)


def parts_chart(parts: Sequence[Mapping[str, Any]], width_pixels: int = 320) -> Picture:
    """`value`, `score`, `low`, `high` (shares of 1) and `n` of a few parts, one line each."""
    rows = pd.DataFrame(
        [
            {
                "label": f"{part['value']}  (n {part['n']})",
                **{name: 100 * (part[name] or 0) for name in ("score", "low", "high")},
            }
            for part in parts
        ]
    )
    base = Chart(rows).encode(y=Y("label:N", title=None, sort=None, axis=Axis(labelLimit=320)))
    axis = X("low:Q", title="Score, 95 % interval", scale=Scale(domain=[0, 100]))
    intervals = base.mark_rule(strokeWidth=2, color=SERIES_COLOURS[0]).encode(x=axis, x2="high:Q")
    dots = base.mark_point(filled=True, size=50, opacity=1, color=SERIES_COLOURS[0])
    return layer(intervals, dots.encode(x="score:Q")).properties(
        width=width_pixels, height=Step(22)
    )


def breakdown_rows(
    connection: duckdb.DuckDBPyConnection,
    benchmark: str,
    column: str,
    evaluations: tuple[str, ...] | None = None,
) -> pd.DataFrame:
    """`evaluation`, `label` (value and n), `score`, `low`, `high`, in per cent."""
    grouped = column in GROUP_COLUMNS
    view = f"v2_by_{column}" if grouped else f"by_{column}"
    score = "group_score" if grouped else "accuracy"
    scale, size = (1, "groups") if grouped else (100, "questions")
    return connection.execute(
        f"""
        select evaluation, format('{{}}  (n {{}})', "{column}", max({size}) over same) as label,
               {scale} * {score} as score,
               greatest(0, {scale} * {score}_low) as low,
               least(100, {scale} * {score}_high) as high
        from "{view}"
        where benchmark = ? and (? is null or list_contains(?, evaluation))
        window same as (partition by "{column}")
        order by "{column}", evaluation
        """,
        [benchmark, evaluations, evaluations],
    ).df()


def heat_map(
    connection: duckdb.DuckDBPyConnection, benchmark: str, column: str = "sub_category"
) -> Picture:
    """`column` × evaluation; darker is better, with the score in each cell."""
    rows = breakdown_rows(connection, benchmark, column)
    base = Chart(rows).encode(
        x=X("evaluation:N", title=None, axis=Axis(labelAngle=-30)),
        y=Y("label:N", title=None, sort=None, axis=Axis(labelLimit=320)),
    )
    shade = Color("score:Q", scale=Scale(scheme="blues", domain=[0, 100]), title="%")
    ink = condition("datum.score > 60", value("white"), value("black"))
    cells = base.mark_rect().encode(color=shade)
    numbers = base.mark_text(fontSize=10).encode(text=Text("score:Q", format=".0f"), color=ink)
    return layer(cells, numbers).properties(width=Step(60), height=Step(18))


def svg(chart: Picture) -> str:
    """`chart` as an SVG picture, made without a browser."""
    with needs_extra("charts", "drawing charts"):
        import vl_convert  # noqa: PLC0415 - loads a JavaScript engine

    picture: str = vl_convert.vegalite_to_svg(chart.to_json())
    return picture
