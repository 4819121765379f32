"""Accuracy and group scores by facet."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.facet_means import mean_over
from tests.support.paths import GOLDEN
from tests.support.published_data import DOMAINS
from tests.support.scored_rows import group_of, scored, v1_evaluation, v2_evaluation
from videomme_pipeline.benchmarks.facets import Facet
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.formats.official import rating
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.scoring.statistics.breakdowns import (
    GroupScoreRow,
    breakdown,
    breakdowns,
    group_breakdowns,
)
from videomme_pipeline.scoring.statistics.estimates import (
    IntervalKind,
    clustered_mean,
    with_group_score_interval,
)

GOLDEN_SCORES = GOLDEN / "scores"


def test_cells_of_a_breakdown_add_up_to_the_total() -> None:
    by_name = breakdowns(find_benchmark("videomme"), v1_evaluation(1))
    whole = by_name["overall"][0]
    for cells in by_name.values():
        assert sum(cell.correct for cell in cells) == whole.correct
        assert sum(cell.failed for cell in cells) == whole.failed
        assert sum(cell.questions for cell in cells) == whole.questions


def test_cells_are_in_the_order_of_the_benchmark_with_unknown_values_last() -> None:
    rows = [scored(f"{n:03d}-1", domain=domain) for n, domain in enumerate(["?", *DOMAINS[::-1]])]
    domain = find_benchmark("videomme").facet("domain")
    assert [row.values[0] for row in breakdown(rows, [domain])] == [*DOMAINS, "?"]


def test_outcomes_are_counted_separately() -> None:
    cell = breakdown([scored(f"00{n}-1", outcome) for n, outcome in enumerate(Outcome)], [])[0]
    assert (cell.correct, cell.incorrect, cell.unreadable, cell.failed) == (1, 1, 1, 1)
    assert (cell.accuracy, cell.accuracy_of_answered) == (0.25, 0.5)
    assert cell.standard_error == pytest.approx(0.25), "the textbook error of 1, 0, 0, 0"


def test_without_an_answer_there_is_no_accuracy_of_answered() -> None:
    cell = breakdown([scored(outcome=Outcome.FAILED)], [])[0]
    assert cell.accuracy_of_answered is None


@given(
    outcomes=st.lists(st.sampled_from(list(Outcome)), min_size=1, max_size=60),
    repeats=st.integers(2, 10),
    per_video=st.integers(1, 5),
)
def test_repeats_of_every_answer_narrow_no_interval(
    outcomes: list[Outcome], repeats: int, per_video: int
) -> None:
    once = [
        scored(f"{n // per_video:03d}-{n % per_video}", outcome)
        for n, outcome in enumerate(outcomes)
    ]
    often = [replace(row, repeat=repeat) for row in once for repeat in range(repeats)]
    (of_once,), (of_often,) = breakdown(once, []), breakdown(often, [])
    assert of_often.accuracy == pytest.approx(of_once.accuracy)
    assert of_often.accuracy_low == pytest.approx(of_once.accuracy_low)
    assert of_often.accuracy_high == pytest.approx(of_once.accuracy_high)


def test_repeated_questions_are_responses_of_one_question() -> None:
    cell = breakdown([scored(repeat=repeat) for repeat in range(5)], [])[0]
    assert (cell.questions, cell.responses, cell.videos) == (1, 5, 1)


def test_the_accuracy_of_lmms_eval_counts_all_questions() -> None:
    theirs = json.loads((GOLDEN_SCORES / "lmms_eval_aggregate.json").read_text())["v1"]
    rows = [
        scored(row["question_id"], Outcome.CORRECT if row["score"] else Outcome.INCORRECT)
        for row in theirs["rows"]
    ]
    assert breakdown(rows, [])[0].accuracy == pytest.approx(theirs["aggregate"] / 100)


def test_the_mean_group_score_equals_the_rating() -> None:
    cells, groups, unscored = group_breakdowns(find_benchmark("videomme_v2"), v2_evaluation(1))
    assert not unscored
    final = rating(groups)["final_rating"]
    assert cells["group_score_overall"][0].group_score == pytest.approx(final["total"])
    by_type = {cell.values[0]: cell.group_score for cell in cells["group_score_by_group_type"]}
    assert by_type["logic"] == pytest.approx(final["logic_score"])
    assert by_type["relevance"] == pytest.approx(final["relevance_score"])


def test_a_breakdown_of_groups_has_counts_scores_and_the_interval() -> None:
    """Relevance groups: 2 of 4 right answers are 25 of 100 points, or 50 linear ones."""
    right, wrong, unreadable = Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNREADABLE
    rows = [
        *group_of([right] * 4, "4", "001"),
        *group_of([right, right, wrong, unreadable], "4", "002"),
        *group_of([right, right, Outcome.FAILED, Outcome.FAILED], "4", "003"),
        *group_of([right], "4", "004"),
    ]
    cells, _, _ = group_breakdowns(find_benchmark("videomme_v2"), rows)
    (by_type,) = cells["group_score_by_group_type"]
    (whole,) = cells["group_score_overall"]
    estimate = clustered_mean([100, 25, 25], ["001", "002", "003"])
    interval = with_group_score_interval(estimate)
    assert whole == GroupScoreRow(
        values=(),
        groups=3,
        incomplete_groups=1,
        group_score=50,
        standard_error=estimate.standard_error,
        group_score_low=interval.low,
        group_score_high=interval.high,
        interval_kind=IntervalKind.CLUSTERED_T,
        linear_score=200 / 3,
        unreadable=1,
        failed=2,
    )
    assert by_type == replace(whole, values=("relevance",), incomplete_groups=0)
    cells, _, _ = group_breakdowns(find_benchmark("videomme_v2"), rows[:4])
    single = cells["group_score_overall"][0]
    assert (single.group_score_low, single.interval_kind) == (None, None)


def test_incomplete_groups_are_counted_and_have_no_score() -> None:
    rows = group_of([Outcome.CORRECT] * 4)[:2]
    cells, _, unscored = group_breakdowns(find_benchmark("videomme_v2"), rows)
    assert len(unscored) == 1
    whole = cells["group_score_overall"][0]
    assert (whole.groups, whole.incomplete_groups, whole.group_score) == (0, 1, None)


def test_every_value_of_a_facet_has_the_same_weight_in_its_mean() -> None:
    """Accuracies 1 (one video) and 1/4 (four videos): the mean is 5/8, not 2/5."""
    facet = Facet(column="duration", title="Duration")
    rows = [
        scored(f"{video}-1", outcome, duration=value)
        for video, value, outcome in (
            ("1", "short", Outcome.CORRECT),
            ("2", "long", Outcome.CORRECT),
            ("3", "long", Outcome.INCORRECT),
            ("4", "long", Outcome.UNREADABLE),
            ("5", "long", Outcome.FAILED),
        )
    ]
    unlabelled = scored("6-1", Outcome.INCORRECT)
    mean = mean_over([*rows, unlabelled], facet)
    assert (mean.mean, mean.values, mean.clusters) == (0.625, 5, 5)
    # Deviations in the linearized estimator: 0, 3/4, -1/4, -1/4, -1/4, each times 1/2 · 1/4.
    assert mean.standard_error == pytest.approx(((9 + 3) / 16 * 5 / 4) ** 0.5 / 8)


def test_rows_without_any_answer_have_no_score() -> None:
    failed = [scored(f"00{number}-1", Outcome.FAILED) for number in range(3)]
    (overall,) = breakdown(failed, [])
    assert (overall.responses, overall.failed, overall.accuracy) == (3, 3, None)
    assert (overall.accuracy_low, overall.interval_kind, overall.standard_error) == (None,) * 3
    groups = [
        replace(row, outcome=Outcome.FAILED, is_correct=False, extracted_answer=None)
        for row in v2_evaluation(1)
    ]
    rows, _, _ = group_breakdowns(find_benchmark("videomme_v2"), groups)
    (whole,) = rows["group_score_overall"]
    assert (whole.group_score, whole.linear_score, whole.group_score_low) == (None,) * 3
