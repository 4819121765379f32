"""Findings of a night: what fails, how it is told, and how checks share the budget."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from perf.alarm import Benchmark, draw_history, new_alarms, simulate_whole_nights
from tests.support.scored_rows import scored, v1_evaluation, v2_evaluation
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.nightly.alarm import (
    history_of,
    threshold_for,
    worse_cells,
)
from videomme_pipeline.scoring.nightly.nights import (
    AlarmSpec,
    NightCheck,
    Observation,
    ObservedQuestion,
    Severity,
    judge,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

ONLY_ACCURACY = AlarmSpec(
    severity=dict.fromkeys(NightCheck, Severity.OFF) | {NightCheck.ACCURACY: Severity.ERROR}
)


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


def test_what_a_simulation_counts_is_what_is_said_night_by_night() -> None:
    benchmark, spec = Benchmark(videos=20), AlarmSpec()
    observations = draw_history(np.random.default_rng(5), benchmark, 8, v2=False)
    for rows in observations[5:]:
        for place, row in enumerate(rows):
            if place % 2:
                rows[place] = replace(row, outcome=Outcome.INCORRECT, extracted_answer=Letter.B)
    counted = new_alarms(observations, spec)
    assert any(counted["accuracy"])
    named = [Observation(name=f"{n:02d}", rows=rows) for n, rows in enumerate(observations)]
    for night in range(1, len(named)):
        said = {f.check.value: f.is_new for f in judge(named[: night + 1], spec).findings}
        assert {check: said[check] for check in counted} == {
            check: nights[night - 1] for check, nights in counted.items()
        }


def test_all_tests_together_keep_the_budget_while_nothing_changes() -> None:
    found = simulate_whole_nights(Benchmark(videos=30), nights=60, histories=5, seed=6, v2=False)
    assert set(found.by_test) == {"accuracy", "marginals", "flips", "unreadable"}
    assert (found.nights, found.allowed) == (300, 5)
    assert found.false_alarms <= 11, "more than that comes by chance once in 200 times"
