"""Video-MME-v2 group scores: four questions on one video, scored together.

Rules: the official script (MME-Benchmarks/Video-MME-v2, `evaluation/test_video_mme_v2.py`),
with which VLMEvalKit and lmms-eval agree on all 64 right/wrong outcomes. Groups are built by
video id and ordered by question number, never by row position. An incomplete group is reported
without a score.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import GroupType
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

GROUP_SIZE = 4
"""Questions in a group."""

_CHAIN_SCORES: dict[str, tuple[float, float, float, float, float]] = {
    "[1,2,3,4]": (0.0, 100 / 16, 400 / 16, 900 / 16, 100.0),
    "[1,[2,3],4]": (0.0, 100 / 12, 400 / 12, 700 / 12, 100.0),
    "[[1,2],3,4]": (0.0, 10.0, 20.0, 50.0, 100.0),
}
"""Score of a logic group by the length of its chain of right answers, per structure."""

_QUESTION_NUMBER = re.compile(r"(\d+)\D*$")


class GroupRule(StrEnum):
    """The rule for answers without a letter in a group score."""

    CORRECTED = "corrected"
    """These answers are wrong, as in VLMEvalKit and lmms-eval."""
    OFFICIAL = "official"
    """These answers are -1, as in the official script. In a logic group, -1 counts as right. In a
    relevance group, it cancels one right answer. This defect is reproduced for comparison only."""


class GroupStructure(StrEnum):
    """The dependencies between the questions of a logic group."""

    LINEAR = "[1,2,3,4]"
    FORK = "[1,[2,3],4]"
    """Questions 2 and 3 both depend only on question 1."""
    JOIN = "[[1,2],3,4]"
    """Questions 1 and 2 are independent; question 3 depends on both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScore:
    """One complete group of one evaluation. `score` is 0 to 100.

    `linear_score` is the percentage of right answers; under the official rule it can be negative.
    `facets` are those of the group's last question that has them.
    """

    evaluation: str
    repeat: int
    video_id: str
    group_type: GroupType
    group_structure: GroupStructure | None
    facets: Facets
    outcomes: tuple[Outcome, ...]
    score: float
    linear_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscoredGroup:
    """A group that cannot be scored, with the reason."""

    evaluation: str
    repeat: int
    video_id: str
    question_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """Mean group scores (0 to 100) with the official file's keys.

    `final_rating`: `level_1`…`level_3`, `relevance_score`, `relevance_linear_score`,
    `logic_score`, `total`; a part without groups is 0.0, as in the official file. Heads are in
    order of first appearance.
    """

    final_rating: dict[str, float]
    second_head_rating: dict[str, float]
    third_head_rating: dict[str, float]


def score_groups(
    rows: Iterable[ScoredQuestion], rule: GroupRule = GroupRule.CORRECTED
) -> tuple[list[GroupScore], list[UnscoredGroup]]:
    """The scored and the unscored groups in `rows`.

    Rows may be in any order and from any number of evaluations and repeats. Rows without a group
    type (v1) are left out. Groups are in order of first appearance.
    """
    members: dict[tuple[str, int, str], list[ScoredQuestion]] = defaultdict(list)
    for row in rows:
        if row.is_grouped:
            members[row.evaluation, row.repeat, row.video_id].append(row)
    scored: list[GroupScore] = []
    unscored: list[UnscoredGroup] = []
    for (evaluation, repeat, video_id), group in members.items():
        group.sort(key=lambda row: question_order(row.question_id))
        reason = _why_unscored(group)
        if reason is None:
            scored.append(_score_group(group, rule))
        else:
            unscored.append(
                UnscoredGroup(
                    evaluation=evaluation,
                    repeat=repeat,
                    video_id=video_id,
                    question_ids=tuple(row.question_id for row in group),
                    reason=reason,
                )
            )
    return scored, unscored


def group_score(
    group_type: GroupType,
    structure: GroupStructure | None,
    outcomes: Sequence[Outcome],
    rule: GroupRule = GroupRule.CORRECTED,
) -> float:
    """The score (0 to 100) of one group of four outcomes in question order.

    The score of a relevance group is the square of the share of right answers. The score of a logic
    group depends on the number k of right answers before the first wrong one. In a fork, k is 2
    instead of 1 if question 3 is right. In a join, k is 1 instead of 0 if question 2 is right.

    Raises:
        ValueError: if there are not four outcomes, or a logic group has no structure.
    """
    marks = _marks(outcomes, rule)
    if group_type is GroupType.RELEVANCE:
        return (max(0, sum(marks)) / GROUP_SIZE) ** 2 * 100
    if structure is None:
        raise ValueError("a logic group needs a structure")
    reached = next((place for place, mark in enumerate(marks) if mark == 0), GROUP_SIZE)
    if structure is GroupStructure.FORK and reached == 1 and marks[2] != 0:
        reached = 2
    if structure is GroupStructure.JOIN and reached == 0 and marks[1] != 0:
        reached = 1
    return _CHAIN_SCORES[structure][reached]


