"""v2 group scores against the recorded official script, VLMEvalKit and lmms-eval."""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import GOLDEN
from tests.support.scored_rows import group_of, v2_evaluation
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.formats.official import rating
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.scoring.statistics.groups import (
    GroupRule,
    group_score,
    linear_score,
    question_order,
    score_groups,
)

GOLDEN_SCORES = GOLDEN / "scores"
OFFICIAL = json.loads((GOLDEN_SCORES / "v2_official_scores.json").read_text())
VLMEVALKIT = json.loads((GOLDEN_SCORES / "v2_vlmevalkit.json").read_text())
LMMS_EVAL = json.loads((GOLDEN_SCORES / "lmms_eval_aggregate.json").read_text())

OUTCOME_OF = {1: Outcome.CORRECT, 0: Outcome.INCORRECT, -1: Outcome.UNREADABLE}
CORRECT, INCORRECT = Outcome.CORRECT, Outcome.INCORRECT

_DECLARED = find_benchmark("videomme_v2").grouping
assert _DECLARED is not None
assert _DECLARED.chain is not None
GROUPING, CHAIN = _DECLARED, _DECLARED.chain

structures = st.sampled_from([None, *CHAIN.scores])
four_outcomes = st.tuples(*[st.sampled_from(Outcome)] * 4)
rules = st.sampled_from(GroupRule)


def outcomes_of(marks: list[int]) -> list[Outcome]:
    return [OUTCOME_OF[mark] for mark in marks]


def score(
    structure: str | None, outcomes: Sequence[Outcome], rule: GroupRule = GroupRule.CORRECTED
) -> float:
    return group_score(GROUPING, structure, outcomes, rule)


def structure_of(case: dict[str, Any]) -> str | None:
    """The structure of a recorded logic group, or None for a relevance group."""
    if case.get("group_type", case.get("kind")) == "relevance":
        return None
    return GROUPING.structure({CHAIN.structure: case["group_structure"]})


def recorded(table: list[dict[str, Any]], rule: GroupRule) -> list[tuple[float, float]]:
    return [
        (
            score(structure_of(case), outcomes_of(case["scores"]), rule),
            case["score"],
        )
        for case in table
    ]


def test_all_64_outcomes_equal_the_official_script_under_both_rules() -> None:
    table = OFFICIAL["group_table"]
    kinds = {(case["group_type"], case["group_structure"], tuple(case["scores"])) for case in table}
    assert len(kinds) == 64
    for rule in GroupRule:
        for ours, theirs in recorded(table, rule):
            assert ours == pytest.approx(theirs, abs=1e-9)


def test_the_official_rule_has_the_official_defect() -> None:
    table = OFFICIAL["group_table_with_failures"]
    assert len(table) == 260
    for ours, theirs in recorded(table, GroupRule.OFFICIAL):
        assert ours == pytest.approx(theirs, abs=1e-9)
    for case in table:
        if "linear" in case:
            ours = linear_score(outcomes_of(case["scores"]), GroupRule.OFFICIAL)
            assert ours == pytest.approx(case["linear"], abs=1e-9)


def test_vlmevalkit_and_lmms_eval_agree_with_the_corrected_rule() -> None:
    for case in VLMEVALKIT["per_group_cases"]:
        outcomes = outcomes_of(case["scores"])
        ours = score(structure_of(case), outcomes)
        if case["kind"] == "relevance":
            assert [ours, linear_score(outcomes)] == pytest.approx(case["vlmevalkit"])
        else:
            assert ours == pytest.approx(case["vlmevalkit"])
    for case in LMMS_EVAL["v2"]["group_score_table"]:
        ours = score(structure_of(case), outcomes_of(case["scores"]))
        assert ours == pytest.approx(case["score"])


@given(structure=structures, outcomes=four_outcomes, rule=rules)
def test_a_score_is_between_0_and_100_and_100_is_reached(
    structure: str | None, outcomes: list[Outcome], rule: GroupRule
) -> None:
    value = score(structure, outcomes, rule)
    assert 0 <= value <= 100
    if all(outcome is CORRECT for outcome in outcomes):
        assert value == 100
    if all(outcome is INCORRECT for outcome in outcomes):
        assert value == 0


@given(structure=structures, outcomes=four_outcomes, index=st.integers(0, 3))
def test_one_more_right_answer_never_lowers_the_score(
    structure: str | None, outcomes: list[Outcome], index: int
) -> None:
    better = [CORRECT if number == index else before for number, before in enumerate(outcomes)]
    assert score(structure, better) >= score(structure, outcomes)


@given(structure=structures, outcomes=four_outcomes)
def test_without_unreadable_answers_the_rules_agree(
    structure: str | None, outcomes: list[Outcome]
) -> None:
    read = [outcome if outcome is CORRECT else INCORRECT for outcome in outcomes]
    assert score(structure, read, GroupRule.OFFICIAL) == score(structure, read)
    assert score(structure, outcomes) == score(structure, read)


@given(outcomes=four_outcomes, order=st.permutations(range(4)))
def test_a_relevance_score_does_not_depend_on_order(
    outcomes: tuple[Outcome, ...], order: list[int]
) -> None:
    moved = [outcomes[index] for index in order]
    assert score(None, moved) == score(None, outcomes)


