"""The decision whether a candidate is as good as a baseline, within a margin.

The difference of the headline metric is tested in both directions. `equivalent` needs two one-sided
tests (Schuirmann, 1987): the difference is significantly above -margin and significantly below the
margin. Otherwise, `better` and `worse` need a significant sign-flip test, as in `compare`.
"""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum

import scipy  # submodules are imported on first use

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.scoring.statistics.estimates import IntervalKind, PairedDifference
from videomme_pipeline.scoring.statistics.power import LEVEL, detectable_difference


class Verdict(StrEnum):
    """The result of one check of a gate."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


class FailIf(StrEnum):
    """The verdict on the headline metric that fails a gate. A verdict `worse` always does."""

    WORSE = "worse"
    NOT_EQUIVALENT = "not-equivalent"
    """Every verdict except `equivalent`, also `better`."""
    UNDECIDED = "undecided"


_FAILING = {
    FailIf.WORSE: {Verdict.WORSE},
    FailIf.NOT_EQUIVALENT: set(Verdict) - {Verdict.EQUIVALENT},
    FailIf.UNDECIDED: {Verdict.WORSE, Verdict.UNDECIDED},
}


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of the test of a difference, and of each of the two tests of equivalence."""

    difference: float = LEVEL
    equivalence: float = LEVEL


