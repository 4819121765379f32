"""Group scores: the questions on one video that a benchmark scores together.

The benchmark declares the rule (`Benchmark.grouping`). Groups are built by video id and ordered by
question number, never by row position. An incomplete group is reported without a score.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.groups import Grouping
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

_QUESTION_NUMBER = re.compile(r"(\d+)\D*$")


class GroupRule(StrEnum):
    """The rule for answers without a letter in a group score."""

    CORRECTED = "corrected"
    """These answers are wrong, as in VLMEvalKit and lmms-eval."""
    OFFICIAL = "official"
    """These answers are -1, as in the official script of Video-MME-v2: right in a chain, one right
    answer less in another group. This defect is reproduced for comparison only."""


def rule_of(reader: ReaderName) -> GroupRule:
    """The rule of the tool whose reader is `reader`."""
    return GroupRule.OFFICIAL if reader is ReaderName.OFFICIAL_V2 else GroupRule.CORRECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScore:
    """One complete group of one evaluation. `score` is 0 to 100.

    `linear_score` is the percentage of right answers; under the official rule it can be negative.
    `facets` are those of the group's last question that has them.
    """

    evaluation: str
    repeat: int
    video_id: str
    facets: Facets
    outcomes: tuple[Outcome, ...]
    score: float
    linear_score: float


@dataclass(frozen=True, slots=True)
class UnscoredGroup:
    """A group that cannot be scored, with the reason."""

    evaluation: str
    repeat: int
    video_id: str
    question_ids: tuple[str, ...]
    reason: str


def score_groups(
    rows: Iterable[ScoredQuestion], rule: GroupRule = GroupRule.CORRECTED
) -> tuple[list[GroupScore], list[UnscoredGroup]]:
    """The scored and the unscored groups in `rows`.

    Rows may be in any order and from any number of evaluations and repeats. Rows of benchmarks
    without groups are left out. Groups are in order of first appearance.
    """
    members: dict[tuple[str, int, str], list[ScoredQuestion]] = defaultdict(list)
    for row in rows:
        if find_benchmark(row.benchmark).grouping is not None:
            members[row.evaluation, row.repeat, row.video_id].append(row)
    scored: list[GroupScore] = []
    unscored: list[UnscoredGroup] = []
    for key, group in members.items():
        grouping = find_benchmark(group[0].benchmark).grouping
        assert grouping is not None, "only rows of groups are members"
        group.sort(key=lambda row: question_order(row.question_id))
        reason = _why_unscored(group, grouping)
        if reason is None:
            scored.append(_score_group(group, grouping, rule))
        else:
            unscored.append(UnscoredGroup(*key, tuple(row.question_id for row in group), reason))
    return scored, unscored


def group_score(
    grouping: Grouping,
    structure: str | None,
    outcomes: Sequence[Outcome],
    rule: GroupRule = GroupRule.CORRECTED,
) -> float:
    """The score (0 to 100) of one group of outcomes in question order, as `Grouping.score`."""
    return grouping.score(structure, _marks(outcomes, rule))


def linear_score(outcomes: Sequence[Outcome], rule: GroupRule = GroupRule.CORRECTED) -> float:
    """The percentage of right answers, which can be negative under the official rule."""
    return sum(_marks(outcomes, rule)) / len(outcomes) * 100


def question_order(question_id: str) -> tuple[int, str]:
    """Sort key of a question within its video: the last number in its id ("001-3": 3)."""
    match = _QUESTION_NUMBER.search(question_id)
    return (int(match.group(1)) if match else 0, question_id)


def _score_group(
    group: Sequence[ScoredQuestion], grouping: Grouping, rule: GroupRule
) -> GroupScore:
    first = group[0]
    facets = Facets({column: value for row in group for column, value in row.facets.items()})
    structure = grouping.structure(facets) if grouping.is_chain(facets) else None
    outcomes = tuple(row.outcome for row in group)
    return GroupScore(
        evaluation=first.evaluation,
        repeat=first.repeat,
        video_id=first.video_id,
        facets=facets,
        outcomes=outcomes,
        score=group_score(grouping, structure, outcomes, rule),
        linear_score=linear_score(outcomes, rule),
    )


def _why_unscored(group: Sequence[ScoredQuestion], grouping: Grouping) -> str | None:
    if len(group) != grouping.size:
        return f"{len(group)} questions where a group has {grouping.size}"
    if len({row.question_id for row in group}) != grouping.size:
        return "a question occurs twice"
    chain = grouping.chain
    if chain is None:
        return None
    kinds = {row.facets.get(chain.facet) for row in group}
    if len(kinds) != 1 or None in kinds:
        return f"its questions have no common `{chain.facet}`"
    texts = {row.facets[chain.structure] for row in group if chain.structure in row.facets}
    structures = {grouping.structure({chain.structure: text}) for text in texts}
    if grouping.is_chain(group[0].facets) and (len(structures) != 1 or None in structures):
        return f"no declared structure: {' / '.join(sorted(texts)) or 'none given'}"
    return None


def _marks(outcomes: Sequence[Outcome], rule: GroupRule) -> list[int]:
    unread = -1 if rule is GroupRule.OFFICIAL else 0
    marks = {Outcome.CORRECT: 1, Outcome.INCORRECT: 0}
    return [marks.get(outcome, unread) for outcome in outcomes]
