"""Alarms over nights, simulated: false alarms against the budget, nights until a drop is reported.

Every question has a chance of being right that stays the same from night to night: most are
nearly sure, the others are what flips between two runs of one model. Beside the policy stands
what one would do without it: a paired t-test against the baseline every night, at 5 %.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.scored_rows import scored
from videomme_pipeline.benchmarks.question import Duration, GroupType, Letter
from videomme_pipeline.scoring.nightly.alarm import (
    Counts,
    Measure,
    history_of,
    threshold_for,
    watch,
)
from videomme_pipeline.scoring.nightly.nights import (
    SHARING_THE_BUDGET,
    AlarmSpec,
    NightCheck,
    new_worse_cells,
    nights_for_each,
    watch_test,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import (
    minimal_detectable_effect,
    paired_difference,
)

UNSURE = 0.2
"""The share of questions whose answer is a toss-up."""
SURE = 0.02
"""How often the others come out differently."""
FAILED = 0.003
UNREADABLE = 0.02
"""Shares of the answers that never come, or hold no letter, on any night."""
VARIATION = 0.25
"""How far the chances of a toss-up lie from one half, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark of `videos` with `per_video` questions each, as one model answers it."""

    videos: int = 900
    per_video: int = 3

    def chances(self, generator: np.random.Generator) -> NDArray[np.float64]:
        """The chance of each question to be answered right."""
        kinds = generator.random(self.videos * self.per_video)
        spread = generator.uniform(-VARIATION, VARIATION, kinds.size)
        sure = np.where(kinds < (1 + UNSURE) / 2 + 0.1, 1 - SURE, SURE)
        chances = np.where(kinds < UNSURE, 0.5 + spread, sure)
        return chances.reshape(self.videos, self.per_video)

    @property
    def discordance(self) -> float:
        """How often two runs differ in right or wrong."""
        toss_up = 0.5 - 2 * VARIATION**2 / 3
        return UNSURE * toss_up + (1 - UNSURE) * 2 * SURE * (1 - SURE)

    @property
    def detectable_drop(self) -> float:
        """What one comparison of two runs finds with 80 % power at 5 %."""
        return minimal_detectable_effect(
            questions=self.videos * self.per_video,
            videos=self.videos,
            discordance=self.discordance,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What came of some histories. Delays count nights, 1 for the first night of the drop."""

    nights: int
    alarms: int
    alarms_of_t_test: int
    worst_history: int
    worst_history_of_t_test: int
    median_delay: float
    mean_delay: float
    missed: int


