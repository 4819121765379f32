"""Standard errors, confidence intervals and tests for clustered questions.

Pure functions on arrays, with one value per question (or per group) and one cluster label per
value. The cluster is the video: its questions are not independent. Sources: CR1 as in Cameron &
Miller, "A Practitioner's Guide to Cluster-Robust Inference" (2015); clustered errors for
evaluations as in Miller, "Adding Error Bars to Evals" (2024); Wilson (1927); Clopper & Pearson
(1934).
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy  # submodules are imported on first use
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
SMALL_CELL_CLUSTERS = 10
"""With fewer clusters, Student's t with a clustered error is too imprecise for an accuracy."""
MIN_GROUP_SCORE_ERROR = 1e-6
"""A standard error of a group score (0 to 100) below this is a rounding error of 0."""

MIN_P_VALUE = 1e-12
"""Smaller p-values are below the rounding error of the exact tests."""
FEW_DIFFERENCES = 3
"""With fewer videos that differ, the interval of a paired difference contains the exact one."""

_ROUNDING = 1e-9
"""Differences below this are rounding errors of 0."""

_MAX_ENUMERATED = 16
"""The number of clusters up to which all sign patterns are enumerated if values share no unit."""


class IntervalKind(StrEnum):
    """The method of an interval."""

    CLUSTERED_T = "clustered_t"
    WILSON = "wilson"
    EXACT = "exact"
    """From the exact bound on the share of videos that differ (`paired_difference`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its standard error and 95% interval, which are None for a single cluster."""

    mean: float
    standard_error: float | None
    low: float | None
    high: float | None
    interval_kind: IntervalKind | None
    values: int
    clusters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """`a` minus `b` on the same questions.

    `p_value` and `exact` are from the sign-flip test, which assumes no distribution.
    """

    difference: Estimate
    p_value: float
    exact: bool


class SignFlip(NamedTuple):
    """Two-sided p-value of a sign-flip test. `exact` is False for a p-value from random draws."""

    p_value: float
    exact: bool


def clustered_mean(values: ArrayLike, clusters: Sequence[Hashable]) -> Estimate:
    """The mean of `values` with CR1 standard error and t interval (clusters - 1 degrees).

    ValueError if there are no values, or not one cluster per value.
    """
    return _estimate(*_cluster_sums(values, clusters))


def balanced_weights(labels: Sequence[Hashable]) -> list[float]:
    """Weights with mean 1 with which all labels have the same total weight."""
    sizes = Counter(labels)
    return [len(labels) / len(sizes) / sizes[label] for label in labels]


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    unit: float = 1.0,
    largest: float = 1.0,
) -> PairedDifference:
    """`a` minus `b`, question by question, clustered by video.

    All differences are whole multiples of `unit` (1 for right or wrong), which makes the
    sign-flip test exact for any number of videos. `largest` is the largest possible mean
    difference, which limits the interval.

    The interval is Student's t with the clustered error. If fewer than `FEW_DIFFERENCES` videos
    differ, or all differ by the same amount, a small error would claim more than so few differences
    can show. Then the interval contains the exact one too: with 95% confidence, at most a share of
    1 - 0.05^(1/clusters) of all clusters differs from the observed ones (the bound of Clopper and
    Pearson for none), each by at most `largest` in either direction.

    ValueError if there are no values, or the three do not have the same length.
    """
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.shape != second.shape:
        raise ValueError(f"{first.size} values against {second.size}: they cannot be paired")
    sums, counts = _cluster_sums(first - second, clusters)
    difference = _limited(_estimate(sums, counts), sums, largest)
    p_value, exact = sign_flip_test(sums, unit=unit)
    return PairedDifference(difference=difference, p_value=p_value, exact=exact)


def sign_flip_test(
    cluster_sums: ArrayLike, *, unit: float = 1.0, draws: int = 99_999, seed: int = 0
) -> SignFlip:
    """The share of sign patterns of `cluster_sums` with a total at least as far from 0.

    If all sums are whole multiples of `unit`, the distribution over all 2^n sign patterns is
    computed exactly for any n. Otherwise the patterns are enumerated for up to 16 nonzero clusters;
    beyond that, `draws` patterns are drawn with `seed`, and p = (1 + as far) / (1 + draws).
    """
    sums = np.abs(np.asarray(cluster_sums, dtype=float))
    observed = abs(float(np.sum(cluster_sums)))
    sums = sums[sums > 1e-12]
    multiples = np.rint(sums / unit)
    if np.allclose(multiples * unit, sums, rtol=0, atol=1e-6 * unit):
        return SignFlip(_exact_tail(multiples.astype(int), observed / unit), exact=True)
    far = observed - 1e-9 * max(1.0, observed)
    if sums.size <= _MAX_ENUMERATED:
        patterns = (np.arange(2**sums.size)[:, None] >> np.arange(sums.size)) & 1
        totals = np.abs((2 * patterns - 1) @ sums)
        return SignFlip(float(np.mean(totals >= far)), exact=True)
    generator = np.random.default_rng(seed)
    as_far = 0
    for start in range(0, draws, 4_096):
        size = (min(4_096, draws - start), sums.size)
        totals = np.abs(generator.choice((-1.0, 1.0), size=size) @ sums)
        as_far += int(np.count_nonzero(totals >= far))
    return SignFlip((1 + as_far) / (1 + draws), exact=False)


