"""A test of every nightly run against the earlier ones, with a budget of false alarms.

`docs/nightly-statistics.md` has the assumption, the steps and the sources. Run 0 is the reference.
The evidence uses the mid p-value, because totals are whole numbers and the ordinary one is too
large on average. Runs of an unnoticed drop are part of the pool: with r runs before the drop among
the k runs of it, a drop by d standard errors of one run shifts the normal score of the p-value by
d × r / sqrt(k × (k + 1)).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # submodules are imported on first use
from numpy.typing import NDArray

from videomme_pipeline.scoring.statistics.estimates import MIN_P_VALUE

DROPS = (0.5, 1.0, 2.0, 3.0)
"""Drops that the evidence bets on in equal parts, in standard errors of one run."""

FIRST_WEIGHT = 20.0
"""The weight of the bets that the drop began in the first nightly run, against 1 for any other run.
More can have changed since the reference than between two nightly runs, and only the reference
shows such a drop, so that its evidence grows slowly."""

UNNOTICED_RUNS = 60
"""The latest runs at which an unnoticed change may have begun."""

THRESHOLD_RUNS = (1, 2, 4, 8, 16, 32, 64)
THRESHOLDS: Mapping[float, Sequence[float]] = {
    2: (11.0, 6.8, 4.4, 2.9, 2.3, 2.3, 2.3),
    5: (22.7, 14.8, 10.1, 7.4, 6.0, 4.6, 4.4),
    20: (59.0, 41.2, 28.0, 21.2, 18.7, 17.5, 15.0),
    60: (125.6, 92.3, 63.3, 46.1, 40.8, 41.6, 40.5),
    180: (269.0, 215.1, 142.9, 113.0, 92.4, 97.3, 103.0),
    720: (864.5, 689.8, 474.0, 364.5, 300.9, 329.4, 334.9),
}
"""The evidence that raises an alarm in the runs `THRESHOLD_RUNS`, by the mean number of runs to a
false alarm. Each threshold is a quantile of the evidence in 30,000 simulated histories without an
earlier alarm, smoothed over neighboring runs (`python -m perf.alarm --thresholds`). It is the
larger of two quantiles: for a pool of 1 run and of 40 runs at the beginning."""

ALARMS_IN_A_ROW = 1.25
"""The mean number of false alarms that come together. A false alarm removes bad runs from the
pool, so that later runs look worse (`python -m perf.alarm`)."""

RECOVERED_ABOVE = 0.2
"""An alarm ends with the first run that has answers and a p-value above this."""

Counts = NDArray[np.int64]
"""Whole numbers with one row per run and one column per video."""

Mask = NDArray[np.bool_]
"""The videos that were asked about and answered completely, shaped like `Counts`."""

RunCounts = Callable[[Sequence[int]], Counts]
"""A count per video in the given runs; larger is worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmState:
    """The result of one test for one nightly run.

    `p_value` is the probability that a run of an unchanged model is at least as bad as this run.
    `evidence` is the sum of the likelihood ratios. An evidence of `alarm_at` raises an alarm. While
    `in_alarm`, `since` is the run at which the change most likely began. `is_new` is True for the
    run that raised the alarm, and for the first nightly run if a repeat of the reference raised it.
    `pool` has the earlier runs that this run was compared with.
    """

    p_value: float
    evidence: float
    alarm_at: float
    in_alarm: bool
    is_new: bool
    since: int | None
    pool: tuple[int, ...]


class ExchangeabilityTest(NamedTuple):
    """The p-value of a run. `mid_p_value` counts half of the probability of an equally bad run."""

    p_value: float
    mid_p_value: float


def exchangeability_test(values: Counts, valid: Mask) -> ExchangeabilityTest:
    """The probability that the last row is at least as bad as it is, if rows are exchangeable.

    Larger values are worse. A video counts if its last row is valid. That row is compared with the
    earlier valid rows of the video: the total of the last row is a sum of independent draws, one
    per video, each uniform over its rows. The p-value is 1 if no video ever differs.
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
        return ExchangeabilityTest(p_value=1.0, mid_p_value=0.5)
    chances = np.zeros((counts.size, int(steps.max()) + 1))
    videos = np.broadcast_to(np.arange(counts.size), steps.shape)
    np.add.at(chances, (videos[valid], steps[valid]), 1.0)
    totals = distribution_of_sum(chances / counts[:, None])
    total = int(steps[-1].sum())
    worse = float(totals[total + 1 :].sum())
    return ExchangeabilityTest(
        p_value=float(np.clip(worse + totals[total], MIN_P_VALUE, 1)),
        mid_p_value=float(np.clip(worse + totals[total] / 2, MIN_P_VALUE, 1 - MIN_P_VALUE)),
    )


def distribution_of_sum(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution of a sum of independent whole numbers.

    `chances[i, k]` is the probability that number i is k. Pairs are added until one distribution
    is left, each round with one Fourier transform over all pairs.
    """
    while len(chances) > 1:
        if len(chances) % 2:
            certain_zero = np.eye(1, chances.shape[1])
            chances = np.concatenate((chances, certain_zero))
        points = 2 * chances.shape[1] - 1
        spectra = np.fft.rfft(chances, points, axis=1)
        chances = np.fft.irfft(spectra[::2] * spectra[1::2], points, axis=1)
    return np.asarray(chances[0])


