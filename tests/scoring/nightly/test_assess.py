"""Assessments of nightly runs: which checks fail, their summaries, the shared budget."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.paths import GOLDEN
from tests.support.scored_rows import scored, v1_evaluation, v2_evaluation
from tests.support.simulated_runs import SimulatedBenchmark, draw_runs, new_alarms, simulate_checks
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.nightly.alarm import threshold_for
from videomme_pipeline.scoring.nightly.assess import assess, marginal_tests, runs_per_false_alarm
from videomme_pipeline.scoring.nightly.history import Observation, history_of
from videomme_pipeline.scoring.nightly.policy import AlarmSpec, NightlyCheck, Severity
from videomme_pipeline.scoring.scored_question import ObservedQuestion, Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.power import (
    PowerAnalysis,
    detectable_difference,
    mean_cluster_size,
    measure_noise,
)

ONLY_ACCURACY = AlarmSpec(
    severity=dict.fromkeys(NightlyCheck, Severity.OFF) | {NightlyCheck.ACCURACY: Severity.ERROR}
)

GOLDEN_FINDINGS = GOLDEN / "nightly_findings.txt"


def runs_of(rows: Sequence[ScoredQuestion], count: int, seed: int) -> Iterator[Observation]:
    """Runs in which each answer flips with a probability of 5%."""
    for run in range(count):
        chance = np.random.default_rng([seed, run])
        flipped = [flip(row) if chance.random() < 0.05 else row for row in rows]
        yield Observation(name=f"2026-11-{run + 1:02d}", rows=flipped)


def flip(row: ScoredQuestion) -> ScoredQuestion:
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
V1_FAILED = [
    replace(row, outcome=Outcome.FAILED, is_correct=False, extracted_answer=None) for row in V1
]
V2 = [
    replace(row, outcome=Outcome.INCORRECT, extracted_answer=Letter.B)
    if row.outcome is Outcome.FAILED
    else row
    for row in v2_evaluation(2, groups=60)
]


def test_a_run_like_the_others_fails_no_check() -> None:
    report = assess(list(runs_of(V1, 6, seed=1)), AlarmSpec())
    assert {finding.check for finding in report.findings} == set(NightlyCheck) - {
        NightlyCheck.GROUP_SCORE
    }
    assert [finding for finding in report.findings if not finding.passed] == []
    assert report.new_findings == []
    assert report.against_previous_run is not None


def test_a_reference_is_no_previous_run() -> None:
    runs = list(runs_of(V1, 4, seed=1))
    assert assess(runs[:2], AlarmSpec()).against_previous_run is None
    assert assess(runs[:3], AlarmSpec()).against_previous_run is not None
    assert assess(runs[:3], AlarmSpec(), references=2).against_previous_run is None
    assert assess(runs, AlarmSpec(), references=2).against_previous_run is not None


def test_a_drop_in_one_task_type_is_reported() -> None:
    observations = list(runs_of(V1, 8, seed=2))
    task = V1[0].facets["task_type"]
    broken = [
        wrong(row) if row.facets["task_type"] == task else row for row in observations[-1].rows
    ]
    report = assess([*observations[:-1], Observation(name="current", rows=broken)], AlarmSpec())
    by_check = {finding.check: finding for finding in report.findings}
    assert not by_check[NightlyCheck.MARGINALS].passed
    assert f"task_type {task}" in by_check[NightlyCheck.MARGINALS].summary
    assert by_check[NightlyCheck.MARGINALS].is_new


def test_a_drop_in_group_scores_fails_the_group_score_check() -> None:
    observations = list(runs_of(V2, 6, seed=3))
    firsts = [
        wrong(row) if row.question_id.endswith("-1") else row for row in observations[-1].rows
    ]
    report = assess([*observations[:-1], Observation(name="current", rows=firsts)], AlarmSpec())
    by_check = {finding.check: finding for finding in report.findings}
    assert not by_check[NightlyCheck.GROUP_SCORE].passed
    assert "points against the reference" in by_check[NightlyCheck.GROUP_SCORE].summary


def test_another_model_of_equal_accuracy_fails_the_flips_check() -> None:
    observations = list(runs_of(V1, 8, seed=4))
    other = [
        replace(row, extracted_answer=Letter.C) if row.outcome is Outcome.INCORRECT else row
        for row in observations[-1].rows
    ]
    report = assess([*observations[:-1], Observation(name="current", rows=other)], AlarmSpec())
    by_check = {finding.check: finding for finding in report.findings}
    assert by_check[NightlyCheck.ACCURACY].passed
    assert not by_check[NightlyCheck.FLIPS].passed
    assert by_check[NightlyCheck.FLIPS].severity is Severity.WARN


def test_a_limit_applies_to_the_share_of_failed_requests() -> None:
    reference = Observation(name="reference", rows=V1)
    failing = [*failed(V1[:20]), *V1[20:]]
    report = assess([reference, Observation(name="current", rows=failing)], AlarmSpec())
    not_passed = [finding.check for finding in report.findings if not finding.passed]
    assert not_passed == [NightlyCheck.FAILED]
    again = assess(
        [reference, Observation(name="one", rows=failing), Observation(name="two", rows=failing)],
        AlarmSpec(),
    )
    assert again.new_findings == [], "the run before had failed the same check"


def test_a_run_without_answers_fails_only_the_failed_check() -> None:
    errors = ["no free memory", *["no such model"] * (len(V1_FAILED) - 1)]
    rows = [replace(row, error=error) for row, error in zip(V1_FAILED, errors, strict=True)]
    report = assess(
        [Observation(name="reference", rows=V1), Observation(name="current", rows=rows)],
        AlarmSpec(),
    )
    assert report.against_reference is None
    (finding,) = [finding for finding in report.findings if not finding.passed]
    assert finding.check is NightlyCheck.FAILED
    assert finding.summary == ("100.0% of the questions got no answer (limit 2.0%): no such model")


def test_the_detectable_drop_has_the_correlation_of_the_answers() -> None:
    chance = random.Random(3)
    changed = {row.video_id for row in V1 if chance.random() < 0.2}
    run = [
        replace(row, outcome=Outcome.INCORRECT, is_correct=False)
        if row.video_id in changed and row.outcome is not Outcome.FAILED
        else row
        for row in V1
    ]
    noise = measure_noise(run, V1)
    assert noise.correlation > 0.1
    videos = len({row.video_id for row in V1})
    analysis = PowerAnalysis(
        questions=len(V1),
        videos=videos,
        discordance=noise.discordance,
        correlation=noise.correlation,
        cluster_size=mean_cluster_size(Counter(row.video_id for row in V1).values()),
    )
    runs = [Observation(name="b", rows=V1), Observation(name="one", rows=run)]
    assert assess(runs, AlarmSpec()).detectable_drop == analysis.effect
    often = [replace(row, repeat=repeat) for row in run for repeat in range(3)]
    before = [replace(row, repeat=repeat) for row in V1 for repeat in range(3)]
    repeated = detectable_difference(often, before)
    assert repeated is not None
    assert repeated >= analysis.effect, "repeats are not questions"


def test_a_run_without_flips_detects_no_drop_that_the_exact_test_accepts() -> None:
    report = assess([Observation(name=name, rows=V1) for name in ("b", "one")], AlarmSpec())
    assert report.detectable_drop == 6 / len(V1)
    few = [row for row in V1 if row.video_id <= "005"]
    assert detectable_difference(few, few) is None, "5 videos cannot make a difference significant"
    compared = report.against_reference
    assert compared is not None
    assert compared.accuracy.difference.low == pytest.approx(-(1 - 0.05 ** (1 / 90)))
    assert "points against the reference (95% CI -3.3 to +3.3" in report.findings[0].summary


def test_the_shares_of_the_budget_add_up() -> None:
    for rows in (V1, V2):
        history = history_of([rows, rows])
        budgets = runs_per_false_alarm(AlarmSpec(), history)
        applied = [check for check in budgets if check != "group_score" or history.has_groups]
        assert sum(1 / budgets[check] for check in applied) == pytest.approx(1 / 60)


def test_the_budget_is_divided_among_the_tests_that_are_on() -> None:
    observations = list(runs_of(V1, 3, seed=5))
    (alone,) = assess(observations, ONLY_ACCURACY).findings
    among = assess(observations, AlarmSpec()).findings[0]
    assert alone.measures["alarm_at"] == pytest.approx(threshold_for(60, 2))
    assert among.measures["alarm_at"] == pytest.approx(threshold_for(60 * 20 / 16, 2))
    shared = assess(observations, ONLY_ACCURACY, tracked=3).findings[0]
    assert shared.measures["alarm_at"] == pytest.approx(threshold_for(3 * 60, 2))


def half_wrong(rows: Sequence[ScoredQuestion]) -> list[ScoredQuestion]:
    return [wrong(row) if number % 2 else row for number, row in enumerate(rows)]


def failed(rows: Sequence[ScoredQuestion]) -> list[ScoredQuestion]:
    facts = {"outcome": Outcome.FAILED, "is_correct": False, "extracted_answer": None}
    return [replace(row, **facts) for row in rows]  # type: ignore[arg-type]


LATER_REPEAT = [replace(row, repeat=1) for row in V2]
SITUATIONS: dict[str, list[Sequence[ScoredQuestion]]] = {
    "two equal runs, then an equal one": [V1, V1, V1],
    "the first run after a drop of all scores": [V1, V1, V1, half_wrong(V1)],
    "the second run after it": [V1, V1, V1, half_wrong(V1), half_wrong(V1)],
    "one facet is worse": [
        *[V1] * 3,
        [wrong(row) if row.facets["domain"] == "Knowledge" else row for row in V1],
    ],
    "group scores are lower, with two repeats": [
        *[[*V2, *LATER_REPEAT]] * 3,
        [*half_wrong(V2), *LATER_REPEAT],
    ],
    "2 of 264 requests failed": [V1, V1, [*V1[:-2], *failed(V1[-2:])]],
    "no answer at all": [V1, failed(V1)],
    "no row at all": [V1, []],
}


def test_the_findings_of_every_situation_are_those_of_the_golden_file() -> None:
    lines = []
    for situation, runs in SITUATIONS.items():
        days = [Observation(name=f"day {day}", rows=rows) for day, rows in enumerate(runs)]
        assessment = assess(days, AlarmSpec())
        lines.append(f"# {situation}: {assessment.evaluation}, {assessment.date}")
        for finding in assessment.findings:
            result = "passed" if finding.passed else "failed again"
            measures = ", ".join(f"{key} {value:.4g}" for key, value in finding.measures.items())
            lines += [
                f"{finding.check}: {'newly failed' if finding.is_new else result} "
                f"({finding.severity}). {finding.summary}",
                f"    {measures}",
            ]
    assert "\n".join(lines) + "\n" == GOLDEN_FINDINGS.read_text(encoding="utf-8")


def test_every_value_of_every_facet_is_tested() -> None:
    tests = marginal_tests(history_of([V1, V1]), [0], 1)
    columns = ("domain", "sub_category", "task_type", "duration")
    assert len(tests) == len({(column, row.facets[column]) for row in V1 for column in columns})
    assert all(test.p_value > 0.05 for test in tests)


@pytest.mark.parametrize("runs", [(V1, V1_FAILED), (V1_FAILED, V1)])
def test_no_facet_is_tested_without_a_complete_video(
    runs: tuple[list[ScoredQuestion], list[ScoredQuestion]],
) -> None:
    assert marginal_tests(history_of(runs), [0], 1) == []


def test_an_assessment_needs_a_reference() -> None:
    with pytest.raises(
        ScoringError, match=r"^a nightly run needs a reference .* evaluation first$"
    ):
        assess([Observation(name="current", rows=V1)], AlarmSpec())
    with pytest.raises(ScoringError, match="reference"):
        assess([Observation(name="b", rows=[]), Observation(name="t", rows=V1)], AlarmSpec())


def test_an_observed_question_is_a_scored_question_with_a_date() -> None:
    row = scored()
    observed_row = ObservedQuestion.of(row, "2026-11-21")
    assert observed_row.observation == "2026-11-21"
    assert observed_row.question_id == row.question_id


def test_the_simulation_counts_the_new_findings_of_assessments() -> None:
    benchmark, spec = SimulatedBenchmark(videos=20), AlarmSpec()
    observations = draw_runs(np.random.default_rng(5), benchmark, 8, v2=False)
    for rows in observations[5:]:
        for number, row in enumerate(rows):
            if number % 2:
                rows[number] = replace(row, outcome=Outcome.INCORRECT, extracted_answer=Letter.B)
    counted = new_alarms(observations, spec)
    assert any(counted["accuracy"])
    named = [Observation(name=f"{n:02d}", rows=rows) for n, rows in enumerate(observations)]
    for run in range(1, len(named)):
        findings = assess(named[: run + 1], spec).findings
        reported = {finding.check.value: finding.is_new for finding in findings}
        assert {check: reported[check] for check in counted} == {
            check: runs[run - 1] for check, runs in counted.items()
        }


@pytest.mark.parametrize(
    ("histories", "runs", "most"),
    [(1, 30, 4), pytest.param(5, 60, 11, marks=pytest.mark.slow)],
)
def test_all_tests_together_meet_the_budget_if_nothing_changes(
    histories: int, runs: int, most: int
) -> None:
    """More than `most` false alarms have a probability of at most 1 in 200."""
    benchmark = SimulatedBenchmark(videos=30)
    alarms = simulate_checks(benchmark, runs=runs, histories=histories, seed=6, v2=False)
    assert set(alarms.by_test) == {"accuracy", "marginals", "flips", "unreadable"}
    assert alarms.allowed == histories * runs / 60
    assert alarms.false_alarms <= most
