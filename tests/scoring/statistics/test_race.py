"""The plan of a race and when it stops; its boundaries agree with published tables."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.made_up_results import v1_questions
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.selection import group_by_video
from videomme_pipeline.scoring.statistics.estimates import paired_difference
from videomme_pipeline.scoring.statistics.gate import Verdict, check_difference
from videomme_pipeline.scoring.statistics.power import USUAL_DISCORDANCES, PowerAnalysis
from videomme_pipeline.scoring.statistics.race import (
    Stop,
    boundaries,
    boundary,
    crossing_probability,
    detectable_in_race,
    plan_looks,
    race_order,
    stop_after,
)

QUESTIONS = group_by_video(v1_questions(90))
# The bound of the last of 2 to 10 equal looks, two-sided 5%: tables of chapter 2 in Jennison and
# Turnbull, "Group Sequential Methods with Applications to Clinical Trials" (2000).
PUBLISHED = {
    0.0: [1.977, 2.004, 2.024, 2.040, 2.053, 2.063, 2.072, 2.080, 2.087],
    0.25: [2.038, 2.083, 2.113, 2.136, 2.154, 2.168, 2.180, 2.190, 2.199],
    0.5: [2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512, 2.535, 2.555],
}


@settings(max_examples=8)  # each plan integrates its boundaries
@given(st.integers(1, 1000))
def test_looks_grow_to_all_videos_at_levels_that_grow(videos: int) -> None:
    looks = plan_looks(videos)
    numbers = [look.videos for look in looks]
    assert numbers == sorted(set(numbers))
    assert (numbers[-1], looks[-1].share) == (videos, 1)
    assert 1 <= len(looks) <= 9
    levels = [look.levels.difference for look in looks]
    assert levels == sorted(levels)
    assert levels[-1] <= 0.05 + 1e-9


def test_a_single_look_has_the_levels_of_a_gate() -> None:
    [look] = plan_looks(8)
    assert look.levels.difference == pytest.approx(0.05)
    assert look.levels.equivalence == pytest.approx(0.05)


def test_the_order_is_fixed_by_the_seed_and_has_every_video_once() -> None:
    order = race_order(QUESTIONS, ["duration"], seed=0)
    assert sorted(order) == sorted(QUESTIONS)
    assert order == race_order(dict(reversed(QUESTIONS.items())), ["duration"], seed=0)
    assert order != race_order(QUESTIONS, ["duration"], seed=1)
    assert order[:4] == ("019", "027", "008", "054"), "a race that goes on keeps its order"


@pytest.mark.parametrize("first", [9, 30, 60])
def test_every_part_of_the_order_has_the_strata_in_proportion(first: int) -> None:
    whole = Counter(rows[0].facets["duration"] for rows in QUESTIONS.values())
    order = race_order(QUESTIONS, ["duration"], seed=0)
    part = Counter(QUESTIONS[video_id][0].facets["duration"] for video_id in order[:first])
    for duration, number in whole.items():
        assert part[duration] == pytest.approx(first * number / len(QUESTIONS), abs=1)


def test_the_stratum_of_a_group_is_that_of_its_last_question() -> None:
    levels = ("1", "2", "3")
    questions = {
        f"{number:03d}": [
            replace(QUESTIONS["001"][0], facets=Facets()),
            replace(QUESTIONS["001"][0], facets=Facets()),
            replace(QUESTIONS["001"][0], facets=Facets({"level": levels[number // 30]})),
        ]
        for number in range(90)
    }
    order = race_order(questions, ["level"], seed=0)
    part = Counter(questions[video_id][-1].facets["level"] for video_id in order[:9])
    assert part == dict.fromkeys(levels, 3)


def test_a_look_finds_differences_from_its_boundary_on() -> None:
    """With one look, it is half of the 95% interval of Student's t."""
    (look,) = plan_looks(20, 1)
    a, b, clusters = difference(0.2, 20)
    check = check_difference("accuracy", paired_difference(b, a, clusters), 2.0)
    assert check.high is not None
    assert boundary(check, look) == pytest.approx(check.high - check.difference, rel=1e-6)
    assert boundary(replace(check, standard_error=None), look) is None


