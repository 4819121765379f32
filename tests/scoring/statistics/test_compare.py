"""Comparisons of two evaluations."""

import random
from dataclasses import replace

import pytest

from tests.support.registered import registered
from tests.support.scored_rows import scored, v1_evaluation, v2_evaluation
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.groups import Grouping
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import UNKNOWN_TRACK, Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import breakdown
from videomme_pipeline.scoring.statistics.compare import ChangedSetting, changed_settings, compare
from videomme_pipeline.scoring.statistics.groups import score_groups

A = v1_evaluation(1, videos=90, evaluation="a")
B = v1_evaluation(2, videos=90, evaluation="b")


def test_an_evaluation_does_not_differ_from_itself() -> None:
    comparison = compare(A, A)
    assert comparison.accuracy.difference.mean == 0
    assert comparison.accuracy.p_value == 1
    assert comparison.flip_rate.mean == 0
    assert (comparison.won, comparison.lost, comparison.different) == ((), (), ())
    assert not any(marginal.significant for marginal in comparison.marginals)


def test_swapping_the_sides_changes_only_the_sign() -> None:
    forward, other = compare(A, B), compare(B, A)
    assert forward.accuracy.difference.mean == pytest.approx(-other.accuracy.difference.mean)
    assert forward.accuracy.p_value == pytest.approx(other.accuracy.p_value)
    assert (forward.won, forward.lost) == (other.lost, other.won)


def test_the_intervals_of_few_videos_are_those_of_scores() -> None:
    videos = sorted({row.video_id for row in A})[:3]
    few = [replace(row, evaluation="few") for row in A if row.video_id in videos]
    accuracy = compare(few, few).accuracy_a
    (shown,) = breakdown(few, [])
    assert (accuracy.mean, accuracy.low, accuracy.high) == (
        shown.accuracy,
        shown.accuracy_low,
        shown.accuracy_high,
    )
    assert accuracy.high is not None
    assert 0 < accuracy.high < 1


def test_the_interval_of_a_marginal_without_differences_depends_on_its_videos() -> None:
    shown = [marginal.difference.difference for marginal in compare(A, A).marginals]
    highs = {estimate.clusters: estimate.high for estimate in shown if estimate.clusters > 1}
    assert highs
    for clusters, high in highs.items():
        assert high == pytest.approx(1 - 0.05 ** (1 / clusters))


def test_the_51_marginals_of_v1_are_tested() -> None:
    marginals = compare(A, B).marginals
    for marginal in marginals:
        difference = marginal.accuracy_b - marginal.accuracy_a
        assert difference == pytest.approx(marginal.difference.difference.mean)
    columns = [marginal.column for marginal in marginals]
    assert {column: columns.count(column) for column in columns} == {
        "domain": 6,
        "sub_category": 30,
        "task_type": 12,
        "duration": 3,
    }


def test_a_real_drop_is_significant_only_in_its_domain() -> None:
    def worse(row: ScoredQuestion) -> ScoredQuestion:
        fails = row.facets["domain"] == "Knowledge" and row.is_correct
        return replace(row, outcome=Outcome.INCORRECT, is_correct=False) if fails else row

    comparison = compare(A, [worse(row) for row in A])
    significant = {marginal.value for marginal in comparison.marginals if marginal.significant}
    assert "Knowledge" in significant
    assert "Life Record" not in significant
    assert comparison.accuracy.p_value < 1e-3
    assert not comparison.won
    ranked = sorted(comparison.marginals, key=lambda marginal: marginal.difference.p_value)
    raised = [51 * m.difference.p_value / rank for rank, m in enumerate(ranked, start=1)]
    adjusted = [min(1, *raised[start:]) for start in range(51)]
    assert [m.adjusted_p_value for m in ranked] == pytest.approx(adjusted)


def test_the_flip_rate_counts_changed_answers_not_changed_scores() -> None:
    a = [scored(f"001-{number}", extracted_answer=letter) for number, letter in enumerate("AAAA")]
    b = [scored(f"001-{number}", extracted_answer=letter) for number, letter in enumerate("ACAC")]
    assert compare(a, b).flip_rate.mean == 0.5
    assert compare(a, b).accuracy.difference.mean == 0


