"""Scores of one evaluation by the facets of its benchmark, with standard errors and intervals.

Each breakdown has the name of the SQL view that contains the same numbers for all evaluations.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facet, Facets, FacetValue, Measure
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import (
    Estimate,
    IntervalKind,
    accuracy_interval,
    clustered_mean,
    group_score_interval,
)
from videomme_pipeline.scoring.statistics.groups import (
    GroupRule,
    GroupScore,
    UnscoredGroup,
    score_groups,
)

Values = tuple[FacetValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyRow:
    """The accuracy for one combination of facet values, with the counts of all outcomes.

    `accuracy` is over all responses. `accuracy_of_answered` (the official v1 denominator) is over
    those that a letter was read from, or None if there are none. Failed requests count in the
    first denominator, so `accuracy` is a lower bound if any request failed.
    """

    values: tuple[str, ...]
    questions: int
    videos: int
    responses: int
    correct: int
    incorrect: int
    unreadable: int
    failed: int
    accuracy: float
    accuracy_of_answered: float | None
    standard_error: float | None
    accuracy_low: float
    accuracy_high: float
    interval_kind: IntervalKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScoreRow:
    """The mean score (0 to 100) of the complete groups with one combination of facet values.

    The interval is that of `group_score_interval`, as in the SQL views.
    """

    values: tuple[str, ...]
    groups: int
    incomplete_groups: int
    group_score: float | None
    standard_error: float | None
    group_score_low: float | None
    group_score_high: float | None
    interval_kind: IntervalKind | None
    linear_score: float | None
    unreadable: int
    failed: int


def breakdown(rows: Iterable[ScoredQuestion], facets: Sequence[Facet]) -> list[AccuracyRow]:
    """One row per combination of values of `facets`, in the order that the benchmark declares.

    Questions without a value for one of the facets are left out.
    """
    by_values: dict[Values, list[ScoredQuestion]] = defaultdict(list)
    for row in rows:
        values = _values(row.facets, facets)
        if values is not None:
            by_values[values].append(row)
    return [_accuracy_row(values, by_values[values]) for values in _ordered(by_values, facets)]


def mean_over(rows: Iterable[ScoredQuestion], facet: Facet) -> Estimate:
    """The unweighted mean of the accuracies by the values of `facet`, clustered by video.

    The standard error is that of the linearized estimator: each response counts by its difference
    to the accuracy of its value, divided by the number of responses with that value.

    Raises:
        ValueError: if no row has a value.
    """
    labelled = [(row.facets[facet.column], row) for row in rows if facet.column in row.facets]
    right: dict[FacetValue, list[bool]] = defaultdict(list)
    for value, row in labelled:
        right[value].append(row.is_correct)
    accuracies = {value: fmean(answers) for value, answers in right.items()}
    mean = fmean(accuracies.values()) if accuracies else 0.0
    scale = len(labelled) / max(len(right), 1)
    return clustered_mean(
        [
            mean + scale * (row.is_correct - accuracies[value]) / len(right[value])
            for value, row in labelled
        ],
        [row.video_id for _, row in labelled],
    )


def breakdowns(
    benchmark: Benchmark, rows: Sequence[ScoredQuestion]
) -> dict[str, list[AccuracyRow]]:
    """All accuracy breakdowns of the rows of one evaluation, by name."""
    return {
        name: breakdown(rows, [benchmark.facet(column) for column in columns])
        for name, columns in benchmark.breakdowns(Measure.ACCURACY).items()
    }


def group_breakdowns(
    benchmark: Benchmark, rows: Sequence[ScoredQuestion], rule: GroupRule = GroupRule.CORRECTED
) -> tuple[dict[str, list[GroupScoreRow]], list[GroupScore], list[UnscoredGroup]]:
    """All group breakdowns of one evaluation by name, its scored groups and its unscored groups.

    Only the overall row counts `incomplete_groups`, because the facets of an incomplete group may
    be unknown.
    """
    groups, unscored = score_groups(rows, rule)
    by_name = {}
    for name, columns in benchmark.breakdowns(Measure.GROUP_SCORE).items():
        facets = [benchmark.facet(column) for column in columns]
        by_values: dict[Values, list[GroupScore]] = defaultdict(list)
        for group in groups:
            values = _values(group.facets, facets)
            if values is not None:
                by_values[values].append(group)
        if not columns and unscored:
            by_values[()] += []
        by_name[name] = [
            _group_score_row(values, by_values[values], 0 if columns else len(unscored))
            for values in _ordered(by_values, facets)
        ]
    return by_name, groups, unscored


def _values(row_facets: Facets, facets: Sequence[Facet]) -> Values | None:
    """The values of `facets` in `row_facets`, or None if one of them is missing."""
    if any(facet.column not in row_facets for facet in facets):
        return None
    return tuple(row_facets[facet.column] for facet in facets)


def _ordered(values_of_rows: Iterable[Values], facets: Sequence[Facet]) -> list[Values]:
    return sorted(
        values_of_rows,
        key=lambda values: [
            facet.order(value) for facet, value in zip(facets, values, strict=True)
        ],
    )


def _accuracy_row(values: Values, rows: Sequence[ScoredQuestion]) -> AccuracyRow:
    outcomes = Counter(row.outcome for row in rows)
    correct, incorrect = outcomes[Outcome.CORRECT], outcomes[Outcome.INCORRECT]
    estimate = clustered_mean([row.is_correct for row in rows], [row.video_id for row in rows])
    questions = len({row.question_id for row in rows})
    interval = accuracy_interval(estimate, questions)
    answered = correct + incorrect
    return AccuracyRow(
        values=tuple(map(str, values)),
        questions=questions,
        videos=estimate.clusters,
        responses=len(rows),
        correct=correct,
        incorrect=incorrect,
        unreadable=outcomes[Outcome.UNREADABLE],
        failed=outcomes[Outcome.FAILED],
        accuracy=estimate.mean,
        accuracy_of_answered=correct / answered if answered else None,
        standard_error=estimate.standard_error,
        accuracy_low=interval.low,
        accuracy_high=interval.high,
        interval_kind=interval.kind,
    )


def _group_score_row(
    values: Values, groups: Sequence[GroupScore], incomplete_groups: int
) -> GroupScoreRow:
    estimate = (
        clustered_mean([group.score for group in groups], [group.video_id for group in groups])
        if groups
        else None
    )
    interval = group_score_interval(estimate) if estimate else None
    outcomes = Counter(outcome for group in groups for outcome in group.outcomes)
    return GroupScoreRow(
        values=tuple(map(str, values)),
        groups=len(groups),
        incomplete_groups=incomplete_groups,
        group_score=estimate.mean if estimate else None,
        standard_error=estimate.standard_error if estimate else None,
        group_score_low=interval.low if interval else None,
        group_score_high=interval.high if interval else None,
        interval_kind=interval.kind if interval else None,
        linear_score=(
            sum(group.linear_score for group in groups) / len(groups) if groups else None
        ),
        unreadable=outcomes[Outcome.UNREADABLE],
        failed=outcomes[Outcome.FAILED],
    )
