"""Output of `videomme compare`."""

from typing import Any

from rich.console import Console

from videomme_pipeline.errors import one_line
from videomme_pipeline.reports.gate import interval, tested
from videomme_pipeline.reports.terminal.tables import percent, show_rows
from videomme_pipeline.scoring.statistics.compare import Comparison
from videomme_pipeline.scoring.statistics.estimates import PairedDifference, p_value_text
from videomme_pipeline.scoring.statistics.gate import check_difference
from videomme_pipeline.scoring.statistics.power import LEVEL

_TITLES = {
    "a": "A",
    "b": "B",
    "difference": "B − A",
    "interval": "95% CI",
    "adjusted_p_value": "adjusted p",
    "p_value": "p",
}


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Print B minus A: overall, the settings that differ, and every breakdown.

    Differences are in points of accuracy, or of the group score if the benchmark has groups.
    """
    part = " of the questions that both answered" if comparison.unanswered else ""
    lines = [
        f"A  {one_line(comparison.evaluation_a)}  {percent(comparison.accuracy_a.mean)}{part}",
        f"B  {one_line(comparison.evaluation_b)}  {percent(comparison.accuracy_b.mean)}{part}",
        f"Accuracy B − A  {_conclusion(comparison.accuracy, 100)}",
    ]
    if comparison.group_score is not None:
        lines.append(f"Group score B − A  {_conclusion(comparison.group_score, 1)}")
    if comparison.mean_over is not None:
        lines.append(f"Headline B − A  {_conclusion(comparison.mean_over, 100)}")
    lines.append(
        f"{comparison.accuracy.difference.values:,} questions answered by both: "
        f"{len(comparison.lost):,} correct only in A, {len(comparison.won):,} correct only in B, "
        f"{percent(comparison.flip_rate.mean)} with different letters; "
        f"{len(comparison.failed):,} failed in A or B"
    )
    if comparison.same_answers:
        lines.append("A and B have the same answers")
    if comparison.only_a or comparison.only_b:
        lines.append(
            "Only answers that both have are compared. A has other answers to "
            f"{len(comparison.only_a):,} questions, B to {len(comparison.only_b):,}"
        )
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    settings = [
        {"setting": setting.key, "a": setting.a or "–", "b": setting.b or "–"}
        for setting in comparison.changed_settings
    ]
    for rows in (settings, marginal_rows(comparison)):
        if rows:
            console.print()
            show_rows(console, rows, _TITLES)


def marginal_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per value of each breakdown, the largest difference of a breakdown first."""
    unit = 100 if comparison.group_score is None else 1
    columns = list(dict.fromkeys(marginal.column for marginal in comparison.marginals))
    ordered = sorted(
        comparison.marginals,
        key=lambda m: (columns.index(m.column), -abs(m.difference.difference.mean)),
    )
    checks = [check_difference(m.value, m.difference, None, scale=unit) for m in ordered]
    return [
        {
            "by": m.column,
            "value": m.value,
            "a": f"{unit * m.accuracy_a:.1f}",
            "b": f"{unit * m.accuracy_b:.1f}",
            "difference": f"{check.difference:+.1f}",
            "interval": "" if check.low is None else interval(check),
            "n": m.n,
            "p_value": p_value_text(check.p_value),
            "adjusted_p_value": p_value_text(m.adjusted_p_value),
            "significant": "yes" if m.significant else "",
        }
        for m, check in zip(ordered, checks, strict=True)
    ]


def _conclusion(paired: PairedDifference, unit: int) -> str:
    """A text: "significant: +9.7 points (95% CI +3.1 to +16.2, p 0.0031, 90 videos)"."""
    significant = "significant" if paired.p_value <= LEVEL else "not significant"
    return f"{significant}: {tested(check_difference('', paired, None, scale=unit))}"
