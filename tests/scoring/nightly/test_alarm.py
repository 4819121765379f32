"""Alarms over nightly runs: exact p-values, and a threshold that keeps its budget."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from tests.support.simulated_runs import SimulatedBenchmark, simulate_alarms
from videomme_pipeline.scoring.nightly.alarm import (
    distribution_of_sum,
    e_value,
    exchangeability_p_value,
    runs_to_false_alarm,
    threshold_for,
    watch,
)
from videomme_pipeline.scoring.statistics.estimates import sign_flip_test


def by_enumeration(values: NDArray[np.int64], valid: NDArray[np.bool_]) -> float:
    """The p-value from all values that the last run could have had."""
    columns = [values[valid[:, v], v] for v in range(values.shape[1]) if valid[-1, v]]
    totals = [sum(draw) for draw in product(*columns)]
    observed_total = sum(column[-1] for column in columns)
    return float(np.mean([total >= observed_total for total in totals]))


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
    assert exchangeability_p_value(*data) == pytest.approx(by_enumeration(*data))


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
    baseline, run = generator.integers(0, 4, (2, 60))
    run = np.maximum(run, baseline - 1)
    values = np.stack([baseline, run])
    two_sided = sign_flip_test(run - baseline).p_value
    if (run - baseline).sum() > 0:
        assert exchangeability_p_value(values, np.ones_like(values, bool)) == pytest.approx(
            two_sided / 2
        )
    else:
        pytest.fail("the seed must draw a run that is worse")


def test_the_distribution_of_a_sum_is_a_convolution() -> None:
    chances = np.random.default_rng(2).dirichlet(np.ones(4), size=7)
    expected = np.ones(1)
    for row in chances:
        expected = np.convolve(expected, row)
    assert distribution_of_sum(chances)[: expected.size] == pytest.approx(expected)


def test_the_mean_of_a_bet_is_1_if_nothing_changed() -> None:
    normals = np.linspace(-8, 12, 20_001)
    density = np.exp(-(normals**2) / 2) / np.sqrt(2 * np.pi)
    bets = np.array([e_value(float(p)) for p in ndtr(-normals)])
    assert np.trapezoid(bets * density, normals) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("budget", [10, 60, 300])
def test_the_threshold_meets_the_budget(budget: float) -> None:
    threshold = threshold_for(budget)
    assert runs_to_false_alarm(threshold) == pytest.approx(budget, rel=1e-3)
    bets = [e_value(p) for p in np.random.default_rng(3).random(100 * int(budget))]
    alarms, evidence = 0, 0.0
    for bet in bets:
        evidence = bet * max(evidence, 1.0)
        if evidence >= threshold:
            alarms, evidence = alarms + 1, 0.0
    assert 70 < alarms < 130


def test_unchanged_runs_alarm_about_as_often_as_the_budget_allows() -> None:
    found = simulate_alarms(
        SimulatedBenchmark(videos=60),
        drop=0.0,
        changes_at=1,
        nights=60,
        histories=10,
        budget=60,
        seed=4,
    )
    assert found.nights == 600
    assert 2 <= found.alarms <= 20, "the budget is 10"


def test_a_detectable_drop_is_reported_within_two_runs() -> None:
    benchmark = SimulatedBenchmark(videos=100)
    found = simulate_alarms(
        benchmark,
        drop=benchmark.detectable_drop,
        changes_at=11,
        nights=20,
        histories=20,
        budget=60,
        seed=5,
    )
    assert found.median_delay <= 2
    assert found.missed == 0


def test_a_model_that_never_flips_never_alarms() -> None:
    values = np.tile(np.random.default_rng(6).integers(0, 4, 50), (30, 1))
    states = watch(lambda runs: values[runs], np.ones_like(values, bool), threshold_for(60))
    assert [state.p_value for state in states] == [1.0] * 29
    assert not any(state.in_alarm for state in states)


def test_an_alarm_lasts_as_long_as_the_drop_and_ends_with_it() -> None:
    generator = np.random.default_rng(7)
    wrong = (generator.random((30, 200)) < 0.3).astype(np.int64)
    wrong[12:20] = (generator.random((8, 200)) < 0.6).astype(np.int64)
    states = watch(lambda runs: wrong[runs], np.ones_like(wrong, bool), threshold_for(60))
    in_alarm = [run for run, state in enumerate(states, start=1) if state.in_alarm]
    assert set(range(12, 20)) <= set(in_alarm)
    assert in_alarm[0] == 12
    assert in_alarm[-1] < 24
    assert [run for run, state in enumerate(states, start=1) if state.is_new] == [12]
    assert states[14].since in (11, 12)
    assert not set(states[25].reference) & set(in_alarm), "runs in alarm are not in the reference"
