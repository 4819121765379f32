"""Evaluations with other settings but the same answers, which are probably one run.

Two evaluations of one model agree on most answers for a good reason: both are right. What shows
that the settings had an effect is the rest, the informative answers: those to questions that at
least one of the two got wrong, and that were asked with different requests. Different frames,
subtitles or prompts change at least `MIN_CHANGED_SHARE` of them. A pair is the same if it has
so few different informative answers that this share would produce as few, or fewer, with a
probability below `SAME_P_VALUE`. So 341 informative answers without a difference are not enough,
and 342 are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # submodules are imported on first use
from numpy.typing import NDArray

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.audit.citation_checks import (
    Answer,
    CheckResult,
    CitationEvidence,
    Status,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import changed_settings

MIN_CHANGED_SHARE = 0.02
"""Share of the informative answers that settings with an effect change at least."""
SAME_P_VALUE = 0.001
"""A pair of evaluations is the same if the differences of the pair are less probable than this."""
SHOWN_SETTINGS = frozenset({"sampling", "alignment", "template"})
"""Settings that change what the model is shown. Others may have no effect for a good reason: one
model under two names, or a token limit that no answer reaches."""
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


def same_pairs(
    answers: Sequence[Sequence[Answer | ScoredQuestion]], *, requests_are_stored: bool
) -> Iterator[tuple[int, int, Sameness]]:
    """Yield the positions of each pair of runs with the same answers, and the comparison.

    Answers to equal requests are left out, unless the requests are not stored (results files).
    """
    table = _AnswerTable(answers, requests_are_stored=requests_are_stored)
    for a, b in table.candidates():
        compared = table.compare(a, b)
        if compared.is_same:
            yield a, b, compared


def same_answers_fact(same: Sameness, names: tuple[str, str]) -> str:
    """The sentence about two runs with the same answers."""
    return (
        f"{names[0]} and {names[1]} have the same letter in all but {same.different:,} of "
        f"{same.informative:,} answers that one of them got wrong, so they are probably one run; "
        "cite only one of these scores"
    )


def sameness_findings(evaluations: Sequence[CitationEvidence]) -> dict[str, CheckResult]:
    """The finding of every evaluation that can be compared, by name.

    All `evaluations` must be of one benchmark.
    """
    same: dict[int, list[tuple[int, Sameness]]] = {}
    answers = [evaluation.answers for evaluation in evaluations]
    for a, b, compared in same_pairs(answers, requests_are_stored=True):
        same.setdefault(a, []).append((b, compared))
        same.setdefault(b, []).append((a, compared))
    if len(evaluations) < 2:
        return {}
    return {
        evaluation.evaluation: _finding(evaluations, index, same.get(index, []))
        for index, evaluation in enumerate(evaluations)
    }


def _finding(
    evaluations: Sequence[CitationEvidence], index: int, same: Sequence[tuple[int, Sameness]]
) -> CheckResult:
    own = evaluations[index]
    if not same:
        if own.answered and all(row.request_fingerprint is None for row in own.answered):
            return CheckResult(
                Status.UNKNOWN,
                "the fingerprints of its requests are not stored",
                f"{own.run_again}; no question is asked again",
            )
        summary = f"none of {len(evaluations) - 1:,} others has provably the same answers"
        return CheckResult(Status.OK, summary)
    sentences, shown_differs = [], False
    for other, compared in same:
        settings = _changed(own.specification, evaluations[other].specification)
        shown_differs |= bool(SHOWN_SETTINGS & settings)
        sentences.append(
            f"{evaluations[other].evaluation} has the same letter in all but "
            f"{compared.different:,} of {compared.informative:,} answers that one of them got "
            f"wrong ({compared.answers:,} in all), although other settings were used "
            f"({', '.join(sorted(settings)) or 'other requests'})"
        )
    return CheckResult(
        Status.BLOCKED if shown_differs else Status.WARNING,
        "; ".join(sentences),
        "see that the endpoint used what was sent (frames, subtitles), and that no "
        "responses were copied; cite only one of these scores",
    )


def _changed(a: Mapping[str, object], b: Mapping[str, object]) -> set[str]:
    """The stages whose settings differ."""
    return {setting.key.partition(".")[0] for setting in changed_settings(a, b)}


class _AnswerTable:
    """The letters of several evaluations: one row per evaluation, one column per answer."""

    def __init__(
        self, runs: Sequence[Sequence[Answer | ScoredQuestion]], *, requests_are_stored: bool
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
                request_id = row.request_fingerprint if requests_are_stored else str(number)
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
