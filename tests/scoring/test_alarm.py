"""Alarms over nights: exact p-values, a threshold that keeps its budget, findings that are told."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from perf.alarm import Benchmark, simulate
from tests.scored_rows import scored, v1_evaluation, v2_evaluation
from videomme_pipeline.annotations.question import Letter
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.alarm import (
    distribution_of_sum,
    e_value,
    history_of,
    night_p_value,
    nights_to_false_alarm,
    threshold_for,
    watch,
    worse_cells,
)
from videomme_pipeline.scoring.nights import (
    AlarmSpec,
    NightCheck,
    Observation,
    ObservedQuestion,
    Severity,
    judge,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics import sign_flip_test

ONLY_ACCURACY = AlarmSpec(
    severity=dict.fromkeys(NightCheck, Severity.OFF) | {NightCheck.ACCURACY: Severity.ERROR}
)


def by_counting(values: NDArray[np.int64], held: NDArray[np.bool_]) -> float:
    """The p-value by going through everything that tonight could have been."""
    columns = [values[held[:, v], v] for v in range(values.shape[1]) if held[-1, v]]
    totals = [sum(draw) for draw in product(*columns)]
    tonight = sum(column[-1] for column in columns)
    return float(np.mean([total >= tonight for total in totals]))


@st.composite
def observed(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    size = shape[0] * shape[1]
    values = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    held = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.array(values).reshape(shape), np.array(held).reshape(shape)


@given(observed())
def test_the_p_value_is_that_of_going_through_every_order(
    data: tuple[NDArray[np.int64], NDArray[np.bool_]],
) -> None:
    assert night_p_value(*data) == pytest.approx(by_counting(*data))


def test_the_first_night_is_the_sign_flip_test() -> None:
    generator = np.random.default_rng(1)
    baseline, night = generator.integers(0, 4, (2, 60))
    night = np.maximum(night, baseline - 1)
    values = np.stack([baseline, night])
    two_sided = sign_flip_test(night - baseline).p_value
    if (night - baseline).sum() > 0:
        assert night_p_value(values, np.ones_like(values, bool)) == pytest.approx(two_sided / 2)
    else:
        pytest.fail("the drawn night is worse")


def test_the_distribution_of_a_sum_is_that_of_convolution() -> None:
    chances = np.random.default_rng(2).dirichlet(np.ones(4), size=7)
    expected = np.ones(1)
    for row in chances:
        expected = np.convolve(expected, row)
    assert distribution_of_sum(chances)[: expected.size] == pytest.approx(expected)


def test_a_bet_is_fair() -> None:
    normals = np.linspace(-8, 12, 20_001)
    density = np.exp(-(normals**2) / 2) / np.sqrt(2 * np.pi)
    bets = np.array([e_value(float(p)) for p in ndtr(-normals)])
    assert np.trapezoid(bets * density, normals) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("nights", [10, 60, 300])
def test_the_threshold_keeps_the_budget(nights: float) -> None:
    threshold = threshold_for(nights)
    assert nights_to_false_alarm(threshold) == pytest.approx(nights, rel=1e-3)
    bets = [e_value(p) for p in np.random.default_rng(3).random(100 * int(nights))]
    alarms, evidence = 0, 0.0
    for bet in bets:
        evidence = bet * max(evidence, 1.0)
        if evidence >= threshold:
            alarms, evidence = alarms + 1, 0.0
    assert 70 < alarms < 130


def test_unchanged_nights_alarm_about_as_often_as_the_budget_says() -> None:
    found = simulate(
        Benchmark(videos=60), drop=0.0, changes_at=1, nights=60, histories=10, budget=60, seed=4
    )
    assert found.nights == 600
    assert 2 <= found.alarms <= 20, "10 are the budget"


def test_a_detectable_drop_is_reported_within_nights() -> None:
    benchmark = Benchmark(videos=100)
    found = simulate(
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
    nights = watch(lambda rows: values[rows], np.ones_like(values, bool), threshold_for(60))
    assert [night.p_value for night in nights] == [1.0] * 29
    assert not any(night.in_alarm for night in nights)


def test_an_alarm_lasts_as_long_as_the_drop_and_ends_with_it() -> None:
    generator = np.random.default_rng(7)
    good = (generator.random((30, 200)) < 0.3).astype(np.int64)
    good[12:20] = (generator.random((8, 200)) < 0.6).astype(np.int64)
    nights = watch(lambda rows: good[rows], np.ones_like(good, bool), threshold_for(60))
    in_alarm = [number for number, night in enumerate(nights, start=1) if night.in_alarm]
    assert set(range(12, 20)) <= set(in_alarm)
    assert in_alarm[0] == 12
    assert in_alarm[-1] < 24
    assert [n for n, night in enumerate(nights, start=1) if night.is_new] == [12]
    assert nights[14].since in (11, 12)
    assert not set(nights[25].reference) & set(in_alarm), "bad nights are no reference"


def nights_of(rows: Sequence[ScoredQuestion], count: int, seed: int) -> Iterator[Observation]:
    """The rows asked again: each answer turns with a chance of 5 %."""
    for night in range(count):
        chance = np.random.default_rng([seed, night])
        turned = [turn(row) if chance.random() < 0.05 else row for row in rows]
        yield Observation(name=f"2026-11-{night + 1:02d}", rows=turned)


def turn(row: ScoredQuestion) -> ScoredQuestion:
    if row.outcome is Outcome.CORRECT:
        return wrong(row)
    if row.outcome is Outcome.INCORRECT:
        return replace(row, outcome=Outcome.CORRECT, is_correct=True, extracted_answer=row.answer)
    return row


def wrong(row: ScoredQuestion, letter: Letter = Letter.B) -> ScoredQuestion:
    if row.outcome is not Outcome.CORRECT:
        return row
    return replace(row, outcome=Outcome.INCORRECT, is_correct=False, extracted_answer=letter)


V1 = [row for row in v1_evaluation(1, videos=90) if row.outcome is not Outcome.FAILED]
V2 = [
    replace(row, outcome=Outcome.INCORRECT, extracted_answer=Letter.B)
    if row.outcome is Outcome.FAILED
    else row
    for row in v2_evaluation(2, groups=60)
]


def test_a_night_like_the_others_finds_nothing() -> None:
    report = judge(list(nights_of(V1, 6, seed=1)), AlarmSpec())
    assert {finding.check for finding in report.findings} == set(NightCheck) - {
        NightCheck.GROUP_SCORE
    }
    assert [finding for finding in report.findings if not finding.passed] == []
    assert report.news == []
    assert report.against_last_night is not None


def test_a_drop_in_one_task_is_named() -> None:
    observations = list(nights_of(V1, 8, seed=2))
    task = V1[0].task_type
    broken = [wrong(row) if row.task_type == task else row for row in observations[-1].rows]
    report = judge([*observations[:-1], Observation(name="tonight", rows=broken)], AlarmSpec())
    found = {finding.check: finding for finding in report.findings}
    assert not found[NightCheck.MARGINALS].passed
    assert f"task_type {task}" in found[NightCheck.MARGINALS].summary
    assert found[NightCheck.MARGINALS].is_new


def test_groups_are_held_against_their_own_scores() -> None:
    observations = list(nights_of(V2, 6, seed=3))
    firsts = [
        wrong(row) if row.question_id.endswith("-1") else row for row in observations[-1].rows
    ]
    report = judge([*observations[:-1], Observation(name="tonight", rows=firsts)], AlarmSpec())
    found = {finding.check: finding for finding in report.findings}
    assert not found[NightCheck.GROUP_SCORE].passed
    assert "points against the baseline" in found[NightCheck.GROUP_SCORE].summary


def test_another_model_as_good_as_the_old_one_is_seen_in_the_flips() -> None:
    observations = list(nights_of(V1, 8, seed=4))
    other = [
        replace(row, extracted_answer=Letter.C) if row.outcome is Outcome.INCORRECT else row
        for row in observations[-1].rows
    ]
    report = judge([*observations[:-1], Observation(name="tonight", rows=other)], AlarmSpec())
    found = {finding.check: finding for finding in report.findings}
    assert found[NightCheck.ACCURACY].passed
    assert not found[NightCheck.FLIPS].passed
    assert found[NightCheck.FLIPS].severity is Severity.WARN


def test_limits_hold_rates_and_ratios() -> None:
    baseline = Observation(name="baseline", rows=V1)
    slow = [
        replace(row, latency_seconds=9.0, cost_dollars=0.01, outcome=Outcome.FAILED)
        if number < 20
        else replace(row, latency_seconds=9.0, cost_dollars=0.01)
        for number, row in enumerate(V1)
    ]
    report = judge([baseline, Observation(name="tonight", rows=slow)], AlarmSpec())
    failed = {finding.check for finding in report.findings if not finding.passed}
    assert failed == {NightCheck.FAILED, NightCheck.LATENCY, NightCheck.COST}
    again = judge(
        [baseline, Observation(name="one", rows=slow), Observation(name="two", rows=slow)],
        AlarmSpec(),
    )
    assert again.news == [], "what the night before had too is no news"


def test_a_night_without_any_answer_is_no_regression() -> None:
    down = [
        replace(row, outcome=Outcome.FAILED, is_correct=False, extracted_answer=None) for row in V1
    ]
    report = judge(
        [Observation(name="baseline", rows=V1), Observation(name="tonight", rows=down)],
        AlarmSpec(),
    )
    assert report.against_baseline is None
    assert [f.check for f in report.findings if not f.passed] == [NightCheck.FAILED]


def test_checks_that_are_off_leave_their_budget_to_the_others() -> None:
    observations = list(nights_of(V1, 3, seed=5))
    (alone,) = judge(observations, ONLY_ACCURACY).findings
    among = judge(observations, AlarmSpec()).findings[0]
    assert alone.measures["alarm_at"] == pytest.approx(threshold_for(60))
    assert among.measures["alarm_at"] == pytest.approx(threshold_for(4 * 60))
    shared = judge(observations, ONLY_ACCURACY, tracked=3).findings[0]
    assert shared.measures["alarm_at"] == pytest.approx(threshold_for(3 * 60))


def test_what_is_compared_is_named_in_the_history() -> None:
    history = history_of([V1, V1])
    assert len(worse_cells(history, [0], 1, 0.05)) == len(
        {
            (c, getattr(r, c))
            for r in V1
            for c in ("domain", "sub_category", "task_type", "duration")
        }
    )
    assert not any(cell.significant for cell in worse_cells(history, [0], 1, 0.05))


def test_without_a_baseline_there_is_nothing_to_judge() -> None:
    with pytest.raises(ScoringError, match="baseline"):
        judge([Observation(name="tonight", rows=V1)], AlarmSpec())
    with pytest.raises(ScoringError, match="baseline"):
        judge([Observation(name="b", rows=[]), Observation(name="t", rows=V1)], AlarmSpec())


def test_an_observed_question_is_the_scored_one_with_its_date() -> None:
    row = scored()
    observed_row = ObservedQuestion.of(row, "2026-11-21")
    assert observed_row.observation == "2026-11-21"
    assert observed_row.question_id == row.question_id
