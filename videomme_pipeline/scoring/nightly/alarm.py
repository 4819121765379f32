"""A test of every nightly run against the earlier ones, with a budget of false alarms.

Run 0 is the baseline; every later run repeats the same evaluation. As long as nothing changed, all
runs of a video are exchangeable: every order of them is equally likely. The test has two steps.

1. The p-value of a run. Given the observations of each video without their order, the total of
   the last run is a sum of independent draws, one per video, each uniform over the observations
   of that video. Its distribution is computed exactly. For the first nightly run this is the
   sign-flip test against the baseline. The reference grows with every run, so that a lucky
   baseline does not cause repeated alarms. The p-values of different runs are independent
   (conformal p-values: Vovk, Nouretdinov & Gammerman, "Testing exchangeability on-line", 2003).
2. The alarm. Each p-value is converted to an e-value, a bet against "nothing changed". The mean of
   a bet is at most 1 if nothing changed. The bets are accumulated in a CUSUM: evidence = bet ×
   max(evidence, 1). A large drop raises the alarm in the first run, a small one after several runs
   (Page, "Continuous inspection schemes", 1954; for such p-values Vovk, "Testing randomness", arXiv
   1906.09256; Shin, Ramdas & Rinaldo, "E-detectors", NEJSDS). Because the p-values are independent
   and uniform, the mean number of runs to a false alarm depends on the threshold alone, at any
   noise level. It is computed (Brook & Evans, "An approach to the probability distribution of CUSUM
   run length", 1972), and the threshold is chosen to meet the budget.

The functions here are pure. `history` builds their arrays from scored rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # submodules are imported on first use: scipy.optimize alone takes half a second
from numpy.typing import NDArray

SHIFTS = (1.0, 2.0, 3.0)
"""Drops that the e-value bets on in equal parts, in standard errors of one run."""

RECOVERED_ABOVE = 0.2
"""An alarm ends with the first run whose p-value is above this."""

_STEPS = 150
"""Number of states into which evidence below the threshold is divided to compute run lengths."""

_LEAST_P_VALUE = 1e-12
"""Smaller p-values are below the rounding error of the computation."""

Counts = NDArray[np.int64]
"""Whole numbers with one row per run and one column per video."""

Mask = NDArray[np.bool_]
"""The videos that were asked about and answered completely, shaped like `Counts`."""

Measure = Callable[[Sequence[int]], Counts]
"""A count per video in the given runs; larger is worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmState:
    """The result of one test for one nightly run.

    `p_value` is the probability that a run of an unchanged model is at least as bad as this one.
    `evidence` is the CUSUM. While `in_alarm`, `since` is the first run that seems to be part of the
    change. `is_new` is True for the run that raised the alarm. `reference` has the earlier runs
    that this run was compared with.
    """

    p_value: float
    evidence: float
    in_alarm: bool
    is_new: bool
    since: int | None
    reference: tuple[int, ...]


def exchangeability_p_value(values: Counts, valid: Mask) -> float:
    """The probability that the last row is at least as bad as it is, if rows are exchangeable.

    Larger values are worse. A video counts if its last row is valid; it is compared with its
    earlier valid rows. The result is 1.0 if no video ever differs.
    """
    counts = valid.sum(axis=0)
    comparable = valid[-1] & (counts > 1)
    values, valid, counts = values[:, comparable], valid[:, comparable], counts[comparable]
    far = np.iinfo(np.int64).max
    lowest = np.where(valid, values, far).min(axis=0, initial=far)
    steps = np.where(valid, values - lowest, 0)
    varies = steps.max(axis=0, initial=0) > 0
    steps, valid, counts = steps[:, varies], valid[:, varies], counts[varies]
    if not counts.size:
        return 1.0
    chances = np.zeros((counts.size, int(steps.max()) + 1))
    videos = np.broadcast_to(np.arange(counts.size), steps.shape)
    np.add.at(chances, (videos[valid], steps[valid]), 1.0)
    totals = distribution_of_sum(chances / counts[:, None])
    return float(np.clip(totals[int(steps[-1].sum()) :].sum(), _LEAST_P_VALUE, 1.0))


