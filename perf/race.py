"""Races over simulated pairs of evaluations: false verdicts, videos until a verdict, agreement.

    python -m perf.race [--quick] [--json]

900 videos have three questions each. The answers of two runs differ by noise that the questions of
a video share in part, and that grows fivefold from the first to the last video of a race. Prints
how often two runs of one model get a verdict, after which share of the videos a true difference
is found, and how often the verdict is that of the whole benchmark. At the end, 100 gates of 50
questions compare unchanged models. All seeds are fixed.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from videomme_pipeline.scoring.statistics.estimates import paired_difference
from videomme_pipeline.scoring.statistics.gate import Verdict, check_difference
from videomme_pipeline.scoring.statistics.power import LEVEL
from videomme_pipeline.scoring.statistics.race import Look, plan_looks, stop_after

VIDEOS, PER_VIDEO = 900, 3
ACCURACY = 0.65
REPEAT_NOISE, MODEL_NOISE = 0.045, 0.11
"""Noise between two runs of one model (about 7.5% of the answers flip) and of similar models."""
MARGIN = 2.0

Answers = NDArray[np.bool_]


def simulate(
    chance: np.random.Generator, noise: float, drop: float = 0.0, videos: int = VIDEOS
) -> tuple[Answers, Answers]:
    """Right answers of two runs; the second has an accuracy that is lower by `drop` on average."""
    difficulty = 0.5 * chance.random((videos, 1)) + 0.5 * chance.random((videos, PER_VIDEO))
    growth = np.linspace(1 / 3, 5 / 3, videos)[:, None]
    scores = [
        difficulty
        + noise
        * growth
        * (
            np.sqrt(0.3) * chance.standard_normal((videos, 1))
            + np.sqrt(0.7) * chance.standard_normal((videos, PER_VIDEO))
        )
        for _ in range(2)
    ]
    return scores[0] > threshold(noise, ACCURACY), scores[1] > threshold(noise, ACCURACY - drop)


@cache
def threshold(noise: float, accuracy: float) -> float:
    """The score that a share of `accuracy` of all answers exceeds."""
    chance = np.random.default_rng(0)
    scores = (
        0.5 * chance.random(10**6)
        + 0.5 * chance.random(10**6)
        + noise * chance.uniform(1 / 3, 5 / 3, 10**6) * chance.standard_normal(10**6)
    )
    return float(np.quantile(scores, 1 - accuracy))


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict of a race, and after which share of the videos it stopped."""

    verdict: Verdict
    share: float


def race(baseline: Answers, candidate: Answers, looks: tuple[Look, ...], margin: float) -> Result:
    for number, look in enumerate(looks):
        clusters = np.repeat(np.arange(look.videos), PER_VIDEO).tolist()
        a, b = baseline[: look.videos].ravel(), candidate[: look.videos].ravel()
        check = check_difference(
            "accuracy", paired_difference(b, a, clusters), margin, levels=look.levels
        )
        if stop_after(check, looks[number:]):
            return Result(check.verdict, look.share)
    raise AssertionError("the last look stops every race")


def false_verdicts(races: int) -> dict[str, float]:
    """The share of races between two runs of one model that found a difference, by look."""
    looks = plan_looks(VIDEOS)
    chance = np.random.default_rng(1)
    counts: Counter[float] = Counter()
    flips = []
    for _ in range(races):
        baseline, candidate = simulate(chance, REPEAT_NOISE)
        flips.append(float(np.mean(baseline != candidate)))
        result = race(baseline, candidate, looks, 0.0)
        if result.verdict is not Verdict.UNDECIDED:
            counts[result.share] += 1
    shares = np.cumsum([counts[look.share] for look in looks]) / races
    until = {f"until {look.videos} videos": float(s) for look, s in zip(looks, shares, strict=True)}
    return {"flips": float(np.mean(flips)), **until}


def time_to_verdict(points: float, races: int) -> dict[str, float]:
    """The median share of the videos until a verdict, and the share of each verdict."""
    looks = plan_looks(VIDEOS)
    chance = np.random.default_rng(2)
    results, discordances = [], []
    for _ in range(races):
        baseline, candidate = simulate(chance, MODEL_NOISE, points / 100)
        discordances.append(float(np.mean(baseline != candidate)))
        results.append(race(baseline, candidate, looks, MARGIN))
    return {
        "discordance": float(np.mean(discordances)),
        "median share": float(np.median([result.share for result in results])),
        **{
            str(verdict): sum(result.verdict is verdict for result in results) / races
            for verdict in Verdict
        },
    }


def agreement(races: int) -> dict[str, float]:
    """The share of races that find the difference, or none, that a test of all videos finds.

    Pairs whose z on all videos is from 1.7 to 2.4 are left out: there, chance decides.
    """
    looks = plan_looks(VIDEOS)
    chance = np.random.default_rng(3)
    clusters = np.repeat(np.arange(VIDEOS), PER_VIDEO).tolist()
    same: list[bool] = []
    shares: list[float] = []
    while len(same) < races:
        pair = simulate(chance, MODEL_NOISE, chance.uniform(-0.08, 0.08))
        whole = paired_difference(pair[1].ravel(), pair[0].ravel(), clusters)
        assert whole.difference.standard_error is not None
        z = whole.difference.mean / whole.difference.standard_error
        if 1.7 <= abs(z) <= 2.4:
            continue
        result = race(*pair, looks, MARGIN)
        expected = np.sign(z) * (whole.p_value <= LEVEL)
        sign = {Verdict.BETTER: 1, Verdict.WORSE: -1}.get(result.verdict, 0)
        same.append(bool(sign == expected))
        shares.append(result.share)
    return {"pairs": races, "same": float(np.mean(same)), "mean share": float(np.mean(shares))}


def ci_runs(runs: int) -> dict[str, float]:
    """Gates of 50 questions on an unchanged model, and how many of them are red."""
    chance = np.random.default_rng(4)
    verdicts: Counter[Verdict] = Counter()
    for _ in range(runs):
        baseline, candidate = (a.ravel()[:50] for a in simulate(chance, REPEAT_NOISE, videos=17))
        paired = paired_difference(candidate, baseline, [n // PER_VIDEO for n in range(50)])
        verdicts[check_difference("accuracy", paired, MARGIN).verdict] += 1
    return {
        "runs": runs,
        "red": verdicts[Verdict.WORSE],
        "green or undecided": runs - verdicts[Verdict.WORSE],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the races")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    scale = 20 if arguments.quick else 1
    results = {
        "two runs of one model": false_verdicts(2000 // scale),
        "6 points": time_to_verdict(6, 400 // scale),
        "4 points": time_to_verdict(4, 400 // scale),
        "2 points": time_to_verdict(2, 400 // scale),
        "0 points": time_to_verdict(0, 400 // scale),
        "agreement with all videos": agreement(1000 // scale),
        "gates of 50 questions": ci_runs(100),
    }
    for name, values in results.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in values.items()))
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
