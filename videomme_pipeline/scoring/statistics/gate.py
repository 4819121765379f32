"""The decision whether a candidate is as good as a baseline, within a margin.

The difference of the headline metric is tested in both directions. `equivalent` needs two one-sided
tests (Schuirmann, 1987): the difference is significantly above -margin and significantly below the
margin. Otherwise, `better` and `worse` need a significant sign-flip test, as in `compare`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import scipy  # submodules are imported on first use

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import Comparison, compare
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One test. `difference` is the candidate minus the baseline, in points of 100.

    `p_value` is that of the sign-flip test; that of a facet value is adjusted by
    Benjamini–Hochberg. `p_value_equivalence` is the larger one of the two one-sided tests, or None
    if the interval does not come from Student's t.
    """

    name: str
    verdict: Verdict
    difference: float
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
    or None with too few videos for any. `failed` questions have no answer on one side.
    """

    baseline: str
    candidate: str
    margin: float
    checks: tuple[GateCheck, ...]
    detectable: float | None
    questions: int
    failed: int

    @property
    def verdict(self) -> Verdict:
        """The verdict on the headline metric, or `worse` if a facet value is worse."""
        verdicts = [check.verdict for check in self.checks]
        return Verdict.WORSE if Verdict.WORSE in verdicts else verdicts[0]

    def fails(self, fail_if: FailIf) -> bool:
        """True if the verdict fails the gate."""
        return self.verdict in _FAILING[fail_if]


def decide(
    baseline: Sequence[ScoredQuestion],
    candidate: Sequence[ScoredQuestion],
    *,
    margin: float,
    facets: Collection[str] = (),
    max_failed: float = 1.0,
) -> Gate:
    """Compare `candidate` with `baseline`, question by question.

    Args:
        margin: the largest difference, in points of 100, that is no difference in practice.
        facets: the facets whose values are tested, too. A facet value can only be better, worse or
            undecided.
        max_failed: the largest share of questions without an answer on one side.

    Raises:
        ScoringError: if the two cannot be compared, if too many questions have no answer, or if
            there is no such facet.
    """
    comparison = compare(baseline, candidate)
    _check_facets(comparison, facets)
    questions = len({row.question_id for row in (*baseline, *candidate)})
    if len(comparison.failed) > max_failed * questions:
        raise ScoringError(
            f"{len(comparison.failed):,} of {questions:,} questions have no answer in "
            f"{comparison.evaluation_a} or {comparison.evaluation_b}, more than the limit of "
            f"{max_failed:.0%}; run the evaluation again, or raise --max-failed"
        )
    scale = 1 if comparison.group_score else 100
    headline = comparison.group_score or comparison.mean_over or comparison.accuracy
    detectable = detectable_difference(baseline, candidate)
    return Gate(
        baseline=comparison.evaluation_a,
        candidate=comparison.evaluation_b,
        margin=margin,
        checks=(
            _check(_headline_name(comparison), headline, scale, headline.p_value, margin),
            *(
                _check(
                    f"{marginal.column}: {marginal.value}",
                    marginal.difference,
                    scale,
                    marginal.adjusted_p_value,
                    None,
                )
                for marginal in comparison.marginals
                if marginal.column in facets
            ),
        ),
        detectable=None if detectable is None else 100 * detectable,
        questions=questions,
        failed=len(comparison.failed),
    )


def _check(
    name: str, paired: PairedDifference, scale: int, p_value: float, margin: float | None
) -> GateCheck:
    """The check of one difference. Without a margin, it is not tested for equivalence."""
    estimate = paired.difference
    p_equivalence = None if margin is None else _equivalence(paired, margin / scale)
    if margin is not None and _is_equivalent(paired, margin / scale, p_equivalence):
        verdict = Verdict.EQUIVALENT
    elif p_value > LEVEL:
        verdict = Verdict.UNDECIDED
    else:
        verdict = Verdict.BETTER if estimate.mean > 0 else Verdict.WORSE
    return GateCheck(
        name=name,
        verdict=verdict,
        difference=scale * estimate.mean,
        low=None if estimate.low is None else scale * estimate.low,
        high=None if estimate.high is None else scale * estimate.high,
        p_value=p_value,
        p_value_equivalence=p_equivalence,
        values=estimate.values,
        clusters=estimate.clusters,
    )


def _equivalence(paired: PairedDifference, margin: float) -> float | None:
    """The larger p-value of the tests against -margin and margin, or None without Student's t."""
    estimate = paired.difference
    if paired.interval_kind is not IntervalKind.CLUSTERED_T or not estimate.standard_error:
        return None
    distance = (margin - abs(estimate.mean)) / estimate.standard_error
    return float(scipy.special.stdtr(estimate.clusters - 1, -distance))


def _is_equivalent(paired: PairedDifference, margin: float, p_value: float | None) -> bool:
    """True if the difference is within the margin, by both tests or by the exact interval.

    Each bound of the exact interval has a one-sided confidence of 95%, like the two tests.
    """
    if p_value is not None:
        return p_value < LEVEL
    low, high = paired.difference.low, paired.difference.high
    return low is not None and high is not None and -margin < low and high < margin


def _headline_name(comparison: Comparison) -> str:
    if comparison.group_score:
        return "group score"
    return "mean accuracy" if comparison.mean_over else "accuracy"


def _check_facets(comparison: Comparison, facets: Collection[str]) -> None:
    tested = list(dict.fromkeys(marginal.column for marginal in comparison.marginals))
    unknown = [facet for facet in facets if facet not in tested]
    if unknown:
        raise ScoringError(
            f"no facet `{unknown[0]}` is compared; choose among {', '.join(tested) or 'none'}"
        )
