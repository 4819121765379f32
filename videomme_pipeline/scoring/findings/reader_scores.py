"""The scores of one run by every reader, and the published values that are equal.

Group score and accuracy of Video-MME-v2 are published under one name, and both depend on the
reader. A reader counts as its tool does: for `official_v2`, an answer without a letter is -1 in its
group and not part of the accuracy. For the others, such an answer is wrong.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.scoring.findings.run import (
    ACCURACY,
    GROUP_SCORE,
    OVERALL,
    PublishedCell,
    Run,
)
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.statistics.breakdowns import AccuracyRow, breakdown, group_breakdowns
from videomme_pipeline.scoring.statistics.groups import GroupRule, rule_of

_SAME_POINTS = 0.0501
"""Published values have one decimal."""


@dataclass(frozen=True, slots=True)
class Part:
    """A score, 0 to 100, by each of its denominators, and its standard error or None."""

    scores: tuple[float, ...]
    standard_error: float | None

    @classmethod
    def of(cls, row: AccuracyRow) -> "Part":
        """The accuracy of a row over all answers, and over those with a letter."""
        shares = (row.accuracy, row.accuracy_of_answered)
        error = None if row.standard_error is None else 100 * row.standard_error
        return cls(tuple(100 * share for share in shares if share is not None), error)

    def equals(self, published: float) -> bool:
        """True if one of the scores is `published` after rounding."""
        return any(abs(score - published) <= _SAME_POINTS for score in self.scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderScores:
    """The scores of a run as the tool of `reader` counts them.

    `parts` are named as in published results: `overall`, or with groups `group_score`, `accuracy`
    and the group scores of the facets' values (`level_1`, `relevance`). A part without answers is
    left out.
    """

    reader: ReaderName
    parts: Mapping[str, Part]

    @property
    def headline(self) -> float:
        """The headline score, or 0 without answers."""
        return self.score(GROUP_SCORE) or self.score(OVERALL) or 0.0

    def score(self, name: str) -> float | None:
        """The part `name`, or None without answers."""
        return self.parts[name].scores[0] if name in self.parts else None

    def published_as(self, name: str, cells: Iterable[PublishedCell]) -> list[str]:
        """The names of the published cells whose part `name` is equal."""
        part = self.parts.get(name)
        return [c.name for c in cells if part and name in c.parts and part.equals(c.parts[name])]


def scores_by_reader(run: Run) -> list[ReaderScores]:
    """The scores by every reader that knows the letters of the benchmark."""
    return [ReaderScores(reader=reader, parts=dict(_parts(run, reader))) for reader in run.readings]


def _parts(run: Run, reader: ReaderName) -> Iterator[tuple[str, Part]]:
    rows, rule = run.read_by(reader), rule_of(reader)
    total = breakdown(rows, [])[0]
    part = Part.of(total)
    if run.benchmark.grouping is None:
        yield from [(OVERALL, part)] if part.scores else []
        return
    share = total.accuracy_of_answered if rule is GroupRule.OFFICIAL else total.accuracy
    if share is not None:
        yield ACCURACY, Part((100 * share,), part.standard_error)
    by_name, _, _ = group_breakdowns(run.benchmark, rows, rule)
    for name, columns in run.benchmark.breakdowns(Measure.GROUP_SCORE).items():
        for row in by_name[name]:
            values = zip(columns, row.values, strict=True)
            names = [run.benchmark.facet(column).part(value) for column, value in values]
            if row.group_score is not None:
                part = Part((row.group_score,), row.standard_error)
                yield (names[0] if names else GROUP_SCORE), part
