"""Is tonight worse than the nights before? A test for every night, and a budget of false alarms.

Observation 0 is the baseline, every other one is a night: the same evaluation asked again. As
long as nothing changed, all observations of a video are exchangeable: each could have come in any
order. Two steps follow from that alone.

1. The p-value of a night. Given everything that was observed of each video, but not in which
   order, tonight's total is a sum of independent draws, one per video, each uniform over what was
   observed of it. Its distribution is computed, not approximated. For the first night this is the
   sign-flip test against the baseline; then the reference grows by every night, so that a lucky
   baseline does not alarm night after night. These p-values are independent over the nights
   (conformal p-values: Vovk, Nouretdinov & Gammerman, "Testing exchangeability on-line", 2003).
2. The alarm. Each p-value is a bet against "nothing changed" (an e-value, whose mean is at most 1
   while that is true), and the bets run through a CUSUM: evidence = bet × max(evidence, 1). A large
   drop alarms at once, a small one when its nights have added up (Page, "Continuous inspection
   schemes", 1954; for such p-values Vovk, "Testing randomness", arXiv 1906.09256; Shin,
   Ramdas & Rinaldo, "E-detectors", NEJSDS). Since the p-values are independent
   and uniform, the mean number of nights to a false alarm follows from the threshold alone, at any
   noise level; it is computed (Brook & Evans, "An approach to the probability distribution of
   CUSUM run length", 1972) and the threshold chosen for the budget.

Pure functions over scored rows. Who asks, what is stored and whom it is told is not here; which
numbers two evaluations are compared by belongs to `compare`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import V1_MARGINALS, V2_MARGINALS
from videomme_pipeline.scoring.statistics.estimates import benjamini_hochberg
from videomme_pipeline.scoring.statistics.groups import score_groups

SHIFTS = (1.0, 2.0, 3.0)
"""Drops, in standard errors of one night, that the e-value bets on in equal parts."""

RECOVERED_ABOVE = 0.2
"""An alarm ends with the first night whose p-value is above this."""

_GROUP_UNITS = 240
"""A group score of 100 in units of which every group score is a whole number."""

_OUTCOMES = list(Outcome)
_LETTER_NAMES = list(Letter)
_LETTERS = 1 + len(_LETTER_NAMES)

_STEPS = 150
"""Parts that evidence below the threshold is divided into to compute run lengths."""

_LEAST_P_VALUE = 1e-12
"""What rounding leaves of smaller ones means nothing."""

Counts = NDArray[np.int64]
"""Whole numbers, one row per observation and one column per video."""

Held = NDArray[np.bool_]
"""In which observations a video was asked and answered completely; shaped like `Counts`."""

Measure = Callable[[Sequence[int]], Counts]
"""What is counted of every video in some observations (rows of the history), worse is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One night as the policy sees it.

    `p_value` is how often an unchanged model gives a night as bad as this one; `evidence` what
    has added up so far. While `in_alarm`, `since` is the row of the first night that seems to
    be part of the change; `is_new` marks the night that raised the alarm. `reference` are the
    rows that the night was compared with.
    """

    p_value: float
    evidence: float
    in_alarm: bool
    is_new: bool
    since: int | None
    reference: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One marginal of tonight: its p-value, and whether it holds after Benjamini–Hochberg."""

    column: str
    value: str
    tonight: float
    before: float
    adjusted_p_value: float
    significant: bool


def night_p_value(values: Counts, held: Held) -> float:
    """How often a night as bad as the last row comes about while nothing changed.

    `values` are worse when larger. A video counts when its last row is held; its other rows
    then stand beside it as far as they are held. 1.0 where no video ever differed.
    """
    counts = held.sum(axis=0)
    with_others = held[-1] & (counts > 1)
    values, held, counts = values[:, with_others], held[:, with_others], counts[with_others]
    far = np.iinfo(np.int64).max
    lowest = np.where(held, values, far).min(axis=0, initial=far)
    steps = np.where(held, values - lowest, 0)
    varies = steps.max(axis=0, initial=0) > 0
    steps, held, counts = steps[:, varies], held[:, varies], counts[varies]
    if not counts.size:
        return 1.0
    chances = np.zeros((counts.size, int(steps.max()) + 1))
    videos = np.broadcast_to(np.arange(counts.size), steps.shape)
    np.add.at(chances, (videos[held], steps[held]), 1.0)
    totals = distribution_of_sum(chances / counts[:, None])
    return float(np.clip(totals[int(steps[-1].sum()) :].sum(), _LEAST_P_VALUE, 1.0))


