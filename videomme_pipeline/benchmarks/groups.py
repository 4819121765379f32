"""Groups: the questions on one video that share one score.

A benchmark declares its rule. Scores, views, reports and formats read the declaration.
"""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import lcm
from typing import Any, Self

from pydantic import Field, model_validator

from videomme_pipeline.fingerprint import Spec

MAX_GROUP_SIZE = 8
"""The most questions in a group. The warehouse lists the score of every possible outcome."""


class Chain(Spec):
    """The rule of groups whose questions build on each other.

    A structure such as `[1,[2,3],4]` is a list of steps: question 1, then 2 and 3, then 4. Right
    answers count up to and including the first step that is not completely right.
    """

    facet: str
    value: str
    """The groups with this value of `facet` are chains."""
    structure: str
    """The facet with the structure of a chain."""
    scores: Mapping[str, tuple[float, ...]] = Field(min_length=1)
    """The scores of a chain by the number of right answers that count, by structure."""

    def reached(self, structure: str, is_right: Sequence[bool]) -> int:
        """The number of right answers that count in a group whose answers `is_right` describes."""
        count = 0
        for step in _steps(structure):
            right = sum(is_right[number - 1] for number in step)
            count += right
            if right < len(step):
                break
        return count


class Grouping(Spec):
    """The rule by which the questions on one video form a group, and the score of a group.

    Scores are 0 to 100. Questions are numbered by the last number in their ids.
    """

    size: int = Field(ge=2, le=MAX_GROUP_SIZE)
    """The questions of a complete group. Any other group has no score."""
    scores: tuple[float, ...]
    """The scores of a group by its number of right answers, from none to all."""
    chain: Chain | None = None
    """The rule of groups whose questions build on each other, if there are any."""

    @model_validator(mode="after")
    def _check_scores(self) -> Self:
        chains = self.chain.scores if self.chain else {}
        for scores in (self.scores, *chains.values()):
            if len(scores) != self.size + 1:
                raise ValueError(
                    f"a group of {self.size} questions needs {self.size + 1} scores (for none to "
                    f"{self.size} right answers), found {len(scores)}"
                )
        for structure in chains:
            try:
                numbers = sorted(chain.from_iterable(_steps(structure)))
            except (ValueError, TypeError):
                numbers = []
            if numbers != list(range(1, self.size + 1)):
                raise ValueError(
                    f"structure {structure!r}: write a list of the questions 1 to {self.size}, "
                    "with an inner list for questions of one step, such as `[1,[2,3],4]`"
                )
        return self

    @property
    def units(self) -> int:
        """Number of equal steps from 0 to the full score. Every score is a whole number of steps.

        It is 240 for Video-MME-v2. Denominators above 100 are rounded.
        """
        chains = self.chain.scores.values() if self.chain else ()
        scores = {*self.scores, *chain.from_iterable(chains)}
        return lcm(*(Fraction(score / 100).limit_denominator(100).denominator for score in scores))

    def is_chain(self, facets: Mapping[str, Any]) -> bool:
        """True if a group with these facets is a chain."""
        return self.chain is not None and facets.get(self.chain.facet) == self.chain.value

    def structure(self, facets: Mapping[str, Any]) -> str | None:
        """The declared structure of a chain with these facets, or None if it has none of them."""
        if self.chain is None:
            return None
        structure = without_spaces(facets.get(self.chain.structure, ""))
        return structure if structure in self.chain.scores else None

    def score(self, structure: str | None, marks: Sequence[int]) -> float:
        """The score (0 to 100) of a group whose answers have these `marks`: 1 if right, 0 if wrong.

        `structure` is the structure of a chain, or None if the group is no chain. In a chain, any
        mark but 0 is right. In another group, the marks are added, and a negative sum counts as 0.
        ValueError if the number of marks is not the size of a group.
        """
        if len(marks) != self.size:
            raise ValueError(f"a group has {self.size} answers, not {len(marks)}")
        if structure is None or self.chain is None:
            return self.scores[max(0, sum(marks))]
        reached = self.chain.reached(structure, [mark != 0 for mark in marks])
        return self.chain.scores[structure][reached]


def without_spaces(structure: object) -> str:
    return "".join(str(structure).split())


def _steps(structure: str) -> list[list[int]]:
    return [step if isinstance(step, list) else [step] for step in json.loads(structure)]
