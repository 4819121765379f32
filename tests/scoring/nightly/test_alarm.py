"""Alarms over nightly runs: exact p-values, evidence for a drop, and the budget."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from tests.support.simulated_runs import SimulatedBenchmark, optimal_power, simulate_alarms
from videomme_pipeline.scoring.nightly.alarm import (
    FIRST_WEIGHT,
    DropEvidence,
    distribution_of_sum,
    exchangeability_test,
    threshold_for,
    watch,
)
from videomme_pipeline.scoring.statistics.estimates import sign_flip_test


def by_enumeration(values: NDArray[np.int64], valid: NDArray[np.bool_]) -> tuple[float, float]:
    """The p-value and the mid p-value from all values that the last run could have had."""
    columns = [values[valid[:, v], v] for v in range(values.shape[1]) if valid[-1, v]]
    totals = [sum(draw) for draw in product(*columns)]
    observed_total = sum(column[-1] for column in columns)
    worse = float(np.mean([total > observed_total for total in totals]))
    equal = float(np.mean([total == observed_total for total in totals]))
    return worse + equal, worse + equal / 2


@st.composite
def observed(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    size = shape[0] * shape[1]
    values = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    valid = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.array(values).reshape(shape), np.array(valid).reshape(shape)


@given(observed())
def test_the_p_value_equals_the_enumeration_of_all_orders(
    data: tuple[NDArray[np.int64], NDArray[np.bool_]],
) -> None:
    result = exchangeability_test(*data)
    assert (result.p_value, result.mid_p_value) == pytest.approx(by_enumeration(*data))


def test_slow_parts_of_scipy_are_imported_on_first_use() -> None:
    code = (
        "import sys, videomme_pipeline.scoring.nightly.assess; "
        "print(*{'scipy.stats', 'scipy.optimize'} & sys.modules.keys())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == ""


def test_the_first_run_is_the_sign_flip_test() -> None:
    generator = np.random.default_rng(1)
    reference, run = generator.integers(0, 4, (2, 60))
    run = np.maximum(run, reference - 1)
    values = np.stack([reference, run])
    two_sided = sign_flip_test(run - reference).p_value
    if (run - reference).sum() > 0:
        result = exchangeability_test(values, np.ones_like(values, bool))
        assert result.p_value == pytest.approx(two_sided / 2)
    else:
        pytest.fail("the seed must draw a run that is worse")


def test_the_distribution_of_a_sum_is_a_convolution() -> None:
    chances = np.random.default_rng(2).dirichlet(np.ones(4), size=7)
    expected = np.ones(1)
    for row in chances:
        expected = np.convolve(expected, row)
    assert distribution_of_sum(chances)[: expected.size] == pytest.approx(expected)


def evidence_of(p_values: NDArray[np.float64]) -> list[float]:
    """The evidence after each run, with one run more in the pool each time."""
    evidence = DropEvidence()
    totals = []
    for run, p_value in enumerate(p_values, start=1):
        evidence.add(run, float(p_value), run)
        totals.append(evidence.total)
    return totals


def normal_scores(runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The p-value of each run but the first, compared with the mean of the runs before it."""
    sizes = np.arange(1, len(runs))
    means = np.cumsum(runs)[:-1] / sizes
    return ndtr(-(runs[1:] - means) / np.sqrt(1 + 1 / sizes))


def test_the_mean_of_the_evidence_grows_by_1_in_every_run_if_nothing_changed() -> None:
    normals = np.linspace(-8, 12, 2_001)
    weights = np.exp(-(normals**2) / 2) / np.sqrt(2 * np.pi)
    totals = [evidence_of(ndtr(-normal) * np.ones(1))[-1] for normal in normals]
    assert np.trapezoid(totals * weights, normals) == pytest.approx(1, abs=1e-5)
    second = [evidence_of(np.array([0.3, p]))[-1] for p in ndtr(-normals)]
    expected = evidence_of(np.array([0.3]))[-1] + 1
    assert np.trapezoid(second * weights, normals) == pytest.approx(expected, abs=1e-5)


