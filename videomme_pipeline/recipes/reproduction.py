"""A published number compared with the accuracy of scored answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.recipes.recipe import OVERALL, find_recipe
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion, too_few_answers
from videomme_pipeline.scoring.statistics.breakdowns import breakdown
from videomme_pipeline.scoring.statistics.estimates import balanced_weights, clustered_mean

_ROUNDING_POINTS = 0.05
"""Published values have one decimal."""

Shares = tuple[float | None, float | None, float | None]
"""An accuracy and the bounds of its interval, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A published accuracy and ours, in percent. `part` is a value of a facet, or `overall`.

    `is_consistent` is True if the published value is in the 95% interval. It is None without an
    interval, and with too few answers for a verdict.
    """

    part: str
    published: float
    here: float
    low: float | None
    high: float | None
    is_consistent: bool | None

    def __str__(self) -> str:
        line = f"published {self.published:.1f}, here {self.here:.1f}"
        if self.low is None:
            return f"{line}: no interval"
        if self.is_consistent is None:
            return f"{line}, 95% CI {self.low:.1f} to {self.high:.1f}: undecided"
        difference = f"{self.here - self.published:+.1f} points, not consistent"
        verdict = "consistent" if self.is_consistent else difference
        return f"{line}, 95% CI {self.low:.1f} to {self.high:.1f}: {verdict}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The result of a reproduction. The first value is the total.

    `undecided` is the reason why no value has a verdict, or None.
    """

    recipe: str
    track: str
    grade: str
    values: tuple[PublishedComparison, ...]
    not_proven: tuple[str, ...]
    not_published: tuple[str, ...]
    contradicted_by: tuple[str, ...]
    notes: tuple[str, ...]
    undecided: str | None = None

    def lines(self) -> Iterator[str]:
        """The comparison, line by line, and everything that is not proven."""
        for value in self.values:
            title = f"{self.recipe}, {self.track}, grade {self.grade}"
            yield f"{title if value.part == OVERALL else value.part}: {value}"
        if self.undecided is not None:
            yield f"Undecided: {self.undecided}"
        yield from (f"Not proven: {text}" for text in self.not_proven)
        if self.not_published:
            yield f"Not published: {', '.join(self.not_published)}"
        yield from (f"Another source says: {text}" for text in self.contradicted_by)
        yield from (f"Note: {text}" for text in self.notes)


def reproduce(
    name: str,
    rows: Sequence[ScoredQuestion],
    track: str,
    *,
    is_evaluated: bool = False,
    notes: Sequence[str] = (),
) -> Reproduction:
    """Compare the answers `rows`, read as the recipe says, with the published values.

    With `is_evaluated`, they are the answers to an evaluation with the recipe's settings.

    Raises:
        ScoringError: if no question was answered.
    """
    recipe = find_recipe(name)
    benchmark = find_benchmark(recipe.benchmark)
    counted = f"the published value counts {recipe.questions or 0:,} questions, not {len(rows):,}"
    frames = "frames and sizes were not compared with the authors' code"
    if recipe.certified:
        frames = f"frames and sizes equal those of {recipe.certified}, as a test compares"
    undecided = too_few_answers(rows, recipe.questions or benchmark.size.questions)
    if recipe.settings.get("denominator") == "answered":  # as in the official v1 script
        rows = [row for row in rows if row.outcome in (Outcome.CORRECT, Outcome.INCORRECT)]
    breakdowns = [*breakdown(rows, benchmark.shown_facets[:1]), *breakdown(rows, [])]
    accuracies = {
        next(iter(row.values), OVERALL): (row.accuracy, row.accuracy_low, row.accuracy_high)
        for row in breakdowns
    }
    if benchmark.mean_of is not None:
        accuracies[OVERALL] = _mean_over(benchmark.mean_of, rows)
    if accuracies.get(OVERALL, (None,))[0] is None:
        raise ScoringError(f"{recipe.title}: no question was answered, so nothing is compared")
    return Reproduction(
        recipe=name,
        track=track,
        grade=recipe.grade,
        values=tuple(
            _compare(part, published, accuracies[part], is_decided=undecided is None)
            for part, published in recipe.published[track].items()
            if part in accuracies
        ),
        not_proven=tuple(recipe.not_proven(is_evaluated=is_evaluated)),
        not_published=tuple(recipe.not_published),
        contradicted_by=tuple(
            f"{other}: {values[OVERALL]:.1f} {of_track}"
            for other in recipe.contradicts
            for of_track, values in find_recipe(other).published.items()
        ),
        notes=(
            *([counted] if recipe.questions else []),
            *notes,
            *([frames] if is_evaluated else []),
            *([recipe.note] if recipe.note else []),
        ),
        undecided=undecided,
    )


def _mean_over(facet: str, rows: Sequence[ScoredQuestion]) -> Shares:
    labelled = [row for row in rows if facet in row.facets]
    if not labelled:
        return None, None, None
    weights = balanced_weights([row.facets[facet] for row in labelled])
    mean = clustered_mean(
        [weight * row.is_correct for weight, row in zip(weights, labelled, strict=True)],
        [row.video_id for row in labelled],
    )
    return mean.mean, mean.low, mean.high


def _compare(
    part: str, published: float, shares: Shares, *, is_decided: bool
) -> PublishedComparison:
    here, low, high = (None if share is None else 100 * share for share in shares)
    is_consistent = None
    if is_decided and low is not None and high is not None:
        is_consistent = low - _ROUNDING_POINTS <= published <= high + _ROUNDING_POINTS
    return PublishedComparison(
        part=part,
        published=published,
        here=here or 0.0,
        low=low,
        high=high,
        is_consistent=is_consistent,
    )
