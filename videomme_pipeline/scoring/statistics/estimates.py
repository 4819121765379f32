"""What is known about a number: errors, intervals and tests for clustered questions.

Pure functions on arrays; one value per question (or per v2 group), one cluster label per value.
A video is the cluster: its questions are not independent. Which numbers are compared is decided
in `compare`. Formulas: CR1 as in Cameron & Miller, "A Practitioner's Guide to Cluster-Robust
Inference" (2015); clustered errors for evaluations as in Miller, "Adding Error Bars to Evals"
(2024); Wilson (1927); Benjamini & Hochberg (1995); McNemar (1947), exact form.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr, stdtrit
from scipy.stats import binomtest, false_discovery_control

CONFIDENCE = 0.95
SMALL_CELL_CLUSTERS = 10
"""Below so many clusters, Student's t on a clustered error is too rough for an accuracy."""

_MOST_ENUMERATED = 16
"""Clusters up to which all sign patterns of values that share no unit are enumerated."""


class IntervalKind(StrEnum):
    """How an interval was made."""

    CLUSTERED_T = "clustered_t"
    WILSON = "wilson"
    BOOTSTRAP = "bootstrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its error. Error and interval are None where one cluster gives none."""

    mean: float
    standard_error: float | None
    low: float | None
    high: float | None
    values: int
    clusters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyInterval:
    """The 95 % interval of an accuracy, within [0, 1]."""

    low: float
    high: float
    kind: IntervalKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """`a` minus `b` on the same questions.

    `p_value_t` is from t with clusters - 1 degrees of freedom, None where the error is 0 or not
    defined; `p_value` from the sign-flip test, which needs no distribution.
    """

    difference: Estimate
    t_statistic: float | None
    p_value_t: float | None
    p_value: float
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlip:
    """Two-sided p-value of a sign-flip test; `exact` unless it was drawn."""

    p_value: float
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseDiscoveries:
    """Benjamini–Hochberg: adjusted p-values and which are rejected, in the order given."""

    adjusted: tuple[float, ...]
    rejected: tuple[bool, ...]


def clustered_mean(
    values: ArrayLike, clusters: Sequence[Hashable], confidence: float = CONFIDENCE
) -> Estimate:
    """The mean of `values`, its CR1 standard error and t interval with clusters - 1 degrees.

    Raises:
        ValueError: when there are no values, or not one cluster per value.
    """
    sums, counts = _cluster_sums(values, clusters)
    return _estimate(sums, counts, confidence)


def paired_difference(
    a: ArrayLike, b: ArrayLike, clusters: Sequence[Hashable], *, unit: float = 1.0, seed: int = 0
) -> PairedDifference:
    """`a` minus `b`, question by question, clustered by video.

    `unit` is what all differences are whole multiples of (1 for right or wrong); with it the
    sign-flip test is exact for any number of videos. See `sign_flip_test` for `seed`.

    Raises:
        ValueError: when there are no values, or the three are not equally long.
    """
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.shape != second.shape:
        raise ValueError(f"{first.size} values against {second.size}: nothing pairs them")
    sums, counts = _cluster_sums(first - second, clusters)
    difference = _estimate(sums, counts, CONFIDENCE)
    t_statistic = p_value_t = None
    if difference.standard_error:
        t_statistic = difference.mean / difference.standard_error
        p_value_t = float(2 * stdtr(difference.clusters - 1, -abs(t_statistic)))
    flip = sign_flip_test(sums, unit=unit, seed=seed)
    return PairedDifference(
        difference=difference,
        t_statistic=t_statistic,
        p_value_t=p_value_t,
        p_value=flip.p_value,
        exact=flip.exact,
    )