def test_the_evidence_allows_for_a_drop_within_the_reference() -> None:
    runs = np.random.default_rng(8).normal(size=12)
    p_values = normal_scores(runs)
    shift, start = 1.0, 4
    shifted = np.concatenate((np.zeros(start), np.full(len(runs) - start, shift)))
    expected_scores = -ndtri(normal_scores(shifted))
    scores = -ndtri(p_values)
    exact = (expected_scores * scores - expected_scores**2 / 2).sum()
    evidence = DropEvidence()
    for run, p_value in enumerate(p_values, start=1):
        evidence.add(run, float(p_value), run)
    by_drop = evidence.log_ratios[start - 1]
    assert by_drop[1] == pytest.approx(exact), "the second drop is one standard error"


@pytest.mark.parametrize("budget", [10, 60])
def test_the_threshold_meets_the_budget(budget: int) -> None:
    generator = np.random.default_rng(3)
    runs, alarms = 0, 0
    while runs < 60 * budget:
        totals = np.array(evidence_of(generator.random(4 * budget)))
        thresholds = [threshold_for(budget, run) for run in range(1, totals.size + 1)]
        above = np.flatnonzero(totals >= thresholds)
        runs += int(above[0]) + 1 if above.size else totals.size
        alarms += bool(above.size)
    assert 25 <= alarms <= 75, "the budget is 60"


def test_unchanged_runs_alarm_about_as_often_as_the_budget_allows() -> None:
    alarms = simulate_alarms(
        SimulatedBenchmark(videos=60),
        drop=0.0,
        changes_at=1,
        runs=60,
        histories=10,
        budget=60,
        seed=4,
    )
    assert alarms.runs == 600
    assert 2 <= alarms.alarms <= 20, "the budget is 10"


def test_a_detectable_drop_is_reported_within_two_runs() -> None:
    benchmark = SimulatedBenchmark(videos=100)
    alarms = simulate_alarms(
        benchmark,
        drop=benchmark.detectable_drop,
        changes_at=11,
        runs=20,
        histories=20,
        budget=60,
        seed=5,
    )
    assert alarms.median_delay <= 2
    assert alarms.missed == 0


def test_a_model_that_never_flips_never_alarms() -> None:
    values = np.tile(np.random.default_rng(6).integers(0, 4, 50), (30, 1))
    states = watch(lambda runs: values[runs], np.ones_like(values, bool), 60)
    assert [state.p_value for state in states] == [1.0] * 29
    assert not any(state.in_alarm for state in states)


def test_an_alarm_lasts_as_long_as_the_drop_and_ends_with_it() -> None:
    generator = np.random.default_rng(7)
    wrong = (generator.random((30, 200)) < 0.3).astype(np.int64)
    wrong[12:20] = (generator.random((8, 200)) < 0.6).astype(np.int64)
    states = watch(lambda runs: wrong[runs], np.ones_like(wrong, bool), 60)
    in_alarm = [run for run, state in enumerate(states, start=1) if state.in_alarm]
    assert set(range(12, 20)) <= set(in_alarm)
    assert in_alarm[0] == 12
    assert in_alarm[-1] < 24
    assert [run for run, state in enumerate(states, start=1) if state.is_new] == [12]
    assert states[14].since in (11, 12)
    assert not set(states[25].pool) & set(in_alarm), "runs in alarm are not in the pool"


def test_a_run_without_answers_does_not_end_an_alarm() -> None:
    generator = np.random.default_rng(7)
    wrong = (generator.random((16, 200)) < 0.3).astype(np.int64)
    wrong[12:] = (generator.random((4, 200)) < 0.6).astype(np.int64)
    valid = np.ones_like(wrong, bool)
    valid[14] = False
    states = watch(lambda runs: wrong[runs], valid, 60)
    assert [run for run, state in enumerate(states, start=1) if state.in_alarm] == [12, 13, 14, 15]
    assert [run for run, state in enumerate(states, start=1) if state.is_new] == [12]


