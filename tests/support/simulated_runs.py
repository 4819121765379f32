"""Simulated nightly runs of a model that does not change, or that gets worse at some point.

Every question has a probability of a correct answer, which is the same in every run. Most
probabilities are near 0 or 1. The other questions are toss-ups, whose answers flip between runs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tests.support.scored_rows import scored
from videomme_pipeline.benchmarks.question import Duration, Letter
from videomme_pipeline.scoring.nightly.alarm import (
    FIRST_WEIGHT,
    Counts,
    DropEvidence,
    RunCounts,
    watch,
)
from videomme_pipeline.scoring.nightly.assess import (
    runs_per_false_alarm,
    watch_check,
    worse_marginals,
)
from videomme_pipeline.scoring.nightly.history import history_of
from videomme_pipeline.scoring.nightly.policy import (
    BUDGET_SHARES,
    AlarmSpec,
    NightlyCheck,
    Severity,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import paired_difference
from videomme_pipeline.scoring.statistics.power import PowerAnalysis

UNCERTAIN = 0.2
"""Share of the questions whose answer is a toss-up."""
FLIPPED = 0.02
"""Probability that one of the other answers is not the usual one."""
VARIATION = 0.25
"""Largest distance of a toss-up's probability from one half."""
FAILED = 0.003
UNREADABLE = 0.02
"""Shares of answers that are missing or contain no letter, in any run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBenchmark:
    """A benchmark of `videos` with `per_video` questions each, as one model answers it."""

    videos: int = 900
    per_video: int = 3

    def chances(self, generator: np.random.Generator) -> NDArray[np.float64]:
        """The probability of a correct answer, shape (videos, per_video)."""
        kinds = generator.random(self.videos * self.per_video)
        spread = generator.uniform(-VARIATION, VARIATION, kinds.size)
        certain = np.where(kinds < (1 + UNCERTAIN) / 2 + 0.1, 1 - FLIPPED, FLIPPED)
        chances = np.where(kinds < UNCERTAIN, 0.5 + spread, certain)
        return chances.reshape(self.videos, self.per_video)

    @property
    def discordance(self) -> float:
        """The share of questions that exactly one of two runs answers correctly."""
        toss_up = 0.5 - 2 * VARIATION**2 / 3
        return UNCERTAIN * toss_up + (1 - UNCERTAIN) * 2 * FLIPPED * (1 - FLIPPED)

    @property
    def noise(self) -> float:
        """The standard error of the accuracy of one run."""
        return sqrt(self.discordance / 2 / (self.videos * self.per_video))

    @property
    def detectable_drop(self) -> float:
        """The drop that one comparison of two runs detects with 80% power at a 5% level."""
        return PowerAnalysis(
            questions=self.videos * self.per_video,
            videos=self.videos,
            discordance=self.discordance,
            correlation=0,
        ).effect


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAlarms:
    """Alarms of the accuracy test over some histories.

    Delays count runs, 1 for the first run of the drop, in histories that were not in alarm when
    the drop began. `missed` of these `histories` have no alarm. `alarms_of_t_test` is the count
    without the policy: a paired t-test of every run against the reference at 5%.
    """

    runs: int
    alarms: int
    alarms_of_t_test: int
    worst_history: int
    worst_history_of_t_test: int
    histories: int
    median_delay: float
    mean_delay: float
    missed: int

    @property
    def power(self) -> float:
        """The share of the histories in which the drop was reported."""
        return 1 - self.missed / self.histories


def simulate_alarms(
    benchmark: SimulatedBenchmark,
    *,
    drop: float,
    changes_at: int,
    runs: int,
    histories: int,
    budget: float,
    seed: int,
    references: int = 1,
) -> SimulatedAlarms:
    """Simulate the references and `runs` nightly runs. From `changes_at` on, accuracy is lower."""
    alarms, alarms_of_t_test, delays = [], [], []
    for number in range(histories):
        generator = np.random.default_rng([seed, number])
        chances = benchmark.chances(generator)
        lower = chances * (1 - drop / chances.mean())
        wrong = np.stack(
            [
                (generator.random(chances.shape) >= (chances if run < changes_at else lower))
                .sum(axis=1)
                .astype(np.int64)
                for run in range(1 - references, runs + 1)
            ]
        )
        valid = np.ones_like(wrong, bool)
        states = watch(_measure_of(wrong), valid, budget, references=references)[references - 1 :]
        alarms.append(sum(state.is_new for state in states))
        alarms_of_t_test.append(sum(_is_worse(wrong[0], run) for run in wrong[references:]))
        if changes_at > 1 and states[changes_at - 2].in_alarm:
            continue
        after = states[changes_at - 1 :]
        delays.append(next((n for n, state in enumerate(after, start=1) if state.in_alarm), None))
    reported = [delay for delay in delays if delay is not None]
    return SimulatedAlarms(
        runs=runs * histories,
        alarms=sum(alarms),
        alarms_of_t_test=sum(alarms_of_t_test),
        worst_history=max(alarms),
        worst_history_of_t_test=max(alarms_of_t_test),
        histories=len(delays),
        median_delay=median(reported) if reported else float(runs),
        mean_delay=sum(reported) / len(reported) if reported else float(runs),
        missed=delays.count(None),
    )


def optimal_power(
    benchmark: SimulatedBenchmark,
    *,
    drop: float,
    runs: int,
    budget: float,
    references: int | None = None,
    histories: int = 4_000,
) -> float:
    """The share of drops that the best possible test reports within `runs` runs of the drop.

    With `references`, the drop begins in the first run, and the test knows that and everything but
    the true accuracy, of which it has that many runs. Otherwise:

    It knows the true accuracy, the noise and the size of the drop, and spends the whole budget.
    With this knowledge, no test has a shorter delay than the CUSUM of the likelihood ratios
    (Moustakides, 1986).
    """
    generator = np.random.default_rng(9)
    shift = drop / benchmark.noise
    if references is not None:
        return _power_from_the_first_run(generator, shift, runs, budget, references)
    unchanged = _cusum(generator.standard_normal((histories, int(6 * budget))), shift)
    threshold = brentq(lambda level: _run_length(unchanged, level) - budget, 0, 20, xtol=1e-3)
    scores = generator.standard_normal((histories, 20 + runs))
    scores[:, 20:] += shift
    evidence = _cusum(scores, shift)
    quiet = (evidence[:, :20] < threshold).all(axis=1)
    return float((evidence[quiet, 20:] >= threshold).any(axis=1).mean())


def _power_from_the_first_run(
    generator: np.random.Generator, shift: float, runs: int, budget: float, references: int
) -> float:
    """The power of the likelihood ratio of this drop, with equal false alarms in each run."""
    before = references + np.arange(runs)
    shifts = shift * references / np.sqrt(before * (before + 1))
    scores = generator.standard_normal((20_000, runs))
    unchanged, dropped = (
        np.cumsum(shifts * (scores + mean) - shifts**2 / 2, axis=1) for mean in (0, shifts)
    )
    quiet, missed = np.ones(len(scores), bool), np.ones(len(scores), bool)
    for run in range(runs):
        threshold = np.quantile(unchanged[quiet, run], 1 - 1 / budget)
        quiet &= unchanged[:, run] < threshold
        missed &= dropped[:, run] < threshold
    return float(1 - missed.mean())


def _cusum(scores: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """The evidence after each run (columns) of each history, as logarithms."""
    evidence = np.zeros_like(scores)
    current = np.zeros(len(scores))
    for run in range(scores.shape[1]):
        current = np.maximum(current, 0) + shift * scores[:, run] - shift**2 / 2
        evidence[:, run] = current
    return evidence


def _run_length(evidence: NDArray[np.float64], threshold: float) -> float:
    """The mean number of runs to an alarm, over histories of limited length."""
    alarms = evidence >= threshold
    first = np.where(alarms.any(axis=1), alarms.argmax(axis=1) + 1, evidence.shape[1])
    return float(first.sum() / max(1, alarms.any(axis=1).sum()))


def simulate_thresholds(
    budgets: Sequence[float], *, runs: int, pool_sizes: int, histories: int
) -> NDArray[np.float64]:
    """The evidence that raises a false alarm with probability 1 / budget in each run.

    One row per budget, one column per run. The first run is compared with `pool_sizes` runs. The
    histories of unchanged runs are independent; those with an earlier alarm are left out. Once
    too few are left, the threshold stays the same.
    """
    generator = np.random.default_rng(5)
    evidences = [DropEvidence(FIRST_WEIGHT) for _ in range(histories)]
    quiet = np.ones((len(budgets), histories), bool)
    thresholds = np.zeros((len(budgets), runs))
    for run in range(runs):
        p_values = generator.random(histories)
        for evidence, p_value in zip(evidences, p_values, strict=True):
            evidence.add(run, p_value, pool_sizes + run)
        totals = np.array([evidence.total for evidence in evidences])
        for row, budget in enumerate(budgets):
            left = totals[quiet[row]]
            is_enough = left.size > 3 * budget or run == 0
            thresholds[row, run] = (
                np.quantile(left, 1 - 1 / budget) if is_enough else thresholds[row, run - 1]
            )
            quiet[row] &= totals < thresholds[row, run]
    return thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedChecks:
    """Alarms of all tests of the default policy while nothing changes.

    `false_alarms` counts runs in which any test raised a new alarm; `by_test` counts each test.
    """

    runs: int
    allowed: float
    false_alarms: int
    worst_history: int
    by_test: dict[str, int]


def simulate_checks(
    benchmark: SimulatedBenchmark, *, runs: int, histories: int, seed: int, v2: bool
) -> SimulatedChecks:
    """Simulate a reference and `runs` runs of an unchanged model under the default policy."""
    spec = AlarmSpec()
    by_test: Counter[str] = Counter()
    alarms = []
    for number in range(histories):
        rows = draw_runs(np.random.default_rng([seed, number]), benchmark, runs, v2=v2)
        alarms_by_test = new_alarms(rows, spec)
        by_test.update({check: sum(raised) for check, raised in alarms_by_test.items()})
        alarms.append(sum(any(run) for run in zip(*alarms_by_test.values(), strict=True)))
    return SimulatedChecks(
        runs=runs * histories,
        allowed=runs * histories / spec.runs_per_false_alarm,
        false_alarms=sum(alarms),
        worst_history=max(alarms),
        by_test=dict(by_test),
    )


def simulate_hidden_drop(
    benchmark: SimulatedBenchmark, *, changes_at: int, runs: int, histories: int, seed: int
) -> dict[bool, float]:
    """The share of histories with a report of a drop of one task type, by `marginals` on or off.

    From run `changes_at` on, the type loses half of its right answers, and two others gain half of
    their wrong ones, so that the accuracy stays about the same.
    """
    reported: Counter[bool] = Counter()
    for number in range(histories):
        generator = np.random.default_rng([seed, number])
        rows = draw_runs(generator, benchmark, runs, v2=False)
        for run in rows[changes_at:]:
            run[:] = map(_moved, run, generator.random(len(run)))
        for is_on in (True, False):
            severity = {} if is_on else {NightlyCheck.MARGINALS: Severity.OFF}
            alarms = new_alarms(rows, AlarmSpec(severity=severity))
            if not is_on:
                del alarms[NightlyCheck.MARGINALS]
            reported[is_on] += any(any(raised[changes_at - 1 :]) for raised in alarms.values())
    return {is_on: reported[is_on] / histories for is_on in (True, False)}


def _moved(row: ScoredQuestion, chance: float) -> ScoredQuestion:
    task, outcome = row.facets["task_type"], row.outcome
    if chance < 0.5 and task == "task 3" and outcome is Outcome.CORRECT:
        return replace(row, outcome=Outcome.INCORRECT, extracted_answer=Letter.B)
    if chance < 0.5 and task in ("task 7", "task 8") and outcome is Outcome.INCORRECT:
        return replace(row, outcome=Outcome.CORRECT, extracted_answer=Letter.A)
    return row


def draw_runs(
    generator: np.random.Generator, benchmark: SimulatedBenchmark, runs: int, *, v2: bool
) -> list[list[ScoredQuestion]]:
    """The rows of a reference and of `runs` runs, a few of them unreadable or failed.

    Wrong letters flip too. The labels have the shape of the real benchmarks'.
    """
    chances = benchmark.chances(generator)
    rows_of_runs = []
    for _ in range(runs + 1):
        right = generator.random(chances.shape) < chances
        odd = generator.random(chances.shape)
        letters = generator.integers(0, 3, chances.shape)
        rows_of_runs.append(
            [
                _row(
                    video,
                    position,
                    bool(right[video, position]),
                    odd[video, position],
                    letters,
                    v2=v2,
                )
                for video in range(benchmark.videos)
                for position in range(benchmark.per_video)
            ]
        )
    return rows_of_runs


def new_alarms(runs: Sequence[Sequence[ScoredQuestion]], spec: AlarmSpec) -> dict[str, list[bool]]:
    """For every test that shares the budget: True for the runs in which it raises a new alarm."""
    history = history_of(runs)
    budgets = runs_per_false_alarm(spec, history)
    accuracy_states = watch_check(NightlyCheck.ACCURACY, history, budgets)
    alarms: dict[str, list[bool]] = {}
    for check in BUDGET_SHARES:
        if check is NightlyCheck.GROUP_SCORE and not history.has_groups:
            continue
        if check is NightlyCheck.MARGINALS:
            alarms[check.value] = [
                worse_marginals(history, accuracy_states, run, budgets[check])[1]
                for run in range(1, len(runs))
            ]
        else:
            states = watch_check(check, history, budgets)
            alarms[check.value] = [state.is_new for state in states]
    return alarms


def _row(
    video: int, position: int, right: bool, odd: float, letters: Counts, *, v2: bool
) -> ScoredQuestion:
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    if odd < FAILED:
        outcome = Outcome.FAILED
    elif odd < FAILED + UNREADABLE:
        outcome = Outcome.UNREADABLE
    answered = outcome in (Outcome.CORRECT, Outcome.INCORRECT)
    letter = Letter.A if right else list(Letter)[1 + int(letters[video, position])]
    labels: dict[str, Any] = (
        {
            "group_type": ("relevance", "logic")[video % 3 == 0],
            "group_structure": "4" if video % 3 else "[1,2,3,4]",
            "level": 1 + video % 3,
            "second_head": f"head {video % 12}",
            "third_head": f"head {video % 30}",
        }
        if v2
        else {
            "domain": f"domain {video % 6}",
            "sub_category": f"category {video % 30}",
            "task_type": f"task {(video + position) % 12}",
            "duration": tuple(Duration)[video % 3],
        }
    )
    return scored(
        f"{video:03d}-{position + 1}",
        outcome,
        benchmark="videomme_v2" if v2 else "videomme",
        video_id=f"{video:03d}",
        extracted_answer=letter if answered else None,
        **labels,
    )


def _measure_of(wrong: Counts) -> RunCounts:
    return lambda runs: wrong[list(runs)]


def _is_worse(reference: NDArray[np.int64], run: NDArray[np.int64]) -> bool:
    """The decision of a two-sided test at 5%, as in `compare`, and only if the run is worse."""
    paired = paired_difference(run, reference, list(range(reference.size)))
    return paired.difference.mean > 0 and paired.p_value <= 0.05
