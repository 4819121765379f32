"""Evaluations with other settings but the same answers, which are probably one run.

Two evaluations of one model agree on most answers for a good reason: both are right. What shows
that the settings had an effect is the rest, the informative answers: those to questions that at
least one of the two got wrong, and that were asked with different requests. A pair is the same if
settings that change a share of `MIN_CHANGED_SHARE` of them would leave as few different ones, or
fewer, with a probability below `SAME_P_VALUE`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # submodules are imported on first use
from numpy.typing import NDArray

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.scored_question import Answer, Outcome, ScoredQuestion

MIN_CHANGED_SHARE = 0.02
"""Different frames, subtitles or prompts change at least this share of informative answers."""
SAME_P_VALUE = 0.001
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
    letters, correct, requests = _tables(runs, requests_are_stored)
    answered = letters != _NO_ANSWER
    for a, own in enumerate(letters[:-1]):
        both = answered[a] & answered[a + 1 :]
        different = ((own != letters[a + 1 :]) & both).sum(axis=1)
        # No pair with more different letters can be the same.
        may_be_same = both.any(axis=1) & (different <= MIN_CHANGED_SHARE * own.size)
        for b in (a + 1 + np.flatnonzero(may_be_same)).tolist():
            compared = answered[a] & answered[b] & (requests[a] != requests[b])
            informative = compared & ~(correct[a] & correct[b])
            sameness = Sameness(
                answers=int(compared.sum()),
                informative=int(informative.sum()),
                different=int((informative & (own != letters[b])).sum()),
            )
            if sameness.is_same:
                yield a, b, sameness


def _tables(
    runs: Sequence[Sequence[Answer | ScoredQuestion]], requests_are_stored: Sequence[bool]
) -> tuple[NDArray[np.int8], NDArray[np.bool_], NDArray[np.int32]]:
    """Letters, right answers and requests: one row per run, one column per answer."""
    keys = dict.fromkeys((row.question_id, row.repeat) for rows in runs for row in rows)
    columns = {key: number for number, key in enumerate(keys)}
    codes = {letter: number for number, letter in enumerate(Letter, start=1)}
    numbers: dict[str, int] = {}
    letters = np.full((len(runs), len(columns)), _NO_ANSWER, np.int8)
    correct = np.zeros(letters.shape, np.bool_)
    requests = np.zeros(letters.shape, np.int32)
    for run, (rows, is_stored) in enumerate(zip(runs, requests_are_stored, strict=True)):
        for row in rows:
            request_id = row.request_fingerprint if is_stored else f"run {run}"
            if row.outcome is Outcome.FAILED or request_id is None:
                continue
            answer = run, columns[row.question_id, row.repeat]
            letter = row.extracted_answer
            letters[answer] = _UNREADABLE if letter is None else codes[letter]
            correct[answer] = row.outcome is Outcome.CORRECT
            requests[answer] = numbers.setdefault(request_id, len(numbers) + 1)
    return letters, correct, requests
