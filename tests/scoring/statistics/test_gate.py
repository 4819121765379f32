"""The decision of a gate: verdicts, false verdicts, and what it refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.support.registered import registered
from tests.support.scored_rows import scored, v1_evaluation, v2_evaluation
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.scoring.statistics.estimates import paired_difference
from videomme_pipeline.scoring.statistics.gate import (
    FailIf,
    Gate,
    Levels,
    Verdict,
    check_difference,
    decide,
)
from videomme_pipeline.scoring.statistics.power import as_repeats, detectable_difference
from videomme_pipeline.videos.packets import Floats

VIDEOS, PER_VIDEO = 120, 3
ROWS = [scored(f"{v:03d}-{number}") for v in range(VIDEOS) for number in range(PER_VIDEO)]
BASELINE = v1_evaluation(1, videos=300, evaluation="baseline")


def worse_by(share: float, only: str | None = None) -> list[ScoredQuestion]:
    """The baseline with every n-th right answer wrong, or only those of one domain."""
    right = [
        row.question_id
        for row in BASELINE
        if row.is_correct and only in (None, row.facets["domain"])
    ]
    lost = set(right[:: round(1 / share)])
    wrong: dict[str, Any] = {"outcome": Outcome.INCORRECT, "is_correct": False}
    return [
        replace(row, evaluation="candidate", **(wrong if row.question_id in lost else {}))
        for row in BASELINE
    ]


def test_a_clear_drop_is_worse_and_a_clear_gain_is_better() -> None:
    candidate = worse_by(0.2)
    drop = decide(BASELINE, candidate, margin=2)
    assert drop.verdict is Verdict.WORSE
    assert drop.checks[0].difference < -8
    assert decide(candidate, BASELINE, margin=2).verdict is Verdict.BETTER


def test_the_same_answers_are_equivalent_and_few_of_them_are_undecided() -> None:
    assert decide(BASELINE, BASELINE, margin=2).verdict is Verdict.EQUIVALENT
    few = [row for row in BASELINE if row.video_id <= "020"]
    gate = decide(few, few, margin=2)
    assert gate.verdict is Verdict.UNDECIDED
    detectable = detectable_difference(few, few)
    assert detectable is not None
    assert gate.detectable == 100 * detectable
    assert gate.same_answers
    assert not decide(BASELINE, worse_by(0.2), margin=2).same_answers


@pytest.mark.parametrize("is_correct", [True, False])
def test_one_question_decides_nothing(is_correct: bool) -> None:
    """One video has no standard error, so neither sameness nor a difference is certain."""
    outcome = Outcome.CORRECT if is_correct else Outcome.INCORRECT
    candidate = [scored("001-1", outcome, evaluation="candidate")]
    gate = decide([scored("001-1")], candidate, margin=100)
    assert gate.verdict is Verdict.UNDECIDED
    (check,) = gate.checks
    assert (check.standard_error, check.low, check.high) == (None, None, None)
    assert gate.fails(FailIf.UNDECIDED)


def test_a_significant_difference_within_the_margin_is_equivalent() -> None:
    candidate = worse_by(0.03)
    gate = decide(BASELINE, candidate, margin=4)
    assert gate.checks[0].p_value < 0.05
    assert gate.verdict is Verdict.EQUIVALENT
    assert decide(BASELINE, candidate, margin=0.5).verdict is Verdict.WORSE


def test_one_worse_facet_value_fails_a_gate_that_tests_the_facet() -> None:
    candidate = worse_by(0.5, only="Knowledge")
    gate = decide(BASELINE, candidate, margin=12, facets=["domain"])
    assert gate.checks[0].verdict is Verdict.EQUIVALENT
    assert {check.name for check in gate.checks if check.verdict is Verdict.WORSE} == {
        "domain: Knowledge"
    }
    assert gate.fails(FailIf.WORSE)
    assert not decide(BASELINE, candidate, margin=12).fails(FailIf.WORSE)
    adjusted = {
        f"{marginal.column}: {marginal.value}": marginal.adjusted_p_value
        for marginal in compare(BASELINE, candidate).marginals
    }
    assert all(check.p_value == adjusted[check.name] for check in gate.checks[1:])


def test_a_mean_over_a_facet_is_the_headline_if_it_ranks_evaluations() -> None:
    changes = {"name": "own", "mean_of": "domain"}
    rows = [replace(row, benchmark="own") for row in BASELINE]
    with registered(find_benchmark("videomme").model_copy(update=changes)):
        (check,) = decide(rows, rows, margin=2).checks
    assert check.name == "mean accuracy"


@pytest.mark.parametrize(
    ("rule", "failing"),
    [
        (FailIf.WORSE, {Verdict.WORSE}),
        (FailIf.NOT_EQUIVALENT, {Verdict.WORSE, Verdict.BETTER, Verdict.UNDECIDED}),
        (FailIf.UNDECIDED, {Verdict.WORSE, Verdict.UNDECIDED}),
    ],
)
def test_the_rule_decides_which_verdicts_fail(rule: FailIf, failing: set[Verdict]) -> None:
    few = [row for row in BASELINE if row.video_id <= "020"]
    gates = [
        decide(BASELINE, worse_by(0.2), margin=2),
        decide(worse_by(0.2), BASELINE, margin=2),
        decide(BASELINE, BASELINE, margin=2),
        decide(few, few, margin=2),
    ]
    assert {gate.verdict for gate in gates} == set(Verdict)
    assert {gate.verdict for gate in gates if gate.fails(rule)} == failing


def test_a_check_has_the_numbers_of_the_comparison_in_points_of_100() -> None:
    candidate = worse_by(0.2)
    estimate = compare(BASELINE, candidate).accuracy.difference
    (check,) = decide(BASELINE, candidate, margin=2).checks
    assert None not in (estimate.standard_error, estimate.low, estimate.high)
    assert (check.difference, check.standard_error, check.low, check.high) == tuple(
        100 * (number or 0)
        for number in (estimate.mean, estimate.standard_error, estimate.low, estimate.high)
    )
    assert (check.values, check.clusters) == (estimate.values, estimate.clusters)


def test_equivalence_is_tested_with_students_t_of_one_degree_less_than_videos() -> None:
    values = np.array([0.1, -0.2, 0.0, 0.3, -0.1])
    paired = paired_difference(values, np.zeros(5), range(5))
    check = check_difference("accuracy", paired, 30)
    published = max(
        stats.ttest_1samp(values, -0.3, alternative="greater").pvalue,
        stats.ttest_1samp(values, 0.3, alternative="less").pvalue,
    )
    assert check.p_value_equivalence == pytest.approx(published)


def test_a_p_value_equal_to_the_level_is_significant() -> None:
    paired = paired_difference([1, 1, 1, 1], [0, 0, 0, 0], range(4))
    assert paired.p_value == pytest.approx(1 / 8)
    at_level = Levels(difference=paired.p_value)
    assert check_difference("accuracy", paired, None, levels=at_level).verdict is Verdict.BETTER


def test_groups_are_compared_by_their_score_in_points_of_100() -> None:
    rows = v2_evaluation(1, groups=200)
    gate = decide(rows, rows, margin=5)
    assert (gate.checks[0].name, gate.verdict) == ("group score", Verdict.EQUIVALENT)
    failing = [replace(row, outcome=Outcome.INCORRECT, is_correct=False) for row in rows]
    assert decide(rows, failing, margin=5).checks[0].difference < -10


def test_too_many_failed_questions_and_unknown_facets_are_refused() -> None:
    rows = [scored(f"{video:03d}-1") for video in range(20)]
    failed = [scored(f"{video:03d}-1", Outcome.FAILED) for video in range(5)] + rows[5:]
    with pytest.raises(ScoringError, match="5 of 20 questions have no answer"):
        decide(rows, failed, margin=2, max_failed=0.1)
    assert decide(rows, failed, margin=2, max_failed=0.25).failed == 5
    with pytest.raises(ScoringError, match="no facet `weather`"):
        decide(BASELINE, BASELINE, margin=2, facets=["weather"])


def test_questions_of_one_side_only_have_no_answer() -> None:
    answered = [
        replace(row, evaluation="candidate")
        for row in BASELINE
        if row.outcome is not Outcome.FAILED
    ]
    part = [row for row in answered if row.video_id <= "100"]
    for candidate in (part, [row for row in answered if row.is_correct]):
        counts = f"{900 - len(candidate)} of 900 questions .* only {len(candidate)} can be compared"
        for pair in ((BASELINE, candidate), (candidate, BASELINE)):
            with pytest.raises(ScoringError, match=counts):
                decide(*pair, margin=2, max_failed=0.1)
        asked = {row.question_id for row in candidate}
        gate = decide(BASELINE, candidate, margin=2, asked=asked, max_failed=0.1)
        assert (gate.questions, gate.compared, gate.failed) == (len(candidate), len(candidate), 0)


def test_the_detectable_difference_is_that_of_the_compared_questions() -> None:
    few = [replace(row, evaluation="candidate") for row in BASELINE if row.video_id <= "020"]
    asked = {row.question_id for row in few}
    of_few = decide(BASELINE, few, margin=2, asked=asked).detectable
    assert decide(BASELINE, few, margin=2).detectable == of_few
    assert of_few is not None
    assert of_few > 5


def simulated(chance: np.random.Generator, *, drop: float, margin: float) -> Gate:
    """A gate of two runs of one model whose answers flip together within a video."""
    usual = chance.random((VIDEOS, 1)) * 0.5 + chance.random((VIDEOS, PER_VIDEO)) * 0.5
    runs = []
    for name, loss in (("baseline", 0.0), ("candidate", drop)):
        noise = 0.1 * chance.standard_normal((VIDEOS, 1)) + 0.1 * chance.standard_normal(
            (VIDEOS, PER_VIDEO)
        )
        right = usual + noise > 0.4
        right &= chance.random((VIDEOS, PER_VIDEO)) >= loss
        runs.append(
            [
                replace(
                    row,
                    evaluation=name,
                    outcome=Outcome.CORRECT if is_right else Outcome.INCORRECT,
                    is_correct=bool(is_right),
                )
                for row, is_right in zip(ROWS, right.ravel(), strict=True)
            ]
        )
    return decide(*runs, margin=margin)


@pytest.mark.slow
def test_at_most_5_percent_of_the_gates_of_one_model_have_a_false_verdict() -> None:
    chance = np.random.default_rng(7)
    verdicts = [simulated(chance, drop=0, margin=10).verdict for _ in range(400)]
    false = verdicts.count(Verdict.WORSE) + verdicts.count(Verdict.BETTER)
    assert false <= 0.05 * 400 + 2 * (400 * 0.05 * 0.95) ** 0.5
    assert verdicts.count(Verdict.EQUIVALENT) > 200


@pytest.mark.slow
def test_a_difference_as_large_as_the_margin_is_seldom_equivalent() -> None:
    chance = np.random.default_rng(8)
    # About 71% of the answers are right before 7% of them are lost, which is 5 points.
    verdicts = [simulated(chance, drop=0.07, margin=5).verdict for _ in range(400)]
    assert verdicts.count(Verdict.EQUIVALENT) <= 0.05 * 400 + 2 * (400 * 0.05 * 0.95) ** 0.5


RESULTS = {False: Outcome.INCORRECT, True: Outcome.CORRECT}


def run_of_a_model(chance: np.random.Generator, abilities: Floats) -> list[ScoredQuestion]:
    """One run of a model that answers each question right with its own probability."""
    return [
        replace(row, outcome=RESULTS[bool(right)], is_correct=bool(right))
        for row, right in zip(ROWS, chance.random(len(ROWS)) < abilities, strict=True)
    ]


@pytest.mark.slow
def test_more_runs_of_the_baseline_give_a_smaller_error_and_no_more_false_verdicts() -> None:
    """Three runs remove two thirds of the baseline's part of the noise: a third of all noise."""
    chance = np.random.default_rng(7)
    abilities = chance.choice([0.2, 0.5, 0.9], len(ROWS))
    differences: dict[int, list[float]] = {1: [], 3: []}
    detectable: dict[int, list[float]] = {1: [], 3: []}
    false = 0
    for _ in range(80):
        candidate = run_of_a_model(chance, abilities)
        runs = [run_of_a_model(chance, abilities) for _ in range(3)]
        for count, seen in differences.items():
            gate = decide(as_repeats(runs[:count]), candidate, margin=2)
            seen.append(gate.checks[0].difference)
            detectable[count].append(gate.detectable or 0)
            false += count == 3 and gate.checks[0].p_value <= 0.05
    ratio = float(np.std(differences[3]) / np.std(differences[1]))
    assert ratio == pytest.approx((2 / 3) ** 0.5, abs=0.12)
    stated = float(np.median(detectable[3]) / np.median(detectable[1]))
    assert stated == pytest.approx((2 / 3) ** 0.5, abs=0.03)
    assert false <= 9
