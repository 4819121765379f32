"""A published number compared with the score of answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.recipes.recipe import TOTALS, find_recipe
from videomme_pipeline.scoring.findings.run import ACCURACY, GROUP_SCORE, OVERALL
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion, too_few_answers
from videomme_pipeline.scoring.statistics.breakdowns import breakdown, group_breakdowns
from videomme_pipeline.scoring.statistics.estimates import balanced_weights, clustered_mean
from videomme_pipeline.scoring.statistics.groups import rule_of

_ROUNDING_POINTS = 0.05
"""Published values have one decimal."""

Scores = tuple[float | None, float | None, float | None]
"""A score, 0 to 100, and the bounds of its interval, or None."""
_NOTHING: Scores = (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A published score and ours, 0 to 100. `part` is a value of a facet, or a total.

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

    @property
    def is_consistent(self) -> bool:
        """True if there is a verdict about every total, and all are consistent."""
        totals = [value.is_consistent for value in self.values if value.part in TOTALS]
        return self.undecided is None and all(totals)

    def lines(self) -> Iterator[str]:
        """The comparison, line by line, and everything that is not proven."""
        for value in self.values:
            metric = "" if value.part == OVERALL else f"{value.part.replace('_', ' ')}, "
            title = f"{self.recipe}, {self.track}, {metric}grade {self.grade}"
            yield f"{title if value.part in TOTALS else value.part}: {value}"
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
    ScoringError if no question was answered.
    """
    recipe = find_recipe(name)
    benchmark = find_benchmark(recipe.benchmark)
    counted = f"the published value counts {recipe.questions or 0:,} questions, not {len(rows):,}"
    frames = "frames and sizes were not compared with the authors' code"
    if recipe.certified:
        frames = f"frames and sizes equal those of {recipe.certified}, as a test compares"
    undecided = too_few_answers(rows, recipe.questions or benchmark.size.questions)
    group_scores, _, _ = group_breakdowns(benchmark, rows, rule_of(recipe.reader))
    if recipe.settings.get("denominator") == "answered":  # as in the official scripts
        rows = [row for row in rows if row.outcome in (Outcome.CORRECT, Outcome.INCORRECT)]
    breakdowns = [*breakdown(rows, benchmark.shown_facets[:1]), *breakdown(rows, [])]
    scores = {
        next(iter(row.values), OVERALL): _percent(row.accuracy, row.accuracy_low, row.accuracy_high)
        for row in breakdowns
    }
    if benchmark.mean_of is not None:
        scores[OVERALL] = _mean_over(benchmark.mean_of, rows)
    if benchmark.grouping is not None:
        scores[ACCURACY] = scores.pop(OVERALL, _NOTHING)
        for row in group_scores["group_score_overall"]:
            scores[GROUP_SCORE] = row.group_score, row.group_score_low, row.group_score_high
    published = recipe.published[track]
    if all(scores.get(part, _NOTHING)[0] is None for part in published if part in TOTALS):
        raise ScoringError(f"{recipe.title}: no question was answered, so nothing is compared")
    return Reproduction(
        recipe=name,
        track=track,
        grade=recipe.grade,
        values=tuple(
            _compare(part, value, scores[part], is_decided=undecided is None)
            for part, value in published.items()
            if part in scores
        ),
        not_proven=tuple(recipe.not_proven(is_evaluated=is_evaluated)),
        not_published=tuple(recipe.not_published),
        contradicted_by=tuple(
            f"{other}: {value:.1f} {of_track} ({metric})"
            for other in recipe.contradicts
            for of_track in find_recipe(other).published
            for metric, value in find_recipe(other).totals(of_track).items()
        ),
        notes=(
            *([counted] if recipe.questions else []),
            *notes,
            *([frames] if is_evaluated else []),
            *([recipe.note] if recipe.note else []),
        ),
        undecided=undecided,
    )


def _percent(share: float | None, low: float | None, high: float | None) -> Scores:
    if share is None or low is None or high is None:
        return share and 100 * share, None, None
    return 100 * share, 100 * low, 100 * high


def _mean_over(facet: str, rows: Sequence[ScoredQuestion]) -> Scores:
    labelled = [row for row in rows if facet in row.facets]
    if not labelled:
        return _NOTHING
    weights = balanced_weights([row.facets[facet] for row in labelled])
    mean = clustered_mean(
        [weight * row.is_correct for weight, row in zip(weights, labelled, strict=True)],
        [row.video_id for row in labelled],
    )
    return _percent(mean.mean, mean.low, mean.high)


def _compare(
    part: str, published: float, scores: Scores, *, is_decided: bool
) -> PublishedComparison:
    here, low, high = scores
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