def adjusted_p_values(p_values: Sequence[float]) -> NDArray[np.float64]:
    """The p-values after the correction of Benjamini and Hochberg (1995), in the same order.

    If a difference is called significant when its value is at most 0.05, at most 5% of those are
    false discoveries on average. (`scipy.stats` has this function, but importing it takes 0.6 s.)
    """
    values = np.asarray(p_values, dtype=float)
    falling = np.argsort(values)[::-1]
    ranks = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[falling] = np.minimum.accumulate(np.minimum(values[falling] * len(values) / ranks, 1))
    return adjusted


def wilson(successes: float, trials: int) -> tuple[float, float]:
    """The Wilson score interval of a proportion, which treats trials as independent.

    `successes` may be a fraction: the sum of the shares of repeats that succeeded. ValueError if
    there are no trials.
    """
    if trials < 1:
        raise ValueError("no trials: the proportion is undefined")
    z_squared = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) ** 2
    center, total = successes + z_squared / 2, trials + z_squared
    half = sqrt(z_squared * (successes * (trials - successes) / trials + z_squared / 4))
    low = 0.0 if successes == 0 else (center - half) / total
    high = 1.0 if successes == trials else (center + half) / total
    return low, high


def with_accuracy_interval(estimate: Estimate, questions: int) -> Estimate:
    """An accuracy, a fraction of 1, on `questions` different questions, with its interval.

    The interval is Student's t with the clustered error. For fewer than 10 videos, or if all videos
    have the same accuracy, it is a Wilson interval: a clustered error of 0 would claim certainty.
    Repeats of a question are not new questions, so they do not narrow the Wilson interval.
    """
    low, high, kind = estimate.low, estimate.high, IntervalKind.CLUSTERED_T
    small = estimate.clusters < SMALL_CELL_CLUSTERS or not estimate.standard_error
    if small or low is None or high is None:
        low, high = wilson(estimate.mean * questions, questions)
        kind = IntervalKind.WILSON
    return replace(estimate, low=max(0.0, low), high=min(1.0, high), interval_kind=kind)


def with_group_score_interval(estimate: Estimate) -> Estimate:
    """A mean group score, 0 to 100, with its interval: Student's t with the clustered error.

    It has no interval for a single video, and if all videos have the same score: an error of 0
    would claim certainty. The macro `group_score_by` computes the same interval in SQL.
    """
    low, high, error = estimate.low, estimate.high, estimate.standard_error
    if low is None or high is None or error is None or error < MIN_GROUP_SCORE_ERROR:
        return replace(estimate, low=None, high=None, interval_kind=None)
    return replace(estimate, low=max(0.0, low), high=min(100.0, high))


def p_value_text(p_value: float) -> str:
    """A p-value for people: "0.0031", "2.5e-07", "< 1e-12"."""
    if p_value <= MIN_P_VALUE:
        return f"< {MIN_P_VALUE:.0e}"
    return f"{p_value:.4f}" if p_value >= 0.001 else f"{p_value:.1e}"


def _cluster_sums(
    values: ArrayLike, clusters: Sequence[Hashable]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and number of values of each cluster, in order of first appearance."""
    weights = np.asarray(values, dtype=float)
    if weights.size == 0 or weights.size != len(clusters):
        raise ValueError(f"{weights.size} values with {len(clusters)} clusters: pass one per value")
    number: dict[Hashable, int] = {}
    codes = np.fromiter((number.setdefault(label, len(number)) for label in clusters), dtype=int)
    sums = np.bincount(codes, weights=weights, minlength=len(number))
    counts = np.bincount(codes, minlength=len(number))
    return sums.astype(np.float64), counts.astype(np.float64)


def _estimate(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> Estimate:
    total, clusters = float(counts.sum()), sums.size
    mean = float(sums.sum()) / total
    standard_error = low = high = None
    if clusters > 1:
        residuals = sums - mean * counts
        squares = float(residuals @ residuals)
        standard_error = sqrt(squares * clusters / (clusters - 1)) / total
        half = float(scipy.special.stdtrit(clusters - 1, 0.5 + CONFIDENCE / 2)) * standard_error
        low, high = mean - half, mean + half
    return Estimate(
        mean=mean,
        standard_error=standard_error,
        low=low,
        high=high,
        interval_kind=IntervalKind.CLUSTERED_T if clusters > 1 else None,
        values=int(total),
        clusters=clusters,
    )


def _limited(difference: Estimate, sums: NDArray[np.float64], largest: float) -> Estimate:
    """`difference` with its interval limited as in `paired_difference`."""
    low, high, kind = difference.low, difference.high, difference.interval_kind
    if low is None or high is None or difference.standard_error is None:
        return difference
    differing = int(np.count_nonzero(np.abs(sums) > _ROUNDING))
    if differing < FEW_DIFFERENCES or difference.standard_error < _ROUNDING:
        same = (1 - CONFIDENCE) ** (1 / difference.clusters)
        low = min(low, same * difference.mean - (1 - same) * largest)
        high = max(high, same * difference.mean + (1 - same) * largest)
        kind = IntervalKind.EXACT
    return replace(difference, low=max(-largest, low), high=min(largest, high), interval_kind=kind)


def _exact_tail(sizes: NDArray[np.int_], observed: float) -> float:
    """P(|sum of ±sizes| ≥ observed) over all sign patterns.

    The characteristic function of ±size is cos(size × t). One Fourier transform inverts the product
    over all sizes, sampled at more points than there are sums.
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
    return float(np.clip(mass[distance >= round(observed)].sum(), MIN_P_VALUE, 1.0))