def difference(change: float, videos: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Right answers of two runs, of which the second gains or loses a share of the questions."""
    a = np.ones(3 * videos) if change < 0 else np.zeros(3 * videos)
    b = a.copy()
    step = round(1 / abs(change)) if change else 0
    if step:
        b[::step] = 1 - a[::step]
    return a, b, np.repeat(np.arange(videos), 3).tolist()


@pytest.mark.parametrize(("change", "verdict"), [(0.2, Verdict.BETTER), (-0.2, Verdict.WORSE)])
def test_a_clear_difference_is_decided_at_an_early_look(change: float, verdict: Verdict) -> None:
    looks = plan_looks(900)
    a, b, clusters = difference(change, looks[0].videos)
    check = check_difference(
        "accuracy", paired_difference(b, a, clusters), 2, levels=looks[0].levels
    )
    assert check.verdict is verdict
    assert stop_after(check, looks) is Stop.DECIDED


def test_a_look_needs_stronger_evidence_than_a_gate() -> None:
    looks = plan_looks(900)
    a, b, clusters = difference(0.025, looks[0].videos)
    paired = paired_difference(b, a, clusters)
    assert paired.p_value == pytest.approx(2**-7, rel=0.01)  # eight videos differ
    assert check_difference("accuracy", paired, 2).verdict is Verdict.BETTER
    check = check_difference("accuracy", paired, 2, levels=looks[0].levels)
    assert check.verdict is Verdict.UNDECIDED
    assert stop_after(check, looks) is None


def test_an_undecided_race_ends_with_all_videos() -> None:
    looks = plan_looks(30)
    gains = np.tile([1.0, 0.0, 0.0, 0.0], 8)[: looks[-2].videos]
    losses = np.tile([0.0, 1.0, 0.0, 0.0], 8)[: looks[-2].videos]
    paired = paired_difference(gains, losses, list(range(len(gains))))
    check = check_difference("accuracy", paired, 2, levels=looks[-2].levels)
    assert stop_after(check, looks[-2:]) is None
    assert stop_after(check, looks[-1:]) is Stop.ALL_VIDEOS


def test_equal_answers_need_more_videos_for_equivalence_at_an_early_look() -> None:
    early = plan_looks(900)[0]
    same = np.ones(early.videos)
    paired = paired_difference(same, same, list(range(early.videos)))
    assert check_difference("accuracy", paired, 4).verdict is Verdict.EQUIVALENT
    check = check_difference("accuracy", paired, 4, levels=early.levels)
    assert check.verdict is Verdict.UNDECIDED
    assert stop_after(check, plan_looks(900)) is None


def test_few_videos_can_detect_nothing_or_only_large_differences() -> None:
    assert detectable_in_race(15, plan_looks(5)) is None
    few, many = (detectable_in_race(3 * n, plan_looks(n)) for n in (17, 900))
    assert few is not None
    assert many is not None
    assert few > 14
    analysis = PowerAnalysis(
        questions=2700,
        videos=900,
        discordance=USUAL_DISCORDANCES[1],
        alpha=plan_looks(900)[-1].levels.difference,
    )
    assert many == 100 * analysis.effect
    assert 2 < many < 4


def equal_looks(count: int) -> tuple[float, ...]:
    return tuple((number + 1) / count for number in range(count))


@pytest.mark.parametrize("shape", PUBLISHED)
def test_the_bounds_are_those_of_the_published_tables(shape: float) -> None:
    last = [float(boundaries(equal_looks(looks), 0.05, shape)[-1]) for looks in range(2, 11)]
    assert last == pytest.approx(PUBLISHED[shape], abs=0.0006)


def test_one_look_has_the_bound_of_an_ordinary_test() -> None:
    assert boundaries((1.0,), 0.05)[0] == pytest.approx(1.959964, abs=1e-6)


def test_random_walks_cross_the_bounds_as_often_as_the_level() -> None:
    shares = (0.1, 0.3, 0.35, 0.8, 1.0)
    bounds = boundaries(shares, 0.05)
    steps = np.random.default_rng(0).standard_normal((200_000, 5))
    walks = np.cumsum(steps * np.sqrt(np.diff((0.0, *shares))), axis=1)
    crossed = np.any(np.abs(walks) >= bounds * np.sqrt(shares), axis=1)
    assert np.mean(crossed) == pytest.approx(0.05, abs=0.002)
    assert crossing_probability(shares, bounds) == pytest.approx(0.05, abs=1e-9)


def test_early_bounds_are_higher() -> None:
    bounds = boundaries(equal_looks(9), 0.05)
    assert np.all(np.diff(bounds) < 0)
