"""Facets: the ways to group the questions of a benchmark, such as duration, domain or level.

A benchmark declares its facets once. Tables, breakdowns, SQL views, the results page, exports and
comparisons read the declaration.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator

from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.rows import JsonMapping

FacetValue = str | int

_COLUMN = re.compile(r"[a-z][a-z0-9_]*")
_TAKEN = frozenset(
    {"accuracy", "accuracy_high", "accuracy_low", "accuracy_of_answered", "cell",
     "chain_structure", "checkpoint", "code", "correct", "failed", "group_place", "group_score",
     "group_score_high", "group_score_low", "group_score_official", "group_size", "groups",
     "incomplete_groups", "incorrect", "interval_kind", "is_chain", "linear", "linear_score",
     "nightly_run", "questions", "responses", "score", "score_official", "scored",
     "standard_error", "t_975", "unreadable", "videos", "whole"}
)  # fmt: skip
"""Names that a facet must not have: the other columns of the views that break a score down by a
facet, and the words in the names of the views `accuracy_by_checkpoint` and
`accuracy_by_nightly_run`."""

CONTRACT_NAMES: Mapping[str, str] = {"sub_category": "subcategory", "task_type": "task_category"}
"""The names of facets in the benchmark contract, by the dataset's names."""


class Measure(StrEnum):
    """The score that a breakdown shows."""

    ACCURACY = "accuracy"
    GROUP_SCORE = "group_score"


class Derivation(Spec):
    """The rule by which the values of a facet follow from those of another facet."""

    facet: str
    values: Mapping[str, str]
    """The value of this facet by the value of the other one."""


class Facets(JsonMapping):
    """The facet values of one question, by column. A facet without a value is not in it."""

    __slots__ = ()


def _checked_column(column: str) -> str:
    if not _COLUMN.fullmatch(column):
        raise ValueError(f"facet column {column!r}: use lower-case letters, digits and underscores")
    if column in _TAKEN:
        raise ValueError(
            f"facet column {column!r}: another column or view has this name; choose another one"
        )
    return column


FacetColumn = Annotated[str, AfterValidator(_checked_column)]
"""The name of a facet and of its column."""


class FacetFacts(Spec):
    """The facts about a facet that its declaration and the facet itself state alike."""

    values: tuple[FacetValue, ...] | None = None
    """The values in display order, or None for any texts, which are in the order of the dataset.
    Numbers make it a facet of numbers."""
    value_title: str = "{}"
    """Format of a value for display: `{}` becomes the value, as in "Level {}"."""
    of_video: bool = False
    """True if all questions on one video have the same value."""
    tested: bool = True
    """True if comparisons test the difference for each value."""
    shown: bool = True
    """False if the facet is stored but has no breakdown."""
    derivation: Derivation | None = None
    """The facet from which this one follows. The dataset then has no column for it."""


class Facet(FacetFacts):
    """One way to group the questions of a benchmark."""

    column: FacetColumn
    title: str
    measure: Measure = Measure.ACCURACY
    is_column: bool = True
    """False if the dataset has no column for it, and no other facet from which it follows."""

    @property
    def kind(self) -> type[str] | type[int]:
        """Type of the values. Declared numbers make it a facet of numbers."""
        return int if self.values and isinstance(self.values[0], int) else str

    @property
    def view(self) -> str:
        """Name of its SQL view and its breakdown."""
        prefix = "group_score_" if self.measure is Measure.GROUP_SCORE else ""
        return f"{prefix}by_{self.column}"

    def order(self, value: FacetValue) -> tuple[int, str]:
        """Sort key of a value: declared values first, then the others alphabetically."""
        values = self.values or ()
        return (values.index(value) if value in values else len(values), str(value))

    def show(self, value: FacetValue) -> str:
        return self.value_title.replace("{}", str(value))

    def part(self, value: FacetValue) -> str:
        """Key of a value as in the published results: `short`, `level_1`, `relevance`."""
        return self.show(value).lower().replace(" ", "_")


NEEDS_VIDEO = Facet(
    column="needs_video",
    title="Needs video",
    values=("yes", "no", "unknown"),
    value_title="needs video: {}",
    is_column=False,
)
"""The facet of a benchmark for which benchmarks.yaml names a blind evaluation."""


def with_dataset_names(row: Mapping[str, Any], declared: Iterable[Facet]) -> dict[str, Any]:
    """`row` with the dataset's names of facets instead of those of the benchmark contract.

    Both have a `task_type`. The contract's has the values of a facet that is derived from the
    dataset's.
    """
    cells = dict(row)
    for facet in declared:
        rule = facet.derivation
        if rule is not None and row.get(rule.facet) in rule.values.values():
            cells |= {rule.facet: None, facet.column: row[rule.facet]}
    return cells | {name: row[given] for name, given in CONTRACT_NAMES.items() if given in row}


def with_derived(values: Mapping[str, FacetValue | None], declared: Iterable[Facet]) -> Facets:
    """`values` with the values of the `declared` facets that are derived from them.

    A derived facet keeps the value that it has in `values` if the other facet has none.
    """
    derived = {
        facet.column: facet.derivation.values.get(str(source))
        for facet in declared
        if facet.derivation is not None
        and (source := values.get(facet.derivation.facet)) is not None
    }
    return Facets({**values, **derived})
