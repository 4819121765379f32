"""The letters of answers compared with the correct ones by a chi-square test."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import scipy  # submodules are imported on first use

from videomme_pipeline.benchmarks.question import Letter

BIASED_EFFECT = 0.3
"""Smallest effect size (Cohen's w, √(chi-square / n)) of a letter distribution that is reported."""
BIASED_P_VALUE = 0.001
"""Largest p-value of the chi-square test of a letter distribution that is reported."""


class LetterTest(NamedTuple):
    """The result of the test. `commonest_share` is the share of the most frequent letter."""

    answers: int
    summary: str
    effect: float
    p_value: float
    commonest_share: float

    @property
    def is_biased(self) -> bool:
        """True if the letters differ by more than chance, and by enough to matter."""
        return self.p_value < BIASED_P_VALUE and self.effect >= BIASED_EFFECT


def compare_letters(answers: Iterable[tuple[Letter, Letter | None]]) -> LetterTest | None:
    """The test of pairs of correct and given letter, or None if no letter is given.

    Pairs have to be of one repeat, because repeats of a question are not independent.
    """
    rows = [(correct, given) for correct, given in answers if given is not None]
    if not rows:
        return None
    correct, given = Counter(letter for letter, _ in rows), Counter(letter for _, letter in rows)
    letters = sorted(correct.keys() | given.keys())
    # A letter that is never correct is expected in less than one answer.
    chi_square = sum(
        (given[letter] - max(correct[letter], 0.5)) ** 2 / max(correct[letter], 0.5)
        for letter in letters
    )
    effect = (chi_square / len(rows)) ** 0.5
    p_value = float(scipy.special.chdtrc(max(len(letters) - 1, 1), chi_square))
    percent = 100 / len(rows)
    shares = ", ".join(
        f"{letter} {percent * given[letter]:.0f}% ({percent * correct[letter]:.0f}%)"
        for letter in letters
    )
    return LetterTest(
        len(rows),
        f"letters of {len(rows):,} answers (correct ones): {shares}; effect size {effect:.2f}, "
        f"p {p_value:.2g}",
        effect,
        p_value,
        max(given.values()) / len(rows),
    )