def distribution_of_sum(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution of a sum of independent whole numbers.

    `chances[i, k]` is the chance that number i is k. Pairs are added until one is left, each
    time by one Fourier transform over all pairs.
    """
    held = chances
    while len(held) > 1:
        if len(held) % 2:
            certain_zero = np.zeros((1, held.shape[1]))
            certain_zero[0, 0] = 1.0
            held = np.concatenate((held, certain_zero))
        points = 2 * held.shape[1] - 1
        spectra = np.fft.rfft(held, points, axis=1)
        held = np.fft.irfft(spectra[::2] * spectra[1::2], points, axis=1)
    total: NDArray[np.float64] = held[0]
    return total


def e_value(p_value: float) -> float:
    """A bet against "nothing changed": its mean is at most 1 while that is true."""
    return float(_bet(np.array([-ndtri(p_value)]))[0])


def nights_to_false_alarm(threshold: float) -> float:
    """The mean number of nights until evidence reaches `threshold` while nothing changed.

    The logarithm of the evidence, in steps, is a Markov chain that ends in the alarm. p-values
    that are not quite uniform (few answers ever differ) are too large: more nights, never fewer.
    """
    edges = np.linspace(0.0, np.log(threshold), _STEPS + 1)
    middles = np.concatenate(([0.0], (edges[:-1] + edges[1:]) / 2))
    normals = np.linspace(-9.0, 9.0, 4_001)
    bets = np.log(_bet(normals))
    below = ndtr(np.interp(edges[None, :] - middles[:, None], bets, normals))
    stays = np.column_stack((below[:, 0], np.diff(below, axis=1)))
    nights = np.linalg.solve(np.eye(len(middles)) - stays, np.ones(len(middles)))
    return float(nights[0])


@cache
def threshold_for(nights: float) -> float:
    """The evidence that raises an alarm, for one false alarm in so many nights on average."""
    found = brentq(
        lambda logarithm: nights_to_false_alarm(float(np.exp(logarithm))) - nights,
        0.01,
        np.log(2 * nights),
        xtol=1e-4,
    )
    return float(np.exp(found))


def watch(measure: Measure, held: Held, threshold: float) -> list[Night]:
    """Every night in turn: `held` has a row per observation, the baseline first.

    Nights that belong to an alarm leave the reference, so that a drop that lasts is held
    against the time before it. After an alarm has ended, evidence starts from nothing.
    """
    reference, suspects = [0], list[int]()
    evidence, in_alarm = 0.0, False
    since: int | None = None
    nights = []
    for row in range(1, len(held)):
        before = tuple(reference)
        rows = [*before, row]
        p_value = night_p_value(measure(rows), held[rows])
        was_in_alarm = in_alarm
        if was_in_alarm:
            in_alarm = p_value <= RECOVERED_ABOVE
            if not in_alarm:
                evidence, since = 0.0, None
        else:
            evidence = e_value(p_value) * max(evidence, 1.0)
            suspects = [*suspects, row] if evidence > 1 else []
            in_alarm = evidence >= threshold
        if in_alarm and not was_in_alarm:
            since = suspects[0]
            reference = [held_row for held_row in reference if held_row not in suspects]
            suspects = []
        elif not in_alarm:
            reference.append(row)
        nights.append(
            Night(
                p_value=p_value,
                evidence=evidence,
                in_alarm=in_alarm,
                is_new=in_alarm and not was_in_alarm,
                since=since,
                reference=before,
            )
        )
    return nights


@dataclass(frozen=True, slots=True)
class History:
    """What was observed of one evaluation, in numbers: rows are observations, the baseline first.

    Columns of `answers` are all questions ever asked (samples apart), `-1` where one got no
    answer; `videos` and `labels` say whose they are. `missed` is what the v2 group of each video
    lacks of 100 points, in 240ths, and `whole` where it was answered completely.
    """

    answers: Counts
    videos: Counts
    labels: dict[str, NDArray[np.str_]]
    missed: Counts
    whole: Held

    @property
    def held(self) -> Held:
        """Videos whose questions were all answered, by observation."""
        held: Held = self._by_video(self.answers < 0) == 0
        return held

    @property
    def has_groups(self) -> bool:
        return bool(np.any(self.whole))

    def wrong(self, rows: Sequence[int], only: NDArray[np.bool_] | None = None) -> Counts:
        """Answers of each video that are not right; those to the questions of `only`."""
        wrong = self.answers[list(rows)] // _LETTERS != _OUTCOMES.index(Outcome.CORRECT)
        return self._by_video(wrong if only is None else wrong & only)

    def unreadable(self, rows: Sequence[int]) -> Counts:
        """Answers of each video without a letter."""
        unreadable = _OUTCOMES.index(Outcome.UNREADABLE)
        return self._by_video(self.answers[list(rows)] // _LETTERS == unreadable)

    def unusual(self, rows: Sequence[int]) -> Counts:
        """Answers of each video that are not the one given most often in `rows`.

        Between a baseline and one night nothing is usual yet: how often an unchanged model
        flips is learned from the nights themselves.
        """
        answers = self.answers[list(rows)]
        codes = range(len(_OUTCOMES) * _LETTERS)
        times = np.stack([(answers == code).sum(axis=0) for code in codes])
        own = np.take_along_axis(times, np.maximum(answers, 0), axis=0)
        return self._by_video((own < times.max(axis=0)) & (answers >= 0))

    def missed_points(self, rows: Sequence[int]) -> Counts:
        """What each group lacks of its full score."""
        return self.missed[list(rows)]

    def _by_video(self, marks: NDArray[np.bool_]) -> Counts:
        # The questions of a video stand together.
        starts = np.flatnonzero(np.diff(self.videos, prepend=-1))
        return np.add.reduceat(marks.astype(np.int64), starts, axis=1)


def history_of(observations: Sequence[Sequence[ScoredQuestion]]) -> History:
    """The history of one evaluation from its rows: those of the baseline, then of each night.

    Raises:
        ScoringError: when the baseline holds no rows.
    """
    if not observations or not observations[0]:
        raise ScoringError("there is no baseline to hold a night against; run the evaluation first")
    asked = {_slot(row): row for rows in observations for row in rows}
    slots = {slot: number for number, slot in enumerate(sorted(asked))}
    ids = sorted({video_id for video_id, _, _ in slots})
    videos = {video_id: number for number, video_id in enumerate(ids)}
    answers = np.full((len(observations), len(slots)), -1, dtype=np.int64)
    missed = np.zeros((len(observations), len(videos)), dtype=np.int64)
    groups = np.zeros((len(observations), len(videos)), dtype=np.int64)
    for number, rows in enumerate(observations):
        for row in rows:
            if row.outcome is not Outcome.FAILED:
                answers[number, slots[_slot(row)]] = _answer(row)
        for group in score_groups(rows)[0]:
            video = videos[group.video_id]
            missed[number, video] += round((100 - group.score) / 100 * _GROUP_UNITS)
            groups[number, video] += Outcome.FAILED not in group.outcomes
    samples = 1 + max(sample for _, _, sample in slots)
    return History(
        answers=answers,
        videos=np.array([videos[video_id] for video_id, _, _ in slots], dtype=np.int64),
        labels={
            column: np.array([str(getattr(asked[slot], column) or "") for slot in slots])
            for column in (*V1_MARGINALS, *V2_MARGINALS)
        },
        missed=missed,
        whole=groups == samples,
    )


def worse_cells(
    history: History, reference: Sequence[int], row: int, rate: float
) -> tuple[Cell, ...]:
    """Every cell of the breakdowns, and whether it is worse in `row` than in `reference`.

    Benjamini–Hochberg over all cells: while nothing changed, the chance that a night names any
    is at most `rate`. Questions are compared for v1, group scores for v2, as `compare` does.
    """
    rows = [*reference, row]
    cells = []
    for column in V2_MARGINALS if history.has_groups else V1_MARGINALS:
        labels = history.labels[column]
        for value in sorted(set(labels.tolist()) - {""}):
            of_cell = labels == value
            videos = np.zeros(history.missed.shape[1], dtype=bool)
            videos[history.videos[of_cell]] = True
            if history.has_groups:
                counts, held = history.missed_points(rows), history.whole[rows] & videos
                most = float(_GROUP_UNITS)
            else:
                counts, held = history.wrong(rows, of_cell), history.held[rows] & videos
                most = float(of_cell.sum() / videos.sum())
            cells.append((column, value, counts, held, most))
    found = benjamini_hochberg([night_p_value(counts, held) for *_, counts, held, _ in cells], rate)
    return tuple(
        Cell(
            column=column,
            value=value,
            tonight=_share(counts[-1:], held[-1:], most),
            before=_share(counts[:-1], held[:-1], most),
            adjusted_p_value=adjusted,
            significant=significant,
        )
        for (column, value, counts, held, most), adjusted, significant in zip(
            cells, found.adjusted, found.rejected, strict=True
        )
        if held[-1].any() and held[:-1].any()
    )


def _bet(normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Likelihood ratios of a normal that has moved by each of `SHIFTS`, in equal parts."""
    shifts = np.array(SHIFTS)
    bets: NDArray[np.float64] = np.exp(np.outer(normals, shifts) - shifts**2 / 2).mean(axis=1)
    return bets


def _share(counts: Counts, held: Held, most: float) -> float:
    """How good the videos that are held are, of 1; `most` is the worst that a video can be."""
    return 1 - float(counts[held].mean()) / most


def _slot(row: ScoredQuestion) -> tuple[str, str, int]:
    return (row.video_id, row.question_id, row.sample)


def _answer(row: ScoredQuestion) -> int:
    """An outcome and a letter as one number."""
    letter = 0 if row.extracted_answer is None else 1 + _LETTER_NAMES.index(row.extracted_answer)
    return _OUTCOMES.index(row.outcome) * _LETTERS + letter