def distribution_of_sum(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution of a sum of independent whole numbers.

    `chances[i, k]` is the probability that number i is k. Pairs are added until one distribution
    is left, each round with one Fourier transform over all pairs.
    """
    while len(chances) > 1:
        if len(chances) % 2:
            certain_zero = np.zeros((1, chances.shape[1]))
            certain_zero[0, 0] = 1.0
            chances = np.concatenate((chances, certain_zero))
        points = 2 * chances.shape[1] - 1
        spectra = np.fft.rfft(chances, points, axis=1)
        chances = np.fft.irfft(spectra[::2] * spectra[1::2], points, axis=1)
    total: NDArray[np.float64] = chances[0]
    return total


def e_value(p_value: float) -> float:
    """A bet against "nothing changed" whose mean is at most 1 if nothing changed."""
    return float(_bet(np.array([-scipy.special.ndtri(p_value)]))[0])


def runs_to_false_alarm(threshold: float) -> float:
    """The mean number of runs until the evidence reaches `threshold` while nothing changed.

    The logarithm of the evidence, in discrete steps, is a Markov chain that is absorbed by the
    alarm. If few answers ever differ, p-values are larger than uniform ones, so the true number of
    runs is higher than the result.
    """
    edges = np.linspace(0.0, np.log(threshold), _STEPS + 1)
    middles = np.concatenate(([0.0], (edges[:-1] + edges[1:]) / 2))
    normals = np.linspace(-9.0, 9.0, 4_001)
    bets = np.log(_bet(normals))
    below = scipy.special.ndtr(np.interp(edges[None, :] - middles[:, None], bets, normals))
    transitions = np.column_stack((below[:, 0], np.diff(below, axis=1)))
    runs = np.linalg.solve(np.eye(len(middles)) - transitions, np.ones(len(middles)))
    return float(runs[0])


@cache
def threshold_for(budget: float) -> float:
    """The evidence that raises an alarm, for a mean of one false alarm in `budget` runs."""
    logarithm = scipy.optimize.brentq(
        lambda value: runs_to_false_alarm(float(np.exp(value))) - budget,
        0.01,
        np.log(2 * budget),
        xtol=1e-4,
    )
    return float(np.exp(logarithm))


def watch(measure: Measure, valid: Mask, threshold: float) -> list[AlarmState]:
    """The state after each nightly run. `valid` has a row per run, the baseline first.

    Runs that belong to an alarm are removed from the reference, so that a lasting drop is compared
    with the runs before it. After an alarm has ended, the evidence starts from zero.
    """
    reference, suspects = [0], list[int]()
    evidence, in_alarm = 0.0, False
    since: int | None = None
    states = []
    for run in range(1, len(valid)):
        before = tuple(reference)
        runs = [*before, run]
        p_value = exchangeability_p_value(measure(runs), valid[runs])
        was_in_alarm = in_alarm
        if was_in_alarm:
            in_alarm = p_value <= RECOVERED_ABOVE
            if not in_alarm:
                evidence, since = 0.0, None
        else:
            evidence = e_value(p_value) * max(evidence, 1.0)
            suspects = [*suspects, run] if evidence > 1 else []
            in_alarm = evidence >= threshold
        if in_alarm and not was_in_alarm:
            since = suspects[0]
            reference = [earlier for earlier in reference if earlier not in suspects]
            suspects = []
        elif not in_alarm:
            reference.append(run)
        states.append(
            AlarmState(
                p_value=p_value,
                evidence=evidence,
                in_alarm=in_alarm,
                is_new=in_alarm and not was_in_alarm,
                since=since,
                reference=before,
            )
        )
    return states


def _bet(normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean likelihood ratio of a normal shifted by each of `SHIFTS`."""
    shifts = np.array(SHIFTS)
    bets: NDArray[np.float64] = np.exp(np.outer(normals, shifts) - shifts**2 / 2).mean(axis=1)
    return bets
