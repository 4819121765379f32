"""Facets: the ways to group the questions of a benchmark, such as duration, domain or level.

A benchmark declares its facets once. Tables, breakdowns, SQL views, the results page, exports and
comparisons read the declaration.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from videomme_pipeline.rows import ColumnMapping

FacetValue = str | int

_COLUMN = re.compile(r"[a-z][a-z0-9_]*")


class Measure(StrEnum):
    """The score that a breakdown shows."""

    ACCURACY = "accuracy"
    GROUP_SCORE = "group_score"


@dataclass(frozen=True, slots=True)
class Derivation:
    """How the values of a facet follow from those of another one, `column`."""

    column: str
    values: Mapping[str, str]


class Facets(ColumnMapping):
    """The facet values of one question, by column. A facet without a value is not in it.

    A derived value can be looked up. It is neither stored nor among the items. A column that any
    benchmark declares as its own is never derived.
    """

    __slots__ = ()

    derivations: ClassVar[dict[str, Derivation]] = {}
    """Declared derivations by column."""

    def __getitem__(self, key: str) -> Any:
        derivation = self.derivations.get(key)
        if derivation is None or key in self.declared:
            return super().__getitem__(key)
        return derivation.values[super().__getitem__(derivation.column)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One way to group the questions of a benchmark.

    `values` is the closed set of values in display order, or None if any value is allowed. Then the
    values are in the order of the dataset. If `is_tested` is true, comparisons test the difference
    for each value. If `is_shown` is false, the facet is stored but has no breakdown. `is_of_video`
    is true if all questions on one video have the same value.
    """

    column: str
    title: str
    values: tuple[FacetValue, ...] | None = None
    kind: type[str] | type[int] = str
    measure: Measure = Measure.ACCURACY
    is_tested: bool = True
    is_shown: bool = True
    is_of_video: bool = False
    value_title: str = "{}"
    """Format of a value for display, such as "Level {}"."""
    derivation: Derivation | None = None
    """The facet from which this one follows, or None if the dataset has a column for it."""

    def __post_init__(self) -> None:
        if not _COLUMN.fullmatch(self.column):
            raise ValueError(
                f"facet column {self.column!r}: use lower-case letters, digits and underscores"
            )

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
        """`value` for display."""
        return self.value_title.format(value)