def test_repeats_of_the_reference_are_the_reference_of_the_first_nightly_run() -> None:
    wrong = (np.random.default_rng(12).random((5, 300)) < 0.3).astype(np.int64)
    states = watch(lambda runs: wrong[runs], np.ones_like(wrong, bool), 60, references=3)
    assert [state.alarm_at for state in states] == [threshold_for(60, run) for run in (1, 2, 1, 2)]
    assert states[2].pool == (0, 1, 2)
    alone = DropEvidence(FIRST_WEIGHT)
    test = exchangeability_test(wrong[:4], np.ones((4, 300), bool))
    alone.add(3, test.mid_p_value, 3)
    assert states[2].evidence == alone.total, "the evidence of the repeats does not count"


def test_a_reference_that_its_own_repeats_contradict_is_reported_in_the_first_nightly_run() -> None:
    generator = np.random.default_rng(13)
    wrong = (generator.random((5, 300)) < 0.3).astype(np.int64)
    wrong[1:] = (generator.random((4, 300)) < 0.6).astype(np.int64)
    states = watch(lambda runs: wrong[runs], np.ones_like(wrong, bool), 60, references=3)
    assert [state.in_alarm for state in states] == [True] * 4
    assert [state.is_new for state in states] == [True, False, True, False]


def test_a_drop_in_the_first_run_has_more_weight_but_no_earlier_date() -> None:
    evidence = DropEvidence(FIRST_WEIGHT)
    for run, p_value in enumerate((0.5, 0.5, 0.001), start=1):
        evidence.add(run, p_value, run)
    by_start = np.exp(evidence.log_ratios).mean(axis=1)
    assert evidence.total == pytest.approx(by_start.sum() + (FIRST_WEIGHT - 1) * by_start[0])
    assert evidence.likeliest_start == 3


@pytest.mark.slow
def test_a_drop_from_the_first_run_is_found_almost_as_often_as_three_references_allow() -> None:
    benchmark = SimulatedBenchmark(videos=100)
    result = simulate_alarms(
        benchmark,
        drop=0.02,
        changes_at=1,
        runs=21,
        histories=100,
        budget=75,
        seed=2,
        references=3,
    )
    optimum = optimal_power(benchmark, drop=0.02, runs=21, budget=60, references=3)
    assert result.power >= 0.82 * optimum


@pytest.mark.slow
@pytest.mark.parametrize(("drop", "share"), [(0.01, 0.75), (0.02, 0.9)])
def test_a_lasting_drop_is_found_almost_as_often_as_by_the_best_possible_test(
    drop: float, share: float
) -> None:
    """The drop begins after 10 runs. The accuracy test has 16 of 20 shares of the budget."""
    benchmark = SimulatedBenchmark(videos=100)
    alarms = simulate_alarms(
        benchmark, drop=drop, changes_at=11, runs=31, histories=100, budget=75, seed=2
    )
    optimum = optimal_power(benchmark, drop=drop, runs=21, budget=60)
    assert alarms.power >= (share - 0.05) * optimum, "0.05 for the error of the simulation"


def test_a_drop_that_began_slowly_is_dated_to_its_beginning() -> None:
    generator = np.random.default_rng(11)
    wrong = (generator.random((45, 300)) < 0.3).astype(np.int64)
    for run in range(20, 45):
        wrong[run] = generator.random(300) < 0.3 + 0.1 * min(1.0, (run - 19) / 10)
    states = watch(lambda runs: wrong[runs], np.ones_like(wrong, bool), 60)
    new = [state for state in states if state.is_new]
    assert len(new) >= 1
    assert new[0].since is not None
    assert 15 <= new[0].since <= 32