def test_row_order_does_not_matter() -> None:
    shuffled = B.copy()
    random.Random(1).shuffle(shuffled)
    assert compare(A, shuffled).accuracy == compare(A, B).accuracy


def test_failed_requests_are_listed_and_not_compared() -> None:
    a = [scored("001-1"), scored("001-2"), scored("002-1"), scored("003-1")]
    b = [
        scored("001-1", Outcome.FAILED),
        scored("001-2"),
        scored("002-1", Outcome.UNREADABLE),
        scored("004-1"),
    ]
    comparison = compare(a, [replace(row, evaluation="other") for row in b])
    assert (comparison.evaluation_a, comparison.evaluation_b) == ("made-up", "other")
    assert (comparison.accuracy_a.mean, comparison.accuracy_b.mean) == (1, 0.5)
    assert comparison.failed == ("001-1",)
    assert comparison.accuracy.difference.values == 2
    assert comparison.accuracy.difference.mean == -0.5
    assert comparison.lost == ("002-1",)
    assert comparison.different == ("001-1", "002-1")
    assert (comparison.only_a, comparison.only_b) == (("003-1",), ("004-1",))


def test_v2_is_compared_by_group() -> None:
    a, b = v2_evaluation(1, groups=60, evaluation="a"), v2_evaluation(2, groups=60, evaluation="b")
    comparison = compare(a, b)
    assert comparison.group_score is not None
    answered = {
        key.question_id
        for key in a
        if Outcome.FAILED
        not in (key.outcome, next(r for r in b if r.question_id == key.question_id).outcome)
    }
    means = [
        [group.score for group in score_groups([r for r in rows if r.question_id in answered])[0]]
        for rows in (a, b)
    ]
    assert comparison.group_score.difference.values == len(means[0])
    assert comparison.group_score.difference.mean == pytest.approx(
        sum(means[1]) / len(means[1]) - sum(means[0]) / len(means[0])
    )
    assert comparison.group_score.exact
    assert {marginal.column for marginal in comparison.marginals} == {
        "group_type",
        "level",
        "second_head",
        "third_head",
    }


def test_a_single_question_is_compared_without_an_interval() -> None:
    comparison = compare([scored("001-1")], [scored("001-1", Outcome.INCORRECT)])
    assert (comparison.accuracy.difference.mean, comparison.accuracy.difference.low) == (-1, None)
    assert comparison.mean_over is None


def test_repeats_are_compared_with_repeats() -> None:
    a = [scored("001-1", repeat=0), scored("001-1", Outcome.INCORRECT, repeat=1)]
    b = [scored("001-1", repeat=0), scored("001-1", repeat=1)]
    comparison = compare(a, b)
    assert comparison.accuracy.difference.values == 2
    assert comparison.won == ("001-1",)


@pytest.mark.parametrize("repeats", [2, 3])
def test_the_mean_of_one_sides_repeats_is_compared_with_the_answer_of_the_other(
    repeats: int,
) -> None:
    outcomes = [Outcome.CORRECT, *[Outcome.INCORRECT] * (repeats - 1)]
    a = [scored("001-1", outcome, repeat=number) for number, outcome in enumerate(outcomes)]
    b = [scored("001-1"), scored("002-1")]
    for comparison, sign in ((compare(a, b), 1), (compare(b, a), -1)):
        assert comparison.accuracy.difference.mean == pytest.approx(sign * (1 - 1 / repeats))
        assert comparison.n == 1
        assert set(comparison.only_a + comparison.only_b) == {"002-1"}


def test_a_mean_over_a_facet_is_compared_if_it_ranks_evaluations() -> None:
    """Two of three easy answers and one of one hard answer are lost: -2/3 and -1."""
    rows = [
        scored(f"00{number}-1", benchmark="own", domain=domain)
        for number, domain in enumerate(["Knowledge", "Knowledge", "Knowledge", "Multilingual"])
    ]
    worse = [rows[0], *(replace(row, is_correct=False) for row in rows[1:])]
    changes = {"name": "own", "mean_of": "domain"}
    with registered(find_benchmark("videomme").model_copy(update=changes)):
        comparison = compare(rows, worse, specification_a={"seed": 1}, specification_b={"seed": 2})
        bare = [replace(row, facets=Facets()) for row in rows]
        assert compare(bare, bare).mean_over is None
    assert comparison.mean_over is not None
    assert comparison.mean_over.difference.mean == pytest.approx(-(2 / 3 + 1) / 2)
    assert comparison.accuracy.difference.mean == -3 / 4
    assert comparison.changed_settings == (ChangedSetting(key="seed", a="1", b="2"),)


