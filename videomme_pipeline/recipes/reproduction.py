"""A published number compared with the accuracy of scored answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.recipes.recipe import (
    OVERALL,
    Denominator,
    Recipe,
    find_recipe,
    settings_in_words,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import accuracy_of
from videomme_pipeline.scoring.statistics.estimates import balanced_weights, clustered_mean

_ROUNDING_POINTS = 0.05
"""Published values have one decimal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A published accuracy and ours, in percent. `part` is a value of a facet, or `overall`.

    `is_consistent` is True if the published value is in the 95% interval, and None without one.
    """

    part: str
    published: float
    here: float
    low: float | None
    high: float | None
    is_consistent: bool | None

    def __str__(self) -> str:
        """The comparison as one line."""
        line = f"published {self.published:.1f}, here {self.here:.1f}"
        if self.low is None or self.high is None:
            return f"{line}: no interval"
        difference = f"{self.here - self.published:+.1f} points, not consistent"
        verdict = "consistent" if self.is_consistent else difference
        return f"{line}, 95% CI {self.low:.1f} to {self.high:.1f}: {verdict}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The result of a reproduction. The first value is the total."""

    recipe: str
    track: str
    grade: str
    values: tuple[Compared, ...]
    unproven: tuple[str, ...]
    not_published: tuple[str, ...]
    contradicted_by: tuple[str, ...]
    notes: tuple[str, ...]


def reproduce(
    name: str,
    rows: Sequence[ScoredQuestion],
    track: str,
    *,
    unproven: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Reproduction:
    """Compare the answers `rows`, read as the recipe says, with the published values.

    `unproven` are the settings that nothing shows; without them, all settings of the recipe.

    Raises:
        ScoringError: if no question was answered.
    """
    recipe = find_recipe(name)
    published = recipe.published[track]
    facet = next(iter(find_benchmark(recipe.benchmark).shown_facets), None)
    compared = []
    for part, value in published.items():
        of_part = [
            row
            for row in rows
            if part == OVERALL or (facet and str(row.facets.get(facet.column)) == part)
        ]
        if of_part:
            compared.append(_compare(recipe, part, value, of_part))
    questions = recipe.questions
    if questions is not None:
        counted = f"the published value counts {questions:,} questions, this run {len(rows):,}"
        notes = [counted, *notes]
    facts = settings_in_words(recipe)
    return Reproduction(
        recipe=name,
        track=track,
        grade=recipe.grade.value,
        values=tuple(compared),
        unproven=tuple(
            [f"{key}: {text}" for key, text in facts.items()] if unproven is None else unproven
        ),
        not_published=tuple(recipe.not_published),
        contradicted_by=tuple(
            f"{other}: {', '.join(_values(find_recipe(other)))}" for other in recipe.contradicts
        ),
        notes=tuple(filter(None, [*notes, recipe.note])),
    )


def _compare(
    recipe: Recipe, part: str, published: float, rows: Sequence[ScoredQuestion]
) -> Compared:
    if recipe.denominator is Denominator.ANSWERED:
        rows = [row for row in rows if row.outcome in (Outcome.CORRECT, Outcome.INCORRECT)]
    accuracy = accuracy_of(rows)
    if accuracy is None:
        raise ScoringError(f"{recipe.title}: no question was answered, so nothing is compared")
    estimate, interval = accuracy
    low: float | None = interval.low
    high: float | None = interval.high
    mean_of = find_benchmark(recipe.benchmark).mean_of
    labelled = [row for row in rows if mean_of in row.facets]
    if part == OVERALL and mean_of is not None and labelled:
        weights = balanced_weights([row.facets[mean_of] for row in labelled])
        estimate = clustered_mean(
            [weight * row.is_correct for weight, row in zip(weights, labelled, strict=True)],
            [row.video_id for row in labelled],
        )
        low, high = estimate.low, estimate.high
    is_consistent = None
    if low is not None and high is not None:
        low, high = 100 * low, 100 * high
        is_consistent = low - _ROUNDING_POINTS <= published <= high + _ROUNDING_POINTS
    return Compared(
        part=part,
        published=published,
        here=100 * estimate.mean,
        low=low,
        high=high,
        is_consistent=is_consistent,
    )


def _values(recipe: Recipe) -> list[str]:
    return [f"{values[OVERALL]:.1f} {track}" for track, values in recipe.published.items()]
