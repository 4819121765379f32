"""Power analyses, and the noise that they assume."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.support.cli import videomme
from tests.support.paths import GOLDEN
from tests.support.registered import registered
from tests.support.scored_rows import scored, v1_evaluation
from videomme_pipeline.benchmarks.benchmark import Size
from videomme_pipeline.demo.smoke.declaration import SMOKE
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import paired_difference
from videomme_pipeline.scoring.statistics.power import (
    USUAL_CORRELATION,
    USUAL_DISCORDANCES,
    Noise,
    PowerAnalysis,
    as_repeats,
    detectable_difference,
    first_repeats,
    mean_cluster_size,
    measure_noise,
)

A = v1_evaluation(1, videos=200, evaluation="a")
B = v1_evaluation(2, videos=200, evaluation="b")


def with_outcomes(rows: list[ScoredQuestion], right: list[bool]) -> list[ScoredQuestion]:
    return [
        replace(
            row,
            outcome=Outcome.CORRECT if is_right else Outcome.INCORRECT,
            is_correct=is_right,
        )
        for row, is_right in zip(rows, right, strict=True)
    ]


def test_an_analysis_states_its_assumptions() -> None:
    analysis = PowerAnalysis(questions=2_700, videos=900, discordance=0.12)
    assert (analysis.correlation, analysis.alpha, analysis.power) == (0.2, 0.05, 0.8)
    assumed = {
        "questions": 90,
        "videos": 30,
        "discordance": 0.2,
        "correlation": 0.1,
        "alpha": 0.01,
        "power": 0.9,
    }
    analysis = PowerAnalysis(**assumed)  # type: ignore[arg-type]
    assert {name: getattr(analysis, name) for name in assumed} == assumed
    with pytest.raises(ScoringError, match=r"5 videos: with fewer than 6.*use more videos"):
        PowerAnalysis(questions=15, videos=5, discordance=0.12)


def test_the_detectable_difference_equals_lmms_evals_for_independent_questions() -> None:
    theirs = json.loads((GOLDEN / "scores" / "lmms_eval_aggregate.json").read_text())["power_2pct"]
    ours = PowerAnalysis(questions=2_700, videos=2_700, discordance=0.25)
    assert round(ours.effect, 3) == theirs["min_detectable_effect"]


def test_the_detectable_difference_is_detected_with_its_power() -> None:
    effect = PowerAnalysis(questions=300, videos=100, discordance=0.2, correlation=0).effect
    chance = np.random.default_rng(5)
    shares = (0.1 + effect / 2, 0.1 - effect / 2, 0.8)
    detected = 0
    for _ in range(400):
        differences = chance.choice([1, -1, 0], 300, p=shares)
        test = paired_difference(differences, np.zeros(300), np.arange(100).repeat(3).tolist())
        detected += test.p_value <= 0.05
    assert 0.72 <= detected / 400 <= 0.88


@pytest.mark.parametrize("videos", [100, 300])
def test_the_power_holds_for_unequal_numbers_of_questions(videos: int) -> None:
    """Half of the videos have one question, the others nine. Their mean would promise too much."""
    sizes = [1, 9] * (videos // 2)
    clusters = np.arange(videos).repeat(sizes).tolist()
    size = {"questions": len(clusters), "videos": videos, "discordance": 0.2, "correlation": 1.0}
    assert mean_cluster_size(sizes) == pytest.approx(8.2)
    effect = PowerAnalysis(**size, cluster_size=8.2).effect  # type: ignore[arg-type]
    assert effect > 1.2 * PowerAnalysis(**size).effect  # type: ignore[arg-type]
    chance = np.random.default_rng(5)
    shares = (0.1 + effect / 2, 0.1 - effect / 2, 0.8)
    detected = 0
    for _ in range(300):
        differences = chance.choice([1, -1, 0], videos, p=shares).repeat(sizes)
        test = paired_difference(differences, np.zeros(len(clusters)), clusters)
        detected += test.p_value <= 0.05
    assert detected / 300 >= 0.75


def test_correlated_questions_need_a_larger_difference() -> None:
    plain = PowerAnalysis(questions=2_700, videos=900, discordance=0.2, correlation=0)
    correlated = PowerAnalysis(questions=2_700, videos=900, discordance=0.2, correlation=0.5)
    assert correlated.effect == pytest.approx(plain.effect * 2**0.5)


def test_few_videos_need_the_quantiles_of_students_t() -> None:
    """With 7 degrees of freedom, 2.3646 + 0.8960 standard errors (tables of Student's t)."""
    analysis = PowerAnalysis(questions=8_000, videos=8, discordance=0.2, correlation=0)
    assert analysis.effect == pytest.approx((2.3646 + 0.8960) * (0.2 / 8_000) ** 0.5, rel=1e-4)


def test_no_difference_is_detectable_that_the_exact_test_cannot_reject() -> None:
    analysis = PowerAnalysis(questions=2_700, videos=900, discordance=0.0)
    assert analysis.effect == 6 / 2_700
    clusters = np.arange(900).repeat(3).tolist()
    for wrong, significant in ((6, True), (5, False)):
        after = np.ones(2_700)
        after[: 3 * wrong : 3] = 0
        assert (paired_difference(np.ones(2_700), after, clusters).p_value <= 0.05) == significant


def test_noise_is_measured_on_questions_that_both_answered() -> None:
    noise = measure_noise(A, B)
    others = {row.question_id: row for row in B}
    pairs = [
        (row.is_correct, others[row.question_id].is_correct)
        for row in A
        if Outcome.FAILED not in (row.outcome, others[row.question_id].outcome)
    ]
    assert noise.discordance == np.mean([first != other for first, other in pairs])
    assert noise.correlation < 0.2, "the made-up answers are independent"
    with pytest.raises(ScoringError) as raised:
        measure_noise(A, [scored("999-1")])
    assert str(raised.value) == (
        "no question was answered in both evaluations; compare evaluations of the same benchmark "
        "that have answers"
    )


def noise_of(changes: str) -> Noise:
    """The noise between two evaluations. `changes` has a word per video: + is won, - is lost."""
    outcomes = {"+": (False, True), "-": (True, False), "0": (True, True)}
    marks = [
        (f"{video}-{number}", mark)
        for video, word in enumerate(changes.split())
        for number, mark in enumerate(word)
    ]
    rows = [scored(question_id) for question_id, _ in marks]
    before, after = zip(*(outcomes[mark] for _, mark in marks), strict=True)
    return measure_noise(with_outcomes(rows, list(before)), with_outcomes(rows, list(after)))


@pytest.mark.parametrize(
    ("changes", "discordance", "correlation"),
    [
        # Variance 8/12 and squared error 10 × 6/5 / 12², so the design effect is 3/2.
        ("++ -- +- -0 0+ 00", 8 / 12, 0.5),
        ("+- -+ +- -+", 1, 0),  # a negative correlation
        ("+++++ -----", 1, 1),  # an estimate above 1
        ("+ - 0", 2 / 3, 0),  # one question per video
        ("+-", 1, 0),  # one video
        ("++ ++", 1, 0),  # all the same
    ],
)
def test_the_noise_of_few_questions_is_that_of_the_formula(
    changes: str, discordance: float, correlation: float
) -> None:
    noise = noise_of(changes)
    assert (noise.discordance, noise.correlation) == pytest.approx((discordance, correlation))


def test_questions_that_change_together_are_fully_correlated() -> None:
    chance = np.random.default_rng(1)
    changes = chance.choice([0, 1, 2], 200).repeat(3)
    before = with_outcomes(A, [bool(change == 1) for change in changes])
    after = with_outcomes(A, [bool(change == 2) for change in changes])
    assert measure_noise(before, after).correlation == pytest.approx(1, abs=0.02)
    assert measure_noise(before, before).discordance == 0


def test_usual_noise_is_assumed_if_nothing_was_answered_in_both() -> None:
    rows, others = v1_evaluation(1, videos=30), v1_evaluation(1, videos=60)[90:]
    assumed = PowerAnalysis(
        questions=90,
        videos=30,
        discordance=USUAL_DISCORDANCES[-1],
        correlation=USUAL_CORRELATION,
    )
    assert detectable_difference(rows, others) == assumed.effect


def test_the_mean_over_repeats_has_less_noise() -> None:
    """Two repeats always differ, so one has a noise of 1/2. The mean of four removes 3/4 of it."""
    flips = [Outcome.CORRECT, Outcome.INCORRECT]
    rows = [
        scored(f"{video:03d}-1", flips[(video + repeat) % 2], repeat=repeat)
        for video in range(100)
        for repeat in range(4)
    ]
    once = [scored(f"{video:03d}-1", flips[video // 2 % 2]) for video in range(100)]
    noise = measure_noise(rows, once)
    assert noise.discordance == 0.5
    removed = (1 - 1 / 4) / 2
    expected = PowerAnalysis(
        questions=100,
        videos=100,
        discordance=0.5 - removed,
        correlation=noise.correlation,
    )
    assert detectable_difference(rows, once) == pytest.approx(expected.effect)
    assert detectable_difference(once, rows) == pytest.approx(expected.effect)


def test_runs_become_the_repeats_of_the_first_one() -> None:
    runs = [
        [scored("001-1", evaluation="first")],
        [scored("001-1", evaluation="second", repeat=repeat) for repeat in (0, 1)],
        [scored("001-1", evaluation="third")],
    ]
    rows = as_repeats(runs)
    assert [(row.evaluation, row.repeat) for row in rows] == [
        ("first", number) for number in range(4)
    ]


def test_two_repeats_are_compared_like_two_evaluations() -> None:
    rows = [replace(row, repeat=repeat) for repeat, run in enumerate((A, B)) for row in run]
    repeats = first_repeats(rows)
    assert repeats is not None
    assert measure_noise(*repeats) == measure_noise(A, B)
    assert first_repeats(A) is None


def test_the_command_shows_the_numbers_of_the_docs() -> None:
    analyses = videomme("power", "--benchmark", "videomme", "--json").json
    assert [round(100 * analysis["effect"], 1) for analysis in analyses] == [1.4, 2.2, 3.2]
    assert {(analysis["videos"], analysis["questions"]) for analysis in analyses} == {(900, 2_700)}
    subset = videomme("power", "--videos", "90", "--discordance", "0.12", "--json").json
    assert (subset[0]["questions"], len(subset)) == (270, 1)


def test_the_command_takes_unequal_numbers_of_questions() -> None:
    size = ("power", "--videos", "40", "--discordance", "0.12", "--json")
    (equal,) = videomme(*size, "--per-video", "3").json
    (unequal,) = videomme(*size, "--per-video", "1,2,6").json
    assert equal["questions"] == unequal["questions"] == 120
    assert equal["cluster_size"] == 3
    assert unequal["cluster_size"] == pytest.approx(41 / 9)
    assert unequal["effect"] > equal["effect"]


@pytest.mark.parametrize("numbers", ["1,2.5", "2,x", "1,,2", "0", "1,-1"])
def test_numbers_of_questions_that_cannot_be_read_are_named(numbers: str) -> None:
    failed = videomme("power", "--videos", "40", "--per-video", numbers).failed_with
    assert failed == f"--per-video {numbers!r}: give numbers such as 1,3,6"


def test_a_size_that_is_not_known_must_be_given() -> None:
    with registered(SMOKE.model_copy(update={"name": "own", "size": Size()})):
        failed = videomme("power", "--benchmark", "own").failed_with
    assert failed.endswith("give --videos and --questions")
