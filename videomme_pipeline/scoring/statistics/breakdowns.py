"""Scores by duration, domain, sub-category, task type, level and head, with their errors.

The names are those of the warehouse's views, which give the same numbers in SQL for many
evaluations at once; here is one evaluation in memory. No text is made here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.question import Duration, GroupType
from videomme_pipeline.benchmarks.videomme import DOMAINS, SUB_CATEGORIES, TASK_TYPES
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import (
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

BREAKDOWNS: Mapping[str, tuple[str, ...]] = {
    "overall": (),
    "by_duration": ("duration",),
    "by_domain": ("domain",),
    "by_sub_category": ("sub_category",),
    "by_task_type": ("task_type",),
    "by_duration_and_domain": ("duration", "domain"),
    "by_duration_and_sub_category": ("duration", "sub_category"),
    "by_duration_and_task_type": ("duration", "task_type"),
}
"""Accuracy breakdowns: name and the columns that it goes by."""

GROUP_BREAKDOWNS: Mapping[str, tuple[str, ...]] = {
    "v2_overall": (),
    "v2_by_group_type": ("group_type",),
    "v2_by_level": ("level",),
    "v2_by_second_head": ("second_head",),
    "v2_by_third_head": ("third_head",),
}
"""Group score breakdowns of v2."""

_ORDER = {
    value: place
    for place, value in enumerate((*Duration, *GroupType, *DOMAINS, *SUB_CATEGORIES, *TASK_TYPES))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The accuracy of one cell of a breakdown, beside everything that it is made of.

    `accuracy` is over all responses; `accuracy_of_answered` (the official v1 denominator) over
    those from which a letter was read, None where there is none. Failed requests count in
    the first denominator and are shown apart: with any, `accuracy` is a lower bound.
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
class GroupCell:
    """The mean group score (0 to 100) of one cell, over whole groups only.

    The interval is `group_score_interval`, the same as in the warehouse's views.
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


def breakdown(rows: Iterable[ScoredQuestion], columns: Sequence[str]) -> list[Cell]:
    """One cell per combination of `columns` in `rows`; rows without a value are left out.

    Cells come in the benchmark's own order, unknown values after it.
    """
    held: dict[tuple[str, ...], list[ScoredQuestion]] = defaultdict(list)
    for row in rows:
        values = tuple(getattr(row, column) for column in columns)
        if None not in values:
            held[values].append(row)
    return [_cell(values, held[values]) for values in sorted(held, key=_in_order)]


def breakdowns(rows: Sequence[ScoredQuestion]) -> dict[str, list[Cell]]:
    """All accuracy breakdowns of the rows of one evaluation, by name."""
    return {name: breakdown(rows, columns) for name, columns in BREAKDOWNS.items()}


def group_breakdowns(
    rows: Sequence[ScoredQuestion], rule: GroupRule = GroupRule.CORRECTED
) -> tuple[dict[str, list[GroupCell]], list[GroupScore], list[UnscoredGroup]]:
    """All group breakdowns of the rows of one evaluation, its groups and those without a score.

    `incomplete_groups` stand in the overall cell alone: a group that is not whole may not know
    its level or heads.
    """
    groups, unscored = score_groups(rows, rule)
    cells: dict[str, list[GroupCell]] = {}
    for name, columns in GROUP_BREAKDOWNS.items():
        held: dict[tuple[str, ...], list[GroupScore]] = defaultdict(list)
        for group in groups:
            values = tuple(getattr(group, column) for column in columns)
            if None not in values:
                held[tuple(map(str, values))].append(group)
        if not columns and unscored:
            held[()] += []
        cells[name] = [
            _group_cell(values, held[values], 0 if columns else len(unscored))
            for values in sorted(held, key=_in_order)
        ]
    return cells, groups, unscored


def _cell(values: tuple[str, ...], rows: Sequence[ScoredQuestion]) -> Cell:
    outcomes = Counter(row.outcome for row in rows)
    correct, incorrect = outcomes[Outcome.CORRECT], outcomes[Outcome.INCORRECT]
    estimate = clustered_mean([row.is_correct for row in rows], [row.video_id for row in rows])
    interval = accuracy_interval(estimate)
    answered = correct + incorrect
    return Cell(
        values=values,
        questions=len({row.question_id for row in rows}),
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


def _group_cell(
    values: tuple[str, ...], groups: Sequence[GroupScore], incomplete_groups: int
) -> GroupCell:
    estimate = (
        clustered_mean([group.score for group in groups], [group.video_id for group in groups])
        if groups
        else None
    )
    interval = group_score_interval(estimate) if estimate else None
    outcomes = Counter(outcome for group in groups for outcome in group.outcomes)
    return GroupCell(
        values=values,
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


def _in_order(values: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(_ORDER.get(value, len(_ORDER)), value) for value in values]