FIXED_LEVELS = Levels()
"""The levels of a test that is made once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One test. `difference` is the candidate minus the baseline, in points of 100.

    `standard_error` is in points, too, and None for a single video. `p_value` is from the sign-flip
    test; that of a facet value is adjusted by Benjamini–Hochberg. `p_value_equivalence` is the
    larger one of the two one-sided tests, or None if the interval is not from Student's t.
    """

    name: str
    verdict: Verdict
    difference: float
    standard_error: float | None
    low: float | None
    high: float | None
    p_value: float
    p_value_equivalence: float | None
    values: int
    clusters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The decision. The first of `checks` is that of the headline metric, the others of facets.

    `detectable` is the smallest difference, in points, that this comparison detects with 80% power,
    or None with too few videos for any. `questions` were to be answered on both sides, `compared`
    were, and `failed` have no answer on one side. `same_answers` is True if no answer differs.
    """

    baseline: str
    candidate: str
    margin: float
    checks: tuple[GateCheck, ...]
    detectable: float | None
    questions: int
    compared: int
    failed: int
    same_answers: bool

    @property
    def verdict(self) -> Verdict:
        """The verdict on the headline metric, or `worse` if a facet value is worse."""
        verdicts = [check.verdict for check in self.checks]
        return Verdict.WORSE if Verdict.WORSE in verdicts else verdicts[0]

    def fails(self, fail_if: FailIf) -> bool:
        """True if the verdict fails the gate."""
        return self.verdict in _FAILING[fail_if]


def decide(  # noqa: PLR0913 - the options of a gate
    baseline: Sequence[ScoredQuestion],
    candidate: Sequence[ScoredQuestion],
    *,
    margin: float,
    facets: Collection[str] = (),
    asked: Set[str] | None = None,
    max_failed: float = 1.0,
    levels: Levels = FIXED_LEVELS,
) -> Gate:
    """Compare `candidate` with `baseline`, question by question.

    Args:
        margin: the largest difference, in points of 100, that is no difference in practice.
        facets: the facets whose values are tested, too. A facet value can only be better, worse or
            undecided.
        asked: the ids of the questions that both sides were to answer, or None for all questions
            of both sides. No other question is compared.
        max_failed: the largest share of `asked` without an answer on one side.
        levels: the levels of the check of the headline metric.

    ScoringError if the two cannot be compared, if too many questions have no answer, or if there is
    no such facet.
    """
    if asked is None:
        asked = {row.question_id for row in (*baseline, *candidate)}
    baseline = [row for row in baseline if row.question_id in asked]
    candidate = [row for row in candidate if row.question_id in asked]
    comparison = compare(baseline, candidate)
    tested = list(dict.fromkeys(marginal.column for marginal in comparison.marginals))
    unknown = [facet for facet in facets if facet not in tested]
    if unknown:
        raise ScoringError(
            f"no facet `{unknown[0]}` is compared; choose among {', '.join(tested) or 'none'}"
        )
    failed = len(comparison.unanswered)
    if failed > max_failed * len(asked):
        raise ScoringError(
            f"{failed:,} of {len(asked):,} questions have no answer in "
            f"{comparison.evaluation_a} or {comparison.evaluation_b}, more than the limit of "
            f"{max_failed:.0%}, so only {comparison.n:,} can be compared; run the evaluation "
            "again, or raise --max-failed"
        )
    detectable = detectable_difference(baseline, candidate)
    name, paired, scale = "accuracy", comparison.accuracy, 100
    if comparison.group_score:
        name, paired, scale = "group score", comparison.group_score, 1
    elif comparison.mean_over:
        name, paired = "mean accuracy", comparison.mean_over
    checks = [check_difference(name, paired, margin, levels=levels, scale=scale)]
    for marginal in comparison.marginals:
        if marginal.column in facets:
            paired = replace(marginal.difference, p_value=marginal.adjusted_p_value)
            name = f"{marginal.column}: {marginal.value}"
            checks.append(check_difference(name, paired, None, scale=scale))
    return Gate(
        baseline=comparison.evaluation_a,
        candidate=comparison.evaluation_b,
        margin=margin,
        checks=tuple(checks),
        detectable=None if detectable is None else 100 * detectable,
        questions=len(asked),
        compared=comparison.n,
        failed=failed,
        same_answers=comparison.same_answers,
    )


def check_difference(
    name: str,
    paired: PairedDifference,
    margin: float | None,
    *,
    levels: Levels = FIXED_LEVELS,
    scale: int = 100,
) -> GateCheck:
    """The check of one difference. `margin` is in points of 100; None tests no equivalence.

    `scale` is the number of points (of 100) in one unit of the difference.
    """
    estimate = paired.difference
    p_equivalence = None if margin is None else _equivalence(paired, margin / scale)
    if margin is not None and _is_equivalent(paired, margin, p_equivalence, levels, scale):
        verdict = Verdict.EQUIVALENT
    elif paired.p_value > levels.difference:
        verdict = Verdict.UNDECIDED
    else:
        verdict = Verdict.BETTER if estimate.mean > 0 else Verdict.WORSE
    error = estimate.standard_error
    return GateCheck(
        name=name,
        verdict=verdict,
        difference=scale * estimate.mean,
        standard_error=None if error is None else scale * error,
        low=None if estimate.low is None else scale * estimate.low,
        high=None if estimate.high is None else scale * estimate.high,
        p_value=paired.p_value,
        p_value_equivalence=p_equivalence,
        values=estimate.values,
        clusters=estimate.clusters,
    )


def _equivalence(paired: PairedDifference, margin: float) -> float | None:
    """The larger p-value of the tests against -margin and margin, or None without Student's t."""
    estimate = paired.difference
    if estimate.interval_kind is not IntervalKind.CLUSTERED_T or not estimate.standard_error:
        return None
    distance = (margin - abs(estimate.mean)) / estimate.standard_error
    return float(scipy.special.stdtr(estimate.clusters - 1, -distance))


def _is_equivalent(
    paired: PairedDifference, margin: float, p_value: float | None, levels: Levels, scale: int
) -> bool:
    """True if the difference is within the margin, by both tests or by the exact interval.

    Each bound of the exact interval has a one-sided confidence of 95%. A smaller level asks for
    more videos: the bound on the share of videos that differ is 1 - level^(1/clusters), as in
    `paired_difference`.
    """
    if p_value is not None:
        return p_value < levels.equivalence
    estimate = paired.difference
    if estimate.low is None or estimate.high is None:
        return False
    same = levels.equivalence ** (1 / estimate.clusters)
    farthest = same * scale * abs(estimate.mean) + (1 - same) * 100
    return bool(max(farthest, -scale * estimate.low, scale * estimate.high) < margin)
