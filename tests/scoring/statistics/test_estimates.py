"""Errors, intervals and tests against known values, other implementations and brute force."""

import json
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.paths import GOLDEN
from videomme_pipeline.scoring.statistics.estimates import (
    MIN_P_VALUE,
    IntervalKind,
    adjusted_p_values,
    clustered_mean,
    p_value_text,
    paired_difference,
    sign_flip_test,
    wilson,
    with_accuracy_interval,
    with_group_score_interval,
)

GOLDEN_SCORES = GOLDEN / "scores"
LMMS_EVAL = json.loads((GOLDEN_SCORES / "lmms_eval_aggregate.json").read_text())

A = [int(mark) for mark in "110111001100111000"]
B = [int(mark) for mark in "100110011000111010"]
CLUSTERS = [number // 3 for number in range(18)]

small_sums = st.lists(st.integers(-3, 3), min_size=1, max_size=9)


def test_the_cr1_error_and_interval_have_known_values() -> None:
    estimate = clustered_mean(A, CLUSTERS)
    assert estimate.mean == pytest.approx(0.5555556, abs=5e-8)
    assert estimate.standard_error == pytest.approx(0.1648044, abs=5e-8)
    assert estimate.low == pytest.approx(0.1319123, abs=5e-8)
    assert estimate.high == pytest.approx(2 * 5 / 9 - 0.1319123, abs=1e-7)  # t is symmetric
    assert (estimate.values, estimate.clusters) == (18, 6)


def test_the_cr1_error_of_unequal_clusters_has_a_known_value() -> None:
    estimate = clustered_mean([int(mark) for mark in "1011011100"], "0001123333")
    assert estimate.mean == pytest.approx(0.6)
    assert estimate.standard_error == pytest.approx(0.0730297, abs=5e-8)


def test_a_paired_difference_has_known_values() -> None:
    difference = paired_difference(A, B, CLUSTERS)
    assert difference.difference.mean == pytest.approx(0.0555556, abs=5e-8)
    assert difference.difference.standard_error == pytest.approx(0.1337955, abs=5e-8)
    assert difference.p_value == pytest.approx(1.0)
    assert difference.exact


def test_with_one_question_per_video_the_error_is_the_textbook_error() -> None:
    estimate = clustered_mean(A, range(18))
    assert estimate.standard_error == pytest.approx(stats.sem(A))
    low, high = stats.t.interval(0.95, 17, np.mean(A), stats.sem(A))
    assert (estimate.low, estimate.high) == pytest.approx((low, high))


def test_paired_t_without_clusters_equals_the_textbook_test() -> None:
    current, baseline = LMMS_EVAL["paired"]["current"], LMMS_EVAL["paired"]["baseline"]
    difference = paired_difference(current, baseline, range(len(current)))
    theirs = LMMS_EVAL["paired"]["out"]
    assert difference.difference.mean == pytest.approx(theirs["mean_diff"])
    assert difference.difference.standard_error == pytest.approx(theirs["se_diff"])


@given(
    values=st.lists(st.booleans(), min_size=2, max_size=30),
    labels=st.lists(st.integers(0, 5), min_size=30, max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_order_of_questions_does_not_matter(
    values: list[bool], labels: list[int], order: random.Random
) -> None:
    pairs = list(zip(values, labels, strict=False))
    estimate = clustered_mean([value for value, _ in pairs], [label for _, label in pairs])
    order.shuffle(pairs)
    again = clustered_mean([value for value, _ in pairs], [label for _, label in pairs])
    assert again.mean == pytest.approx(estimate.mean)
    assert again.standard_error == (
        None
        if estimate.standard_error is None
        else pytest.approx(estimate.standard_error, abs=1e-12)
    )


def test_copies_within_a_video_do_not_shrink_the_error() -> None:
    once = clustered_mean(A, range(18))
    copied = clustered_mean(np.repeat(A, 5), np.repeat(np.arange(18), 5).tolist())
    assert copied.standard_error == pytest.approx(once.standard_error)


def test_one_video_has_no_error() -> None:
    estimate = clustered_mean([1, 0, 1], ["001"] * 3)
    assert (estimate.standard_error, estimate.low, estimate.high) == (None, None, None)


def test_no_values_and_unpaired_values_are_errors() -> None:
    with pytest.raises(ValueError, match="0 values"):
        clustered_mean([], [])
    with pytest.raises(ValueError, match="3 values against 2"):
        paired_difference([1, 0, 1], [1, 0], [1, 2, 3])


def brute_force(sums: list[float]) -> float:
    totals = [
        abs(sum(sign * value for sign, value in zip(signs, sums, strict=True)))
        for signs in product((-1, 1), repeat=len(sums))
    ]
    return float(np.mean([total >= abs(sum(sums)) - 1e-9 for total in totals]))


@given(sums=small_sums)
def test_sign_flips_equal_the_enumeration_of_all_patterns(sums: list[int]) -> None:
    result = sign_flip_test(sums)
    assert result.exact
    assert result.p_value == pytest.approx(brute_force([float(value) for value in sums]), abs=1e-9)


@given(sums=small_sums)
def test_sums_without_a_unit_are_enumerated(sums: list[int]) -> None:
    odd = [value * 2**0.5 + (value > 0) * 0.1 for value in sums]
    result = sign_flip_test(odd)
    assert result.exact
    assert result.p_value == pytest.approx(brute_force(odd), abs=1e-9)


def test_the_interval_of_equal_answers_is_the_exact_bound_on_the_share_of_videos() -> None:
    difference = paired_difference(A, A, CLUSTERS)
    bound = 1 - 0.05 ** (1 / 6)
    assert (difference.difference.low, difference.difference.high) == pytest.approx((-bound, bound))
    assert difference.difference.interval_kind is IntervalKind.EXACT
    assert stats.binomtest(0, 6).proportion_ci(0.9).high == pytest.approx(bound)


def test_videos_that_all_differ_by_the_same_amount_claim_no_certainty() -> None:
    difference = paired_difference([1, 1, 0] * 2, [1, 0, 0] * 2, CLUSTERS[:6])
    assert difference.difference.standard_error == pytest.approx(0)
    low, high = difference.difference.low, difference.difference.high
    assert low is not None
    assert high is not None
    assert low < 0 < 1 / 3 < high < 1


def test_the_interval_of_one_difference_is_not_narrower_than_that_of_none() -> None:
    videos = list(range(900))
    none, single, three = (
        paired_difference([1] * 900, [0] * count + [1] * (900 - count), videos)
        for count in (0, 1, 3)
    )
    widths = [
        (paired.difference.high or 0) - (paired.difference.low or 0) for paired in (none, single)
    ]
    assert widths[1] >= widths[0] > 0.006
    assert (single.difference.interval_kind, three.difference.interval_kind) == (
        IntervalKind.EXACT,
        IntervalKind.CLUSTERED_T,
    )


def test_the_exact_interval_covers_rare_differences() -> None:
    chance = np.random.default_rng(3)
    for share in (0.005, 0.02, 0.05):
        covered = 0
        for _ in range(400):
            differs = (chance.random(60) < share).astype(float)
            estimate = paired_difference(differs, np.zeros(60), range(60)).difference
            covered += (estimate.low or 0) <= share <= (estimate.high or 0)
        assert covered >= 0.93 * 400


@given(sums=st.lists(st.integers(-3, 3), min_size=2, max_size=9))
def test_intervals_of_differences_contain_the_mean_and_are_possible(sums: list[int]) -> None:
    videos = [video for video in range(len(sums)) for _ in range(3)]
    values = [value for total in sums for value in _parts(total)]
    estimate = paired_difference(values, np.zeros(len(values)), videos).difference
    assert estimate.low is not None
    assert estimate.high is not None
    assert -1 <= estimate.low <= estimate.mean + 1e-12
    assert estimate.mean - 1e-12 <= estimate.high <= 1
    assert estimate.high - estimate.low > 0


@given(sums=st.lists(st.integers(-3, 3), min_size=2, max_size=9))
def test_the_interval_of_exchanged_evaluations_is_the_negated_one(sums: list[int]) -> None:
    videos = [video for video in range(len(sums)) for _ in range(3)]
    values = [value for total in sums for value in _parts(total)]
    zeros = np.zeros(len(values))
    forward = paired_difference(values, zeros, videos).difference
    back = paired_difference(zeros, values, videos).difference
    assert (forward.low, forward.high) == (-(back.high or 0), -(back.low or 0))


def _parts(total: int) -> list[int]:
    """Three differences of -1, 0 or 1 with this sum."""
    return [(total > limit) - (total < -limit) for limit in range(3)]


@pytest.mark.parametrize(
    ("p_value", "text"),
    [(1.0, "1.0000"), (0.0031, "0.0031"), (2.5e-7, "2.5e-07"), (1e-12, "< 1e-12"), (0, "< 1e-12")],
)
def test_small_p_values_are_written_with_their_order_of_magnitude(
    p_value: float, text: str
) -> None:
    assert p_value_text(p_value) == text


def test_no_p_value_is_below_the_rounding_error() -> None:
    assert sign_flip_test([1] * 900).p_value == MIN_P_VALUE


def test_sign_flips_of_single_questions_are_the_exact_mcnemar_test() -> None:
    sums = [1] * 30 + [-1] * 14 + [0] * 500
    assert sign_flip_test(sums).p_value == pytest.approx(stats.binomtest(14, 44).pvalue)


def test_large_sums_between_two_units_have_no_unit() -> None:
    assert sign_flip_test([100_000.0] * 17).exact
    assert not sign_flip_test([100_000.5] * 17).exact


def test_many_sums_without_a_unit_are_drawn_from_a_seed() -> None:
    sums = np.random.default_rng(1).normal(0.3, 1, 40)
    result = sign_flip_test(sums, draws=9_999, seed=7)
    assert not result.exact
    assert result == sign_flip_test(sums, draws=9_999, seed=7)
    assert result.p_value == pytest.approx(sign_flip_test(np.rint(sums * 1000)).p_value, abs=0.02)
    extreme = sign_flip_test(sums + 10, draws=3)
    assert extreme.p_value == 1 / 4, "the observed pattern is one of four"


def test_group_scores_have_an_exact_test() -> None:
    scores = [0, 6.25, 25, 56.25, 100, 100 / 12, 400 / 12, 700 / 12, 10, 20, 50]
    differences = np.random.default_rng(2).choice(scores, (2, 12))
    sums = (differences[0] - differences[1]).tolist()
    result = sign_flip_test(sums, unit=100 / 240)
    assert result.exact
    assert result.p_value == pytest.approx(brute_force(sums), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_comparisons_of_equal_models_reject_at_the_nominal_level(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rejected = 0
    for _ in range(300):
        video = chance.normal(0, 1, 60).repeat(3)  # questions of a video are correlated
        right = chance.normal(0, 1, (2, 180)) + video > 0
        difference = paired_difference(right[0], right[1], np.arange(60).repeat(3).tolist())
        rejected += difference.p_value <= 0.05
    assert rejected <= stats.binom.ppf(0.9999, 300, 0.05)


@given(st.lists(st.floats(0, 1), max_size=30))
def test_adjusted_p_values_equal_those_of_scipy(p_values: list[float]) -> None:
    theirs = stats.false_discovery_control(p_values)
    assert adjusted_p_values(p_values) == pytest.approx(theirs, rel=1e-12)


def test_wilson_intervals_have_known_values() -> None:
    assert wilson(1890, 2700) == pytest.approx((0.6824405, 0.7169912), abs=5e-8)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775328), abs=5e-8)
    assert wilson(10, 10)[1] == 1.0
    with pytest.raises(ValueError, match="no trials"):
        wilson(0, 0)


@given(successes=st.integers(0, 50), more=st.integers(0, 50))
def test_wilson_equals_scipy(successes: int, more: int) -> None:
    trials = successes + more + 1
    theirs = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson(successes, trials) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_small_and_unanimous_cells_have_wilson_intervals() -> None:
    small = with_accuracy_interval(clustered_mean(A, CLUSTERS), 18)
    assert small.interval_kind is IntervalKind.WILSON
    assert (small.low, small.high) == wilson(10, 18)
    unanimous = with_accuracy_interval(clustered_mean([1] * 60, list(range(20)) * 3), 60)
    assert unanimous.interval_kind is IntervalKind.WILSON
    assert unanimous.low is not None
    assert unanimous.low < 1


def test_large_cells_have_clustered_intervals_within_0_and_1() -> None:
    estimate = clustered_mean([1] * 59 + [0], [number // 3 for number in range(60)])
    interval = with_accuracy_interval(estimate, estimate.values)
    assert interval.interval_kind is IntervalKind.CLUSTERED_T
    assert interval.high == 1.0
    assert interval.low == estimate.low


def test_group_score_intervals_are_clustered_and_within_0_and_100() -> None:
    estimate = clustered_mean([100, 100, 100, 25], range(4))
    interval = with_group_score_interval(estimate)
    assert (interval.low, interval.high, interval.interval_kind) == (
        estimate.low,
        100.0,
        IntervalKind.CLUSTERED_T,
    )


@pytest.mark.parametrize("scores", [[25.0], [100 / 12] * 7])
def test_group_scores_that_do_not_vary_have_no_interval(scores: list[float]) -> None:
    interval = with_group_score_interval(clustered_mean(scores, range(len(scores))))
    assert (interval.low, interval.high, interval.interval_kind) == (None,) * 3