def threshold_for(budget: float, run: int) -> float:
    """The evidence that raises an alarm in `run` (from 1), for one false alarm in `budget` runs.

    For budgets beyond the table, the threshold grows in proportion to the budget. That is more than
    necessary, so false alarms are rarer than once in `budget` runs.
    """
    tabled, budget = sorted(THRESHOLDS), ALARMS_IN_A_ROW * budget
    within = min(max(budget, tabled[0]), tabled[-1])
    at_run = [np.interp(np.log(run), np.log(THRESHOLD_RUNS), np.log(THRESHOLDS[b])) for b in tabled]
    return float(np.exp(np.interp(np.log(within), np.log(tabled), at_run)) * budget / within)


class DropEvidence:
    """Evidence for a lasting drop.

    `first_weight` is the weight of a drop that began in the first run that is added.
    `log_ratios[i, j]` is the log likelihood ratio of a drop of size `DROPS[j]` that began in the
    i-th of the last `UNNOTICED_RUNS` runs.
    """

    def __init__(self, first_weight: float = 1.0) -> None:
        self._first_weight = first_weight
        self._weights: list[float] = []
        self._starts: list[int] = []
        self._runs_before: list[int] = []
        self.log_ratios = np.zeros((0, len(DROPS)))

    def add(self, run: int, mid_p_value: float, reference_runs: int) -> None:
        """Add a run that was compared with `reference_runs` runs."""
        weight = 1.0 if self._starts else self._first_weight
        self._weights = [*self._weights, weight][-UNNOTICED_RUNS:]
        self._starts = [*self._starts, run][-UNNOTICED_RUNS:]
        self._runs_before = [*self._runs_before, reference_runs][-UNNOTICED_RUNS:]
        ratios = np.concatenate((self.log_ratios, np.zeros((1, len(DROPS)))))[-UNNOTICED_RUNS:]
        size = np.sqrt(reference_runs * (reference_runs + 1))
        shifts = np.outer(self._runs_before, DROPS) / size
        normal_score = -scipy.special.ndtri(mid_p_value)
        self.log_ratios = ratios + shifts * normal_score - shifts**2 / 2

    @property
    def total(self) -> float:
        """The weighted sum of the likelihood ratios. Its expectation is the sum of the weights if
        nothing changed."""
        return float(self._by_start() @ self._weights)

    @property
    def likeliest_start(self) -> int:
        """The run at which the drop most likely began."""
        return self._starts[int(self._by_start().argmax())]

    def _by_start(self) -> NDArray[np.float64]:
        return np.asarray(np.exp(self.log_ratios).mean(axis=1))


def watch(
    measure: RunCounts, valid: Mask, budget: float, *, references: int = 1
) -> list[AlarmState]:
    """The state after each run but the first. `valid` has a row per run, the `references` first.

    `budget` is the mean number of runs to a false alarm. Repeats of the reference are tested like
    nightly runs. The evidence of the nightly runs then starts from zero, so that a drop that begins
    in the first of them is compared with all repeats, and needs no more evidence than without them.

    Runs that belong to an alarm are removed from the pool, so that a lasting drop is compared
    with the runs before it. After an alarm has ended, the evidence starts from zero.
    """
    pool, evidence, states = [0], DropEvidence(FIRST_WEIGHT), list[AlarmState]()
    since: int | None = None
    for run in range(1, len(valid)):
        is_first = run == references
        evidence = DropEvidence(FIRST_WEIGHT) if is_first else evidence
        alarm_at = threshold_for(budget, run - references + 1 if run >= references else run)
        before = tuple(pool)
        runs = [*before, run]
        test = exchangeability_test(measure(runs), valid[runs])
        was_in_alarm = since is not None
        if not was_in_alarm:
            evidence.add(run, test.mid_p_value, len(before))
            if evidence.total >= alarm_at:
                since = evidence.likeliest_start
                pool = [earlier for earlier in pool if earlier < since]
        elif valid[run].any() and test.p_value > RECOVERED_ABOVE:
            evidence, since = DropEvidence(), None
        if since is None:
            pool.append(run)
        states.append(
            AlarmState(
                p_value=test.p_value,
                evidence=evidence.total,
                alarm_at=alarm_at,
                in_alarm=since is not None,
                is_new=since is not None and (is_first or not was_in_alarm),
                since=since,
                pool=before,
            )
        )
    return states