def test_the_test_of_any_declared_groups_is_exact() -> None:
    """Sevenths of the full score are no multiples of the units of Video-MME-v2."""
    grouping = Grouping(size=7, scores=tuple(100 * right / 7 for right in range(8)))
    changes = {"name": "own", "grouping": grouping}
    rows = [
        scored(f"{group:03d}-{number}", benchmark="own")
        for group in range(20)
        for number in range(1, 8)
    ]
    worse = [
        replace(row, outcome=Outcome.INCORRECT, is_correct=False)
        if row.question_id.endswith("-1")
        else row
        for row in rows
    ]
    with registered(find_benchmark("videomme").model_copy(update=changes)):
        group_score = compare(rows, worse).group_score
    assert group_score is not None
    assert group_score.exact
    assert group_score.p_value == pytest.approx(2 / 2**20)


def test_changed_settings_have_dotted_keys() -> None:
    a = {"model": {"name": "m", "seed": 1}, "reader": "careful", "alignment": None}
    b = {"model": {"name": "m", "seed": 2}, "reader": "careful", "alignment": {"policy": "full"}}
    changed = {setting.key: (setting.a, setting.b) for setting in changed_settings(a, b)}
    assert changed == {"model.seed": ("1", "2"), "alignment.policy": (None, "full")}


def test_limits_and_prices_are_no_settings_that_change_answers() -> None:
    a, b = ({"model": {"limits": {"x": n}, "prices": {"input": n}, "seed": n}} for n in (1, 2))
    assert [setting.key for setting in changed_settings(a, b)] == ["model.seed"]


def test_the_error_for_an_impossible_comparison_has_the_reason() -> None:
    with pytest.raises(ScoringError, match="made-up and made-up: no question was answered in both"):
        compare([scored("001-1")], [scored("002-1")])
    with pytest.raises(ScoringError) as raised:
        compare([], [])
    assert str(raised.value) == (
        "a and b: no question was answered in both (0 and 0 rows, 0 shared); compare evaluations "
        "of the same benchmark that have answers"
    )
    with pytest.raises(ScoringError, match="occurs twice"):
        compare([scored("001-1")] * 2, [scored("001-1")])
    with pytest.raises(ScoringError, match="several evaluations"):
        compare([scored(), scored("001-2", evaluation="other")], [scored()])


def test_different_benchmarks_are_refused() -> None:
    other = [replace(row, benchmark="videomme_v2") for row in B]
    message = r"a is of videomme and b of videomme_v2: .*, and their headline metrics differ; "
    with pytest.raises(ScoringError, match=message):
        compare(A[:1], other[:1])
    same_metric = [replace(row, benchmark="longvideobench_val") for row in B]
    with pytest.raises(ScoringError, match=r"b of longvideobench_val: .* different questions;"):
        compare(A, same_metric)


def test_tracks_are_compared_only_if_nothing_else_differs() -> None:
    def track(rows: list[ScoredQuestion], name: str, pair: str | None) -> list[ScoredQuestion]:
        return [replace(row, track=name, pairing=pair) for row in rows]

    a = track(A, "with_subtitles", "16 frames")
    assert compare(a, track(B, "without_subtitles", "16 frames"))
    assert compare(a, track(B, "with_subtitles", "8 frames"))
    assert compare(a, track(B, UNKNOWN_TRACK, "8 frames"))
    for name, pair in (
        ("without_subtitles", "8 frames"),
        ("without_subtitles", None),
        ("audio_with_subtitles", "8 frames"),
    ):
        with pytest.raises(ScoringError, match=rf"{name.replace('_', ' ')}: they are of different"):
            compare(a, track(B, name, pair))
