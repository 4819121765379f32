"""Share of evaluations reported as the same, by accuracy and share of changed answers.

    python -m perf.sameness [--quick] [--json]

Simulates pairs of evaluations of one model. The second has the letters of the first, except for a
share of the answers, which get another letter: the effect of other frames or prompts. The share
differs between videos (a beta distribution with a correlation of 0.2), so changes are clustered. A
share of zero is a copied run.
"""

import argparse
import json
import sys
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from videomme_pipeline.scoring.findings.sameness import MIN_CHANGED_SHARE, SAME_P_VALUE

QUESTIONS = (270, 900, 2_700)
ACCURACIES = (0.3, 0.5, 0.7, 0.9, 0.97)
CHANGED = (0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05)
CORRELATION = 0.2
PER_VIDEO = 3
OPTIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 pairs of each kind")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args()
    pairs = 200 if options.quick else 5_000
    chance = np.random.default_rng(0)
    print("Share of pairs that are reported as the same (%), by share of changed answers")
    print(f"{'questions':>9} {'accuracy':>9}" + "".join(f"{100 * c:>8.1f}%" for c in CHANGED))
    rows = []
    for questions, accuracy in product(QUESTIONS, ACCURACIES):
        shares = [reported(chance, pairs, questions, accuracy, changed) for changed in CHANGED]
        rows.append({"questions": questions, "accuracy": accuracy, "reported": shares})
        cells = "".join(f"{100 * share:>9.2f}" for share in shares)
        print(f"{questions:>9,} {100 * accuracy:>8.0f}%{cells}")
    if options.json:
        sys.stdout.write(json.dumps({"pairs": pairs, "changed": CHANGED, "rows": rows}) + "\n")


def reported(
    chance: np.random.Generator, pairs: int, questions: int, accuracy: float, changed: float
) -> float:
    """The share of `pairs` simulated pairs that are reported as the same."""
    videos = questions // PER_VIDEO
    right = chance.random((pairs, questions)) < accuracy
    rates = np.repeat(_rates(chance, (pairs, videos), changed), PER_VIDEO, axis=1)
    differs = chance.random((pairs, questions)) < rates
    # A changed right answer is wrong. A changed wrong one is right in one of three cases.
    becomes_right = differs & ~right & (chance.random((pairs, questions)) < 1 / (OPTIONS - 1))
    still_right = (right & ~differs) | becomes_right
    informative = (~(right & still_right)).sum(axis=1)
    same = bdtr(differs.sum(axis=1), informative, MIN_CHANGED_SHARE) < SAME_P_VALUE
    return float(same.mean())


def _rates(chance: np.random.Generator, shape: tuple[int, int], mean: float) -> NDArray[np.float64]:
    """Shares of changed answers by video, with the given mean."""
    if mean == 0:
        return np.zeros(shape)
    weight = 1 / CORRELATION - 1
    return chance.beta(mean * weight, (1 - mean) * weight, shape)


if __name__ == "__main__":
    main()