@given(after=st.tuples(*[st.sampled_from(Outcome)] * 2))
def test_nothing_counts_after_the_first_error_of_a_chain(after: tuple[Outcome, ...]) -> None:
    outcomes = [CORRECT, INCORRECT, *after]
    assert score("[1,2,3,4]", outcomes) == 6.25


@given(shuffled=st.permutations(v2_evaluation(3, groups=8)))
def test_row_order_does_not_matter(shuffled: list[Any]) -> None:
    def by_video(rows: list[Any]) -> dict[str, tuple[float, Facets]]:
        groups, _ = score_groups(rows)
        return {group.video_id: (group.score, group.facets) for group in groups}

    assert by_video(shuffled) == by_video(v2_evaluation(3, groups=8))


def test_an_incomplete_group_is_reported_without_a_score() -> None:
    rows = group_of([CORRECT] * 4)[:3] + group_of([CORRECT] * 4, video_id="002")
    groups, unscored = score_groups(rows)
    assert [group.video_id for group in groups] == ["002"]
    assert unscored[0].video_id == "001"
    assert unscored[0].reason == "3 questions where a group has 4"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (group_of([CORRECT] * 4, structure="[1,[2,3,4]]"), "no declared structure"),
        (group_of([CORRECT] * 4)[:3] + group_of([CORRECT] * 4)[:1], "a question occurs twice"),
        (
            group_of([CORRECT] * 4)[:2] + group_of([CORRECT] * 4, structure="4")[2:],
            "no common `group_type`",
        ),
    ],
)
def test_an_inconsistent_group_is_reported_without_a_score(rows: list[Any], reason: str) -> None:
    groups, unscored = score_groups(rows)
    assert not groups
    assert reason in unscored[0].reason


def test_a_group_has_the_level_and_heads_of_the_last_row_with_them() -> None:
    rows = group_of([CORRECT] * 4)
    labelled = [*rows[:3], *group_of([CORRECT] * 4, level=3, second_head="Order")[3:]]
    groups, _ = score_groups(labelled)
    facets = groups[0].facets
    assert (facets["level"], facets["second_head"], "third_head" in facets) == (3, "Order", False)


def test_repeats_and_evaluations_have_separate_groups() -> None:
    rows = [
        row
        for repeat, evaluation in product((0, 1), ("one", "two"))
        for row in group_of([CORRECT] * 4, repeat=repeat, evaluation=evaluation)
    ]
    groups, _ = score_groups(rows)
    assert [(group.repeat, group.evaluation) for group in groups] == [
        *product((0, 1), ("one", "two"))
    ]


def test_a_part_without_groups_is_0_in_the_rating() -> None:
    groups, _ = score_groups(group_of([CORRECT] * 4, structure="4", level=1))
    final = rating(groups)["final_rating"]
    assert final == {
        "level_1": 100,
        "level_2": 0,
        "level_3": 0,
        "relevance_score": 100,
        "relevance_linear_score": 100,
        "logic_score": 0,
        "total": 100,
    }


def test_subscores_equal_those_of_lmms_eval() -> None:
    rows = [
        row
        for group in _in_fours(LMMS_EVAL["v2"]["rows"])
        for row in group_of(
            [OUTCOME_OF[item["score"]] for item in group],
            structure="4" if group[0]["group_type"] == "relevance" else group[0]["group_structure"],
            video_id=group[0]["video_id"],
            level=int(group[-1]["level"]),
        )
    ]
    final = rating(score_groups(rows)[0])["final_rating"]
    theirs = LMMS_EVAL["v2"]["subscores"]
    assert final["total"] == pytest.approx(theirs["overall_score"])
    assert final["logic_score"] == pytest.approx(theirs["logic_score"])
    assert final["level_3"] == pytest.approx(theirs["level_3_score"])


def _in_fours(rows: list[Any]) -> list[list[Any]]:
    return [rows[start : start + 4] for start in range(0, len(rows), 4)]


def test_every_score_is_a_whole_number_of_units() -> None:
    assert GROUPING.units == 240
    for structure, outcomes in product((None, *CHAIN.scores), product(Outcome, repeat=4)):
        units = score(structure, outcomes) / 100 * GROUPING.units
        assert units == pytest.approx(round(units))


def test_questions_are_sorted_by_number() -> None:
    assert sorted(["001-10", "001-2", "001-1"], key=question_order) == ["001-1", "001-2", "001-10"]


def test_a_question_without_a_number_is_the_first() -> None:
    assert sorted(["v-1", "v-0", "x", "v"], key=question_order) == ["v", "v-0", "x", "v-1"]


def test_both_scores_of_a_group_follow_the_rule() -> None:
    outcomes = [CORRECT, CORRECT, Outcome.UNREADABLE, INCORRECT]
    groups = {rule: score_groups(group_of(outcomes), rule)[0][0] for rule in GroupRule}
    linear = {rule: group.linear_score for rule, group in groups.items()}
    assert linear == {GroupRule.CORRECTED: 50.0, GroupRule.OFFICIAL: 25.0}
    scores = {rule: group.score for rule, group in groups.items()}
    assert scores == {GroupRule.CORRECTED: 25.0, GroupRule.OFFICIAL: 56.25}, "-1 goes on in a chain"


def test_a_group_has_four_outcomes() -> None:
    with pytest.raises(ValueError, match="4 answers, not 3"):
        score(None, [CORRECT] * 3)