def linear_score(outcomes: Sequence[Outcome], rule: GroupRule = GroupRule.CORRECTED) -> float:
    """The percentage of right answers; it can be negative under the official rule."""
    return sum(_marks(outcomes, rule)) / GROUP_SIZE * 100


def rating(groups: Sequence[GroupScore]) -> Rating:
    """Mean scores over `groups`, which must belong to one evaluation and one repeat."""
    relevance = [group for group in groups if group.group_type is GroupType.RELEVANCE]
    logic = [group for group in groups if group.group_type is GroupType.LOGIC]
    levels = {
        f"level_{level}": _mean(
            group.score for group in groups if group.facets.get("level") == level
        )
        for level in (1, 2, 3)
    }
    return Rating(
        final_rating=levels
        | {
            "relevance_score": _mean(group.score for group in relevance),
            "relevance_linear_score": _mean(group.linear_score for group in relevance),
            "logic_score": _mean(group.score for group in logic),
            "total": _mean(group.score for group in groups),
        },
        second_head_rating=_mean_by(groups, "second_head"),
        third_head_rating=_mean_by(groups, "third_head"),
    )


def parse_structure(text: str | None) -> GroupStructure | None:
    """The structure written in `text`, with or without spaces; None for anything else."""
    try:
        return GroupStructure((text or "").replace(" ", ""))
    except ValueError:
        return None


def question_order(question_id: str) -> tuple[int, str]:
    """Sort key of a question within its video: the last number in its id ("001-3": 3)."""
    match = _QUESTION_NUMBER.search(question_id)
    return (int(match.group(1)) if match else 0, question_id)


def _score_group(group: Sequence[ScoredQuestion], rule: GroupRule) -> GroupScore:
    first = group[0]
    facets = Facets({column: value for row in group for column, value in row.facets.items()})
    group_type = GroupType(facets["group_type"])
    structure = parse_structure(facets.get("group_structure"))
    outcomes = tuple(row.outcome for row in group)
    return GroupScore(
        evaluation=first.evaluation,
        repeat=first.repeat,
        video_id=first.video_id,
        group_type=group_type,
        group_structure=structure,
        facets=facets,
        outcomes=outcomes,
        score=group_score(group_type, structure, outcomes, rule),
        linear_score=linear_score(outcomes, rule),
    )


def _why_unscored(group: Sequence[ScoredQuestion]) -> str | None:
    if len(group) != GROUP_SIZE:
        return f"{len(group)} questions where a group has {GROUP_SIZE}"
    if len({row.question_id for row in group}) != GROUP_SIZE:
        return "a question occurs twice"
    if len({row.facets["group_type"] for row in group}) != 1:
        return "its questions have different group types"
    structures = {row.facets["group_structure"] for row in group if "group_structure" in row.facets}
    known = {parse_structure(structure) for structure in structures}
    if group[0].facets["group_type"] == GroupType.LOGIC and (len(known) != 1 or None in known):
        return f"no known logic structure: {' / '.join(sorted(structures)) or 'none given'}"
    return None


def _marks(outcomes: Sequence[Outcome], rule: GroupRule) -> list[int]:
    if len(outcomes) != GROUP_SIZE:
        raise ValueError(f"a group has {GROUP_SIZE} outcomes, not {len(outcomes)}")
    unread = -1 if rule is GroupRule.OFFICIAL else 0
    marks = {Outcome.CORRECT: 1, Outcome.INCORRECT: 0}
    return [marks.get(outcome, unread) for outcome in outcomes]


def _mean(scores: Iterable[float]) -> float:
    values = list(scores)
    return fmean(values) if values else 0.0


def _mean_by(groups: Sequence[GroupScore], column: str) -> dict[str, float]:
    """Mean score by the values of a facet, in order of first appearance."""
    scores: dict[str, list[float]] = defaultdict(list)
    for group in groups:
        if column in group.facets:
            scores[group.facets[column]].append(group.score)
    return {value: fmean(found) for value, found in scores.items()}
