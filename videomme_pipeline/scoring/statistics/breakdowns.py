"""Scores of one evaluation by the facets of its benchmark, with standard errors and intervals.

Each breakdown has the name of the SQL view that contains the same numbers for all evaluations.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facet, FacetValue, Measure
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import (
    Estimate,
    IntervalKind,
    clustered_mean,
    with_accuracy_interval,
    with_group_score_interval,
)
from videomme_pipeline.scoring.statistics.groups import (
    GroupRule,
    GroupScore,
    UnscoredGroup,
    score_groups,
)

Values = tuple[FacetValue, ...]
Row = TypeVar("Row", ScoredQuestion, GroupScore)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyRow:
    """The accuracy for one combination of facet values, with the counts of all outcomes.

    `accuracy` is over all responses. `accuracy_of_answered` (the official v1 denominator) is over
    those that a letter was read from, or None if there are none. Failed requests count in the
    first denominator, so `accuracy` is a lower bound if any request failed. If all failed, there is
    no accuracy: it is None, like its error and interval.
    """

    values: tuple[str, ...]
    questions: int
    videos: int
    responses: int
    correct: int
    incorrect: int
    unreadable: int
    failed: int
    accuracy: float | None
    accuracy_of_answered: float | None
    standard_error: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    interval_kind: IntervalKind | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScoreRow:
    """The mean score (0 to 100) of the complete groups with one combination of facet values.

    The interval is that of `with_group_score_interval`, as in the SQL views. Without any answer,
    there is no score. A group that was asked several times is one group.
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
    return [_accuracy_row(values, part) for values, part in _by_values(rows, facets).items()]


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
    incomplete = len({group.video_id for group in unscored})
    by_name = {}
    for name, columns in benchmark.breakdowns(Measure.GROUP_SCORE).items():
        by_values = _by_values(groups, [benchmark.facet(column) for column in columns])
        if not columns and unscored:
            by_values.setdefault((), [])
        by_name[name] = [
            _group_score_row(values, part, 0 if columns else incomplete)
            for values, part in by_values.items()
        ]
    return by_name, groups, unscored


def accuracy_of(rows: Sequence[ScoredQuestion]) -> Estimate | None:
    """The accuracy of `rows` with its interval, or None if no request was answered."""
    if all(row.outcome is Outcome.FAILED for row in rows):
        return None
    estimate = clustered_mean([row.is_correct for row in rows], [row.video_id for row in rows])
    return with_accuracy_interval(estimate, len({row.question_id for row in rows}))


def _by_values(rows: Iterable[Row], facets: Sequence[Facet]) -> dict[Values, list[Row]]:
    by_values: dict[Values, list[Row]] = defaultdict(list)
    for row in rows:
        if all(facet.column in row.facets for facet in facets):
            by_values[tuple(row.facets[facet.column] for facet in facets)].append(row)

    def order(values: Values) -> list[object]:
        return [facet.order(value) for facet, value in zip(facets, values, strict=True)]

    return {values: by_values[values] for values in sorted(by_values, key=order)}


def _accuracy_row(values: Values, rows: Sequence[ScoredQuestion]) -> AccuracyRow:
    outcomes = Counter(row.outcome for row in rows)
    estimate = accuracy_of(rows)
    correct, incorrect = outcomes[Outcome.CORRECT], outcomes[Outcome.INCORRECT]
    answered = correct + incorrect
    return AccuracyRow(
        values=tuple(map(str, values)),
        questions=len({row.question_id for row in rows}),
        videos=len({row.video_id for row in rows}),
        responses=len(rows),
        correct=correct,
        incorrect=incorrect,
        unreadable=outcomes[Outcome.UNREADABLE],
        failed=outcomes[Outcome.FAILED],
        accuracy=estimate.mean if estimate else None,
        accuracy_of_answered=correct / answered if answered else None,
        standard_error=estimate.standard_error if estimate else None,
        accuracy_low=estimate.low if estimate else None,
        accuracy_high=estimate.high if estimate else None,
        interval_kind=estimate.interval_kind if estimate else None,
    )


def _group_score_row(
    values: Values, groups: Sequence[GroupScore], incomplete_groups: int
) -> GroupScoreRow:
    outcomes = Counter(outcome for group in groups for outcome in group.outcomes)
    videos = [group.video_id for group in groups]
    estimate = linear = None
    if outcomes[Outcome.FAILED] < outcomes.total():
        scores = clustered_mean([group.score for group in groups], videos)
        estimate = with_group_score_interval(scores)
        linear = fmean(group.linear_score for group in groups)
    return GroupScoreRow(
        values=tuple(map(str, values)),
        groups=len(set(videos)),
        incomplete_groups=incomplete_groups,
        group_score=estimate.mean if estimate else None,
        standard_error=estimate.standard_error if estimate else None,
        group_score_low=estimate.low if estimate else None,
        group_score_high=estimate.high if estimate else None,
        interval_kind=estimate.interval_kind if estimate else None,
        linear_score=linear,
        unreadable=outcomes[Outcome.UNREADABLE],
        failed=outcomes[Outcome.FAILED],
    )
