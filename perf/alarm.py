"""Alarms over simulated nightly runs: false alarms against the budget, power against the optimum.

    python -m perf.alarm [--quick] [--json] [--thresholds]

Prints the alarms of an unchanged model, the drops that are reported within 21 runs next to the best
possible test, the false alarms of all tests of the default policy, and a drop that the accuracy
hides. For comparison, the alarms without the policy are printed too: a paired t-test against the
reference after every run, at 5%.
`--thresholds` prints the table `THRESHOLDS` of `scoring/nightly/alarm.py` instead.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

import numpy as np

from tests.support.simulated_runs import (
    SimulatedBenchmark,
    optimal_power,
    simulate_alarms,
    simulate_checks,
    simulate_hidden_drop,
    simulate_thresholds,
)
from videomme_pipeline.scoring.nightly.alarm import THRESHOLD_RUNS, THRESHOLDS
from videomme_pipeline.scoring.nightly.policy import BUDGET_SHARES, NightlyCheck

RUNS = 60
BUDGET = 60.0
POWER_RUNS = 21
V1_SHARES = sum(
    share for check, share in BUDGET_SHARES.items() if check is not NightlyCheck.GROUP_SCORE
)
ACCURACY_BUDGET = BUDGET * V1_SHARES / BUDGET_SHARES[NightlyCheck.ACCURACY]
"""Runs per false alarm of the accuracy test, if all tests of v1 are on."""
CASES = {
    "first run": (1, 1),
    "first run, reference_repeats: 3": (1, 3),
    "first run, reference_repeats: 5": (1, 5),
    "first run, reference_repeats: 10": (1, 10),
    "after 10 runs": (11, 1),
    "after 20 runs": (21, 1),
    "after 30 runs": (31, 1),
}
"""The run with which a drop begins, and the number of references."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a thirtieth of the histories")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--thresholds", action="store_true", help="only the table of thresholds")
    arguments = parser.parse_args()
    scale = 30 if arguments.quick else 1
    if arguments.thresholds:
        show_thresholds(histories=30_000 // scale)
        return
    results: dict[str, dict[str, Any]] = {}
    for videos in (900, 300, 100):
        benchmark = SimulatedBenchmark(videos=videos)
        results |= measure_unchanged(benchmark, histories=50 // scale)
    results |= measure_power(SimulatedBenchmark(videos=100), histories=300 // scale)
    for name, benchmark, v2 in (
        ("v1, 100 videos", SimulatedBenchmark(videos=100), False),
        ("v2, 60 groups", SimulatedBenchmark(videos=60, per_video=4), True),
    ):
        results |= measure_checks(name, benchmark, histories=34 // scale, v2=v2)
    results |= measure_hidden_drop(SimulatedBenchmark(videos=100), histories=30 // scale)
    if arguments.json:
        print(json.dumps(results))


def show_thresholds(histories: int) -> None:
    budgets, runs = sorted(THRESHOLDS), max(THRESHOLD_RUNS)
    cold, warm = (
        simulate_thresholds(budgets, runs=runs, pool_sizes=pool_sizes, histories=histories)
        for pool_sizes in (1, 40)
    )
    for budget, row in zip(budgets, np.maximum(cold, warm), strict=True):
        near = [row[run - 1 - run // 4 : run + run // 4] for run in THRESHOLD_RUNS]
        print(budget, [round(float(values.mean()), 1) for values in near], flush=True)


def measure_unchanged(benchmark: SimulatedBenchmark, histories: int) -> dict[str, dict[str, Any]]:
    result = simulate_alarms(
        benchmark,
        drop=0,
        changes_at=1,
        runs=3 * RUNS,
        histories=histories,
        budget=BUDGET,
        seed=1,
    )
    print(
        f"{benchmark.videos} videos: {result.runs:,} unchanged runs, budget "
        f"{result.runs / BUDGET:.0f}: {result.alarms} alarms (at most {result.worst_history} in "
        f"{3 * RUNS} runs); t-test after every run: {result.alarms_of_t_test} "
        f"({result.worst_history_of_t_test})",
        flush=True,
    )
    return {f"{benchmark.videos} videos, unchanged": asdict(result)}


def measure_power(benchmark: SimulatedBenchmark, histories: int) -> dict[str, dict[str, Any]]:
    results = {}
    questions = benchmark.videos * benchmark.per_video
    for drop in (0.01, 0.02):
        print(f"{questions} questions, drop of {drop:.0%}, reported within {POWER_RUNS} runs:")
        for name, (start, references) in CASES.items():
            optimum = optimal_power(
                benchmark,
                drop=drop,
                runs=POWER_RUNS,
                budget=BUDGET,
                references=references if start == 1 else None,
            )
            result = simulate_alarms(
                benchmark,
                drop=drop,
                changes_at=start,
                runs=start + POWER_RUNS - 1,
                histories=histories,
                budget=ACCURACY_BUDGET,
                seed=2,
                references=references,
            )
            print(
                f"  {name}: {result.power:.0%} (best possible test {optimum:.0%}), after "
                f"{result.median_delay:g} runs (median)",
                flush=True,
            )
            results[f"{questions} questions, drop {drop:g}, {name}"] = asdict(result) | {
                "power": result.power,
                "optimum": optimum,
            }
    return results


def measure_hidden_drop(benchmark: SimulatedBenchmark, histories: int) -> dict[str, dict[str, Any]]:
    shares = simulate_hidden_drop(benchmark, changes_at=7, runs=16, histories=histories, seed=7)
    print(
        "one of twelve task types loses half of its right answers, and two gain as many: reported "
        f"within 10 runs in {shares[True]:.0%}, without `marginals` in {shares[False]:.0%}",
        flush=True,
    )
    return {"hidden drop": {"with marginals": shares[True], "without": shares[False]}}


def measure_checks(
    name: str, benchmark: SimulatedBenchmark, histories: int, *, v2: bool
) -> dict[str, dict[str, Any]]:
    result = simulate_checks(benchmark, runs=RUNS, histories=histories, seed=3, v2=v2)
    print(
        f"{name}: {result.runs:,} unchanged runs with every test of the default policy: "
        f"{result.false_alarms} false alarms, {result.allowed:.0f} allowed "
        f"(at most {result.worst_history} in {RUNS} runs; {result.by_test})",
        flush=True,
    )
    return {f"{name}, every test": asdict(result)}


if __name__ == "__main__":
    main()
