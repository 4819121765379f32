"""Alarms over simulated nightly runs: false alarms against the budget, delay until a drop.

    python -m perf.alarm [--quick] [--json]

Prints the alarms of an unchanged model, the delay after drops of several sizes, and the false
alarms of all tests of the default policy. For comparison, the alarms without the policy are
printed too: a paired t-test against the baseline after every run, at 5%.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

from tests.support.simulated_runs import SimulatedBenchmark, simulate_alarms, simulate_checks

NIGHTS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the histories")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    results: dict[str, dict[str, Any]] = {}
    for name, benchmark in {
        "900 videos": SimulatedBenchmark(),
        "300 videos": SimulatedBenchmark(videos=300),
    }.items():
        results |= measure_unchanged(name, benchmark, histories=50 // scale)
        results |= measure_drops(name, benchmark, histories=30 // scale)
    for name, benchmark, v2 in (
        ("v1, 100 videos", SimulatedBenchmark(videos=100), False),
        ("v2, 60 groups", SimulatedBenchmark(videos=60, per_video=4), True),
    ):
        results |= measure_checks(name, benchmark, histories=34 // scale, v2=v2)
    if arguments.json:
        print(json.dumps(results))


def measure_unchanged(
    name: str, benchmark: SimulatedBenchmark, histories: int
) -> dict[str, dict[str, Any]]:
    found = simulate_alarms(
        benchmark,
        drop=0,
        changes_at=1,
        nights=NIGHTS,
        histories=histories,
        budget=NIGHTS,
        seed=1,
    )
    print(
        f"{name}: {found.nights:,} unchanged runs, budget {found.nights / NIGHTS:.0f}: "
        f"{found.alarms} alarms (at most {found.worst_history} in {NIGHTS} runs); "
        f"t-test after every run: {found.alarms_of_t_test} ({found.worst_history_of_t_test})"
    )
    return {f"{name}, unchanged": asdict(found)}


def measure_drops(
    name: str, benchmark: SimulatedBenchmark, histories: int
) -> dict[str, dict[str, Any]]:
    results = {}
    for share, budget in ((1.0, 60.0), (1.0, 300.0), (0.5, 60.0), (0.5, 300.0)):
        for start in (1, 11):
            drop = share * benchmark.detectable_drop
            found = simulate_alarms(
                benchmark,
                drop=drop,
                changes_at=start,
                nights=start + 14,
                histories=histories,
                budget=budget,
                seed=2,
            )
            print(
                f"  drop of {drop:.2%} ({share:g} of the detectable one) from run {start}, one "
                f"false alarm in {budget:.0f} runs: reported after {found.median_delay:g} runs "
                f"(median; mean {found.mean_delay:.1f}), {found.missed} of {histories} not within "
                "15"
            )
            results[f"{name}, drop {share:g}, budget {budget:g}, night {start}"] = asdict(found)
    return results


def measure_checks(
    name: str, benchmark: SimulatedBenchmark, histories: int, *, v2: bool
) -> dict[str, dict[str, Any]]:
    found = simulate_checks(benchmark, nights=NIGHTS, histories=histories, seed=3, v2=v2)
    print(
        f"{name}: {found.nights:,} unchanged runs with every test of the default policy: "
        f"{found.false_alarms} false alarms, {found.allowed:.0f} allowed "
        f"(at most {found.worst_history} in {NIGHTS} runs; {found.by_test})"
    )
    return {f"{name}, every test": asdict(found)}


if __name__ == "__main__":
    main()