def sign_flip_test(
    cluster_sums: ArrayLike, *, unit: float = 1.0, draws: int = 99_999, seed: int = 0
) -> SignFlip:
    """How often random signs of the clusters' differences give a sum as far from 0.

    Sums that are whole multiples of `unit` have an exact distribution over all 2^n sign patterns
    at any n: it is computed, not enumerated. Other sums
    are enumerated up to 16 clusters that are not 0; beyond that, `draws` patterns are drawn with
    `seed`, and p = (1 + as far) / (1 + draws).
    """
    sums = np.abs(np.asarray(cluster_sums, dtype=float))
    observed = abs(float(np.sum(cluster_sums)))
    sums = sums[sums > 1e-12]
    multiples = np.rint(sums / unit)
    if np.allclose(multiples * unit, sums, rtol=0, atol=1e-6 * unit):
        return SignFlip(p_value=_exact_tail(multiples.astype(int), observed / unit), exact=True)
    far = observed - 1e-9 * max(1.0, observed)
    if sums.size <= _MOST_ENUMERATED:
        patterns = (np.arange(2**sums.size)[:, None] >> np.arange(sums.size)) & 1
        totals = np.abs((2 * patterns - 1) @ sums)
        return SignFlip(p_value=float(np.mean(totals >= far)), exact=True)
    generator = np.random.default_rng(seed)
    as_far = 0
    for start in range(0, draws, 4_096):
        size = (min(4_096, draws - start), sums.size)
        totals = np.abs(generator.choice((-1.0, 1.0), size=size) @ sums)
        as_far += int(np.count_nonzero(totals >= far))
    return SignFlip(p_value=(1 + as_far) / (1 + draws), exact=False)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar p-value from the two kinds of discordant pairs.

    It takes questions as independent; beside a clustered test it shows what that would claim.
    """
    discordant = only_a + only_b
    return 1.0 if discordant == 0 else float(binomtest(only_a, discordant).pvalue)


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The Wilson score interval of a share, within [0, 1]; it takes trials as independent.

    Raises:
        ValueError: when there are no trials.
    """
    if trials < 1:
        raise ValueError("no trials: a share of nothing has no interval")
    z = float(ndtri(0.5 + confidence / 2))
    middle = (successes + z**2 / 2) / (trials + z**2)
    half = z / (trials + z**2) * sqrt(successes * (trials - successes) / trials + z**2 / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def accuracy_interval(estimate: Estimate) -> AccuracyInterval:
    """The interval that is shown beside an accuracy.

    Clustered t; Wilson for small cells (below 10 videos) and where all videos have the same
    share, so that the clustered error is 0 and its interval would claim certainty.
    """
    low, high = estimate.low, estimate.high
    small = estimate.clusters < SMALL_CELL_CLUSTERS or not estimate.standard_error
    if small or low is None or high is None:
        low, high = wilson(round(estimate.mean * estimate.values), estimate.values)
        return AccuracyInterval(low=low, high=high, kind=IntervalKind.WILSON)
    return AccuracyInterval(low=max(0.0, low), high=min(1.0, high), kind=IntervalKind.CLUSTERED_T)


def bootstrap_mean(
    values: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The mean of `values` with a percentile interval from resampling whole clusters.

    For v2 group scores, whose few and uneven values are far from normal. Equal clusters are
    drawn together (multinomial counts), so 10,000 resamples of 800 groups take milliseconds.

    Raises:
        ValueError: when there are no values, or not one cluster per value.
    """
    sums, counts = _cluster_sums(values, clusters)
    mean, size = float(sums.sum() / counts.sum()), sums.size
    if size < 2:
        return _estimate(sums, counts, confidence)
    kinds, frequency = np.unique(np.column_stack((sums, counts)), axis=0, return_counts=True)
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(size, frequency / size, size=resamples)
    means = (drawn @ kinds[:, 0]) / (drawn @ kinds[:, 1])
    low, high = np.quantile(means, ((1 - confidence) / 2, (1 + confidence) / 2))
    return Estimate(
        mean=mean,
        standard_error=float(np.std(means, ddof=1)),
        low=float(low),
        high=float(high),
        values=int(counts.sum()),
        clusters=size,
    )


def benjamini_hochberg(p_values: Sequence[float], rate: float = 0.05) -> FalseDiscoveries:
    """Which of many tests hold at a false discovery rate of `rate`."""
    if not p_values:
        return FalseDiscoveries(adjusted=(), rejected=())
    adjusted = false_discovery_control(np.asarray(p_values), method="bh")
    return FalseDiscoveries(
        adjusted=tuple(float(p) for p in adjusted),
        rejected=tuple(bool(p <= rate) for p in adjusted),
    )


def minimal_detectable_effect(  # noqa: PLR0913 - what is known before a run, each by name
    *,
    questions: int,
    videos: int,
    discordance: float,
    intra_video_correlation: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """The smallest true difference of two evaluations that a paired test finds with `power`.

    `discordance` is the share of questions that one gets right and the other wrong (0.25 where
    nothing is known: two independent coins at correlation one half); it is the variance of one
    question's difference. `intra_video_correlation` of these differences widens the error by
    the design effect 1 + (questions per video - 1) × correlation.

    Raises:
        ValueError: for fewer than two videos.
    """
    if videos < 2:
        raise ValueError("one video has no error between videos")
    design_effect = 1 + (questions / videos - 1) * intra_video_correlation
    standard_error = sqrt(discordance * design_effect / questions)
    degrees = videos - 1
    return float((stdtrit(degrees, 1 - alpha / 2) + stdtrit(degrees, power)) * standard_error)


def flip_rate(
    first: Sequence[Hashable], second: Sequence[Hashable], clusters: Sequence[Hashable]
) -> Estimate:
    """The share of questions whose answer is another one in a second run, clustered by video.

    Between two runs of the same evaluation (A/A) it is the noise floor of every comparison.

    Raises:
        ValueError: when there are no values, or the three are not equally long.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} answers against {len(second)}: nothing pairs them")
    flipped = [float(one != two) for one, two in zip(first, second, strict=True)]
    return clustered_mean(flipped, clusters)


def _cluster_sums(
    values: ArrayLike, clusters: Sequence[Hashable]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and number of values of each cluster, in order of first appearance."""
    held = np.asarray(values, dtype=float)
    if held.size == 0 or held.size != len(clusters):
        raise ValueError(f"{held.size} values in {len(clusters)} places: need one cluster each")
    place: dict[Hashable, int] = {}
    codes = np.fromiter((place.setdefault(label, len(place)) for label in clusters), dtype=int)
    sums = np.bincount(codes, weights=held, minlength=len(place))
    counts = np.bincount(codes, minlength=len(place))
    return sums.astype(np.float64), counts.astype(np.float64)


def _estimate(
    sums: NDArray[np.float64], counts: NDArray[np.float64], confidence: float
) -> Estimate:
    total, clusters = float(counts.sum()), sums.size
    mean = float(sums.sum()) / total
    standard_error = low = high = None
    if clusters > 1:
        residuals = sums - mean * counts
        squares = float(residuals @ residuals)
        standard_error = sqrt(squares * clusters / (clusters - 1)) / total
        half = float(stdtrit(clusters - 1, 0.5 + confidence / 2)) * standard_error
        low, high = mean - half, mean + half
    return Estimate(
        mean=mean,
        standard_error=standard_error,
        low=low,
        high=high,
        values=int(total),
        clusters=clusters,
    )


def _exact_tail(sizes: NDArray[np.int_], observed: float) -> float:
    """P(|sum of ±sizes| ≥ observed) over all sign patterns, from the characteristic function.

    A sum of ±size has the characteristic function cos(size × t); the product over all sizes, at
    more points than there are sums, goes back to the distribution in one Fourier transform.
    """
    points = 2 * int(sizes.sum()) + 1
    frequencies = np.arange(points // 2 + 1)
    characteristic = np.ones(frequencies.size)
    for size, count in Counter(sizes.tolist()).items():
        angles = 2 * np.pi / points * (frequencies * size % points)
        characteristic *= np.cos(angles) ** count
    mass = np.fft.irfft(characteristic, points)
    totals = np.arange(points)
    distance = np.minimum(totals, points - totals)
    return float(np.clip(mass[distance >= round(observed)].sum(), 0.0, 1.0))
