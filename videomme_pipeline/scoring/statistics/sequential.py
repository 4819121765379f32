"""Boundaries of group-sequential tests: the levels at which one may test again and again.

A test is repeated at planned looks at a growing share of the videos. At a share t, |z| must reach
c × t^(shape - 0.5), where c makes the chance of any false rejection equal to the level (Wang &
Tsiatis, "Approximately Optimal One-Parameter Boundaries for Group Sequential Trials", 1987). The
chance is integrated numerically, as in Armitage, McPherson & Rowe (1969).
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import scipy  # submodules are imported on first use
from numpy.typing import ArrayLike, NDArray

SHAPE = 0.25
"""Between O'Brien–Fleming (0), which rarely stops early, and Pocock (0.5)."""
_NODES = 100
"""Points of each numerical integral. Twice as many change no boundary by more than 1e-6."""


@cache
def boundaries(
    shares: tuple[float, ...], level: float, shape: float = SHAPE
) -> NDArray[np.float64]:
    """The smallest |z| that rejects at each look, for a two-sided test at `level`.

    `shares` are the shares of all videos at the looks, increasing to 1.
    """
    shapes = np.asarray(shares) ** (shape - 0.5)
    least = float(scipy.special.ndtri(1 - level / 2))
    constant = scipy.optimize.brentq(
        lambda c: crossing_probability(shares, c * shapes) - level, least, least + 3
    )
    return np.asarray(constant * shapes)


def two_sided_levels(z: ArrayLike) -> NDArray[np.float64]:
    """The two-sided p-value of each |z| of a normal distribution."""
    return np.asarray(2 * scipy.special.ndtr(-np.abs(z)))


def crossing_probability(shares: Sequence[float], limits: ArrayLike) -> float:
    """The chance that |z| reaches its limit at any look, although there is no difference.

    The score z × √t has independent normal increments, whose variance is the growth of t.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    scores, masses, previous = np.zeros(1), np.ones(1), 0.0
    for share, limit in zip(shares, np.asarray(limits, dtype=float) * np.sqrt(shares), strict=True):
        error = np.sqrt(share - previous)
        steps = (limit * nodes[:, None] - scores) / error
        density = np.exp(-(steps**2) / 2) / (error * np.sqrt(2 * np.pi))
        scores, masses, previous = limit * nodes, limit * weights * (density @ masses), share
    return 1 - float(masses.sum())