def simulate(  # noqa: PLR0913 - one simulation's settings, each by name
    benchmark: Benchmark,
    *,
    drop: float,
    changes_at: int,
    nights: int,
    histories: int,
    budget: float,
    seed: int,
) -> Simulated:
    """`histories` times a baseline and `nights`; from night `changes_at` accuracy is lower."""
    threshold = threshold_for(budget)
    alarms, naive, delays = [], [], []
    for number in range(histories):
        generator = np.random.default_rng([seed, number])
        chances = benchmark.chances(generator)
        lower = chances * (1 - drop / chances.mean())
        wrong = np.stack(
            [
                (generator.random(chances.shape) >= (chances if night < changes_at else lower))
                .sum(axis=1)
                .astype(np.int64)
                for night in range(nights + 1)
            ]
        )
        watched = watch(_rows_of(wrong), np.ones_like(wrong, bool), threshold)
        alarms.append(sum(night.is_new for night in watched))
        naive.append(sum(_is_worse(wrong[0], night) for night in wrong[1:]))
        found = [place for place, night in enumerate(watched, start=1) if night.in_alarm]
        after = [place - changes_at + 1 for place in found if place >= changes_at]
        delays.append(after[0] if after else None)
    seen = [delay for delay in delays if delay is not None]
    return Simulated(
        nights=nights * histories,
        alarms=sum(alarms),
        alarms_of_t_test=sum(naive),
        worst_history=max(alarms),
        worst_history_of_t_test=max(naive),
        median_delay=median(seen) if seen else float(nights),
        mean_delay=sum(seen) / len(seen) if seen else float(nights),
        missed=delays.count(None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNights:
    """What came of nights on which nothing changed, with every test of the default policy.

    `false_alarms` are nights on which any test found something new; `by_test` counts each.
    """

    nights: int
    allowed: float
    false_alarms: int
    worst_history: int
    by_test: dict[str, int]


def draw_history(
    generator: np.random.Generator, benchmark: Benchmark, nights: int, *, v2: bool
) -> list[list[ScoredQuestion]]:
    """A baseline and `nights` as rows: right, wrong, now and then unreadable or failed.

    Wrong letters flip too; the labels are those of the real benchmarks' shape.
    """
    chances = benchmark.chances(generator)
    observations = []
    for _ in range(nights + 1):
        right = generator.random(chances.shape) < chances
        odd = generator.random(chances.shape)
        letters = generator.integers(0, 3, chances.shape)
        observations.append(
            [
                _row(video, place, bool(right[video, place]), odd[video, place], letters, v2=v2)
                for video in range(benchmark.videos)
                for place in range(benchmark.per_video)
            ]
        )
    return observations


def new_alarms(
    observations: Sequence[Sequence[ScoredQuestion]], spec: AlarmSpec
) -> dict[str, list[bool]]:
    """For every test that shares the budget: on which nights it found something new."""
    history = history_of(observations)
    nights = nights_for_each(spec, history)
    by_accuracy = watch_test(NightCheck.ACCURACY, history, nights)
    found: dict[str, list[bool]] = {}
    for check in SHARING_THE_BUDGET:
        if check is NightCheck.GROUP_SCORE and not history.has_groups:
            continue
        if check is NightCheck.MARGINALS:
            found[check.value] = [
                new_worse_cells(history, by_accuracy, row, nights)[1]
                for row in range(1, len(observations))
            ]
        else:
            watched = watch_test(check, history, nights)
            found[check.value] = [night.is_new for night in watched]
    return found


def simulate_whole_nights(
    benchmark: Benchmark, *, nights: int, histories: int, seed: int, v2: bool
) -> WholeNights:
    """`histories` times a baseline and `nights` of an unchanged model under the default policy."""
    spec = AlarmSpec()
    by_test: Counter[str] = Counter()
    alarms = []
    for number in range(histories):
        rows = draw_history(np.random.default_rng([seed, number]), benchmark, nights, v2=v2)
        found = new_alarms(rows, spec)
        by_test.update({check: sum(nights_of) for check, nights_of in found.items()})
        alarms.append(sum(any(at) for at in zip(*found.values(), strict=True)))
    return WholeNights(
        nights=nights * histories,
        allowed=nights * histories / spec.nights_per_false_alarm,
        false_alarms=sum(alarms),
        worst_history=max(alarms),
        by_test=dict(by_test),
    )


def _row(  # noqa: PLR0913 - a row is drawn from all of these
    video: int, place: int, right: bool, odd: float, letters: Counts, *, v2: bool
) -> ScoredQuestion:
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    if odd < FAILED:
        outcome = Outcome.FAILED
    elif odd < FAILED + UNREADABLE:
        outcome = Outcome.UNREADABLE
    answered = outcome in (Outcome.CORRECT, Outcome.INCORRECT)
    letter = Letter.A if right else list(Letter)[1 + int(letters[video, place])]
    labels: dict[str, Any] = (
        {
            "group_type": (GroupType.RELEVANCE, GroupType.LOGIC)[video % 3 == 0],
            "group_structure": "4" if video % 3 else "[1,2,3,4]",
            "level": 1 + video % 3,
            "second_head": f"head {video % 12}",
            "third_head": f"head {video % 30}",
        }
        if v2
        else {
            "domain": f"domain {video % 6}",
            "sub_category": f"category {video % 30}",
            "task_type": f"task {(video + place) % 12}",
            "duration": tuple(Duration)[video % 3],
        }
    )
    return scored(
        f"{video:03d}-{place + 1}",
        outcome,
        video_id=f"{video:03d}",
        extracted_answer=letter if answered else None,
        **labels,
    )


def _rows_of(wrong: Counts) -> Measure:
    return lambda rows: wrong[list(rows)]


def _is_worse(baseline: NDArray[np.int64], night: NDArray[np.int64]) -> bool:
    """Two-sided at 5 %, as `compare` would say it, and only when worse."""
    found = paired_difference(night, baseline, list(range(baseline.size)))
    return found.difference.mean > 0 and found.p_value <= 0.05


def main() -> None:
    """Print the tables; `--json` prints one object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the histories")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    results: dict[str, dict[str, Any]] = {}
    for name, benchmark in {
        "900 videos": Benchmark(),
        "300 videos": Benchmark(videos=300),
    }.items():
        still = simulate(
            benchmark, drop=0, changes_at=1, nights=60, histories=50 // scale, budget=60, seed=1
        )
        results[f"{name}, unchanged"] = asdict(still)
        print(
            f"{name}: {still.nights:,} unchanged nights, budget {still.nights / 60:.0f}: "
            f"{still.alarms} alarms (at most {still.worst_history} in 60 nights); "
            f"t-test a night: {still.alarms_of_t_test} ({still.worst_history_of_t_test})"
        )
        for share, budget in ((1.0, 60.0), (1.0, 300.0), (0.5, 60.0), (0.5, 300.0)):
            for start in (1, 11):
                drop = share * benchmark.detectable_drop
                found = simulate(
                    benchmark,
                    drop=drop,
                    changes_at=start,
                    nights=start + 14,
                    histories=30 // scale,
                    budget=budget,
                    seed=2,
                )
                results[f"{name}, drop {share:g}, budget {budget:g}, night {start}"] = asdict(found)
                print(
                    f"  drop of {drop:.2%} ({share:g} of the detectable one) from night {start}, "
                    f"one false alarm in {budget:.0f} nights: reported after "
                    f"{found.median_delay:g} nights (median; mean {found.mean_delay:.1f}), "
                    f"{found.missed} of {30 // scale} not within 15"
                )
    for name, benchmark, v2 in (
        ("v1, 100 videos", Benchmark(videos=100), False),
        ("v2, 60 groups", Benchmark(videos=60, per_video=4), True),
    ):
        whole = simulate_whole_nights(benchmark, nights=60, histories=34 // scale, seed=3, v2=v2)
        results[f"{name}, every test"] = asdict(whole)
        print(
            f"{name}: {whole.nights:,} unchanged nights with every test of the default policy: "
            f"{whole.false_alarms} false alarms, {whole.allowed:.0f} allowed "
            f"(at most {whole.worst_history} in 60 nights; {whole.by_test})"
        )
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
