"""Evaluations with other settings but the same answers, which are probably one run.

Two evaluations of one model agree on most answers for a good reason: both are right. What shows
that the settings had an effect is the rest, the informative answers: those to questions that at
least one of the two got wrong, and that were asked with different requests. Different frames,
subtitles or prompts change at least `MIN_CHANGED_SHARE` of them. A pair is the same if it has
so few different informative answers that this share would produce as few, or fewer, with a
probability below `SAME_P_VALUE`. So 341 informative answers without a difference are not enough,
and 342 are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # submodules are imported on first use
from numpy.typing import NDArray

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.scored_question import Answer, Outcome, ScoredQuestion

MIN_CHANGED_SHARE = 0.02
"""Share of the informative answers that settings with an effect change at least."""
SAME_P_VALUE = 0.001
"""A pair of evaluations is the same if the differences of the pair are less probable than this."""
MIN_INFORMATIVE = 342
"""Informative answers without a difference that are enough."""
_NO_ANSWER = -1
_UNREADABLE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sameness:
    """The comparison of the answers of two evaluations to different requests.

    `answers` counts the compared answers. `informative` counts the answers that at least one side
    got wrong. `different` counts the informative answers with different letters.
    """

    answers: int
    informative: int
    different: int

    @property
    def p_value(self) -> float:
        """The probability of so few differences, or fewer, if the settings had an effect."""
        return float(scipy.special.bdtr(self.different, self.informative, MIN_CHANGED_SHARE))

    @property
    def is_same(self) -> bool:
        """True if different settings do not explain so few differences."""
        return self.p_value < SAME_P_VALUE

    @property
    def fact(self) -> str:
        """The comparison as the object of a sentence."""
        return (
            f"the same letter in all but {self.different:,} of {self.informative:,} answers that "
            f"one of them got wrong ({self.answers:,} in all)"
        )


def same_pairs(
    runs: Sequence[Sequence[Answer | ScoredQuestion]], *, requests_are_stored: Sequence[bool]
) -> Iterator[tuple[int, int, Sameness]]:
    """Yield the positions of each pair of runs with the same answers, and the comparison.

    Answers to equal requests are left out. The requests of results files are not stored, so they
    count as different.
    """
    table = _AnswerTable(runs, requests_are_stored)
    for a, b in table.candidates():
        compared = table.compare(a, b)
        if compared.is_same:
            yield a, b, compared


class _AnswerTable:
    """The letters of several evaluations: one row per evaluation, one column per answer."""

    def __init__(
        self,
        runs: Sequence[Sequence[Answer | ScoredQuestion]],
        requests_are_stored: Sequence[bool],
    ) -> None:
        keys = dict.fromkeys((row.question_id, row.repeat) for rows in runs for row in rows)
        columns = {key: number for number, key in enumerate(keys)}
        codes = {letter: number for number, letter in enumerate(Letter, start=1)}
        requests: dict[str, int] = {}
        shape = (len(runs), len(columns))
        self._letters: NDArray[np.int8] = np.full(shape, _NO_ANSWER, np.int8)
        self._correct: NDArray[np.bool_] = np.zeros(shape, np.bool_)
        self._requests: NDArray[np.int32] = np.zeros(shape, np.int32)
        for number, rows in enumerate(runs):
            for row in rows:
                is_stored = requests_are_stored[number]
                request_id = row.request_fingerprint if is_stored else f"run {number}"
                if row.outcome is Outcome.FAILED or request_id is None:
                    continue
                column = columns[row.question_id, row.repeat]
                letter = row.extracted_answer
                self._letters[number, column] = _UNREADABLE if letter is None else codes[letter]
                self._correct[number, column] = row.outcome is Outcome.CORRECT
                request = requests.setdefault(request_id, len(requests) + 1)
                self._requests[number, column] = request

    def candidates(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs with few different letters. No other pair can be the same."""
        most = MIN_CHANGED_SHARE * self._letters.shape[1]
        for a, letters in enumerate(self._letters[:-1]):
            others = self._letters[a + 1 :]
            both = (letters != _NO_ANSWER) & (others != _NO_ANSWER)
            different = ((letters != others) & both).sum(axis=1)
            for b in np.flatnonzero(both.any(axis=1) & (different <= most)):
                yield a, a + 1 + int(b)

    def compare(self, a: int, b: int) -> Sameness:
        letters_a, letters_b = self._letters[a], self._letters[b]
        compared = (letters_a != _NO_ANSWER) & (letters_b != _NO_ANSWER)
        compared &= self._requests[a] != self._requests[b]
        informative = compared & ~(self._correct[a] & self._correct[b])
        return Sameness(
            answers=int(compared.sum()),
            informative=int(informative.sum()),
            different=int((informative & (letters_a != letters_b)).sum()),
        )
