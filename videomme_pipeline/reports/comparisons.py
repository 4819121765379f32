"""Paired comparisons of evaluations for the page, computed by `scoring.statistics.compare`."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.reports.json_values import Json, rounded
from videomme_pipeline.reports.stored import ScoredEvaluation
from videomme_pipeline.scoring.statistics.compare import (
    FALSE_DISCOVERY_RATE,
    Comparison,
    Marginal,
    compare,
)
from videomme_pipeline.scoring.statistics.estimates import PairedDifference

MOST_PAIRS = 45
"""All pairs of ten evaluations. With more, the page has only the pairs with the best one."""


def comparisons(
    evaluations: Sequence[ScoredEvaluation], ranking: Sequence[int], titles: Mapping[str, str]
) -> list[Json]:
    """The differences b minus a of pairs (a, b) of indexes in `evaluations`.

    `ranking` has the indexes, best first. Pairs without a question answered by both are left out.
    Differences are fractions of one.
    """
    pairs = list(combinations(range(len(evaluations)), 2))
    if len(pairs) > MOST_PAIRS:
        pairs = [(ranking[0], other) for other in ranking[1:]]
    compared = []
    for a, b in pairs:
        try:
            found = compare(evaluations[a].rows, evaluations[b].rows)
        except ScoringError:
            continue
        compared.append({"a": a, "b": b} | _comparison(found, titles))
    return compared


def overall_difference(found: Comparison) -> Json:
    """The overall difference: of the group score if there is one, else of the accuracy."""
    grouped = found.group_score is not None
    overall = found.group_score or found.mean_over or found.accuracy
    return _difference(overall, 100 if grouped else 1) | {
        "p": _significant_digits(overall.p_value),
        "significant": overall.p_value < FALSE_DISCOVERY_RATE,
        "by": "Group score" if grouped else "Mean accuracy" if found.mean_over else "Accuracy",
        "value": "All groups" if grouped else "All questions",
    }


def _comparison(found: Comparison, titles: Mapping[str, str]) -> Json:
    scale = 1 if found.group_score is None else 100
    columns = list(titles)
    marginals = sorted(found.marginals, key=lambda marginal: columns.index(marginal.column))
    return {
        "overall": overall_difference(found),
        "flip_rate": found.flip_rate.mean,
        "won": len(found.won),
        "lost": len(found.lost),
        "failed": len(found.failed),
        "marginals": [_marginal(marginal, scale, titles) for marginal in marginals],
    }


def _marginal(marginal: Marginal, scale: int, titles: Mapping[str, str]) -> Json:
    return _difference(marginal.difference, scale) | {
        "by": titles[marginal.column],
        "value": marginal.value,
        "p": _significant_digits(marginal.adjusted_p_value),
        "significant": marginal.significant,
    }


def _difference(paired: PairedDifference, scale: int) -> Json:
    return {
        "n": paired.difference.values,
        "difference": rounded(paired.difference.mean, scale),
        "low": rounded(paired.difference.low, scale),
        "high": rounded(paired.difference.high, scale),
    }


def _significant_digits(p_value: float) -> float:
    """A p-value with four significant digits, so that a small one is not 0."""
    return float(f"{p_value:.4g}")
