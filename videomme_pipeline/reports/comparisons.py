"""Paired comparisons of evaluations for the page, computed by `scoring.statistics.compare`."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.reports.document import Json, rounded
from videomme_pipeline.reports.stored import ScoredEvaluation
from videomme_pipeline.scoring.statistics.compare import FALSE_DISCOVERY_RATE, Comparison, compare
from videomme_pipeline.scoring.statistics.estimates import PairedDifference

MAX_EVALUATIONS = 20
"""All pairs of this many best evaluations are compared, others with the best one of their track."""
MAX_PAIRS = 45
"""All pairs of ten evaluations. With more, only pairs with the best one of a track have subsets."""


def comparisons(
    evaluations: Sequence[ScoredEvaluation], ranking: Sequence[int], titles: Mapping[str, str]
) -> list[Json]:
    """The differences b minus a of pairs (a, b) of indexes in `evaluations`.

    `ranking` has the indexes, best first. Pairs that `compare` refuses are left out. Pairs
    that are not compared by subset have None for `marginals`. Differences are fractions of one.
    """
    tracks = {index: evaluations[index].rows[0].track for index in reversed(ranking)}
    best = {track: index for index, track in tracks.items()}
    pairs = {*combinations(ranking[:MAX_EVALUATIONS], 2)}
    pairs |= {(best[tracks[other]], other) for other in ranking[MAX_EVALUATIONS:]}
    compared = []
    for a, b in sorted((min(pair), max(pair)) for pair in pairs):
        try:
            comparison = compare(evaluations[a].rows, evaluations[b].rows)
        except ScoringError:
            continue
        by_subset = len(pairs) <= MAX_PAIRS or not {a, b}.isdisjoint(best.values())
        compared.append(
            {
                "a": a,
                "b": b,
                "overall": overall_difference(comparison),
                "flip_rate": comparison.flip_rate.mean,
                "won": len(comparison.won),
                "lost": len(comparison.lost),
                "failed": len(comparison.failed),
                "marginals": _marginals(comparison, titles) if by_subset else None,
            }
        )
    return compared


def overall_difference(comparison: Comparison) -> Json:
    """The overall difference: of the group score if there is one, else of the accuracy."""
    grouped = comparison.group_score is not None
    overall = comparison.group_score or comparison.mean_over or comparison.accuracy
    n = overall.difference.clusters if grouped else comparison.n  # a group is a video
    return _difference(overall, overall.p_value, 100 if grouped else 1) | {
        "n": n,
        "significant": overall.p_value < FALSE_DISCOVERY_RATE,
        "by": "Group score" if grouped else "Mean accuracy" if comparison.mean_over else "Accuracy",
        "value": "All groups" if grouped else "All questions",
    }


def _marginals(comparison: Comparison, titles: Mapping[str, str]) -> list[Json]:
    scale = 1 if comparison.group_score is None else 100
    return [
        _difference(m.difference, m.adjusted_p_value, scale)
        | {"by": title, "value": m.value, "n": m.n, "significant": m.significant}
        for column, title in titles.items()
        for m in comparison.marginals
        if m.column == column
    ]


def _difference(paired: PairedDifference, p_value: float, scale: int) -> Json:
    return {
        "difference": rounded(paired.difference.mean, scale),
        "low": rounded(paired.difference.low, scale),
        "high": rounded(paired.difference.high, scale),
        "p": float(f"{p_value:.4g}"),  # a small one is not 0
    }
