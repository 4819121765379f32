"""The runs of one evaluation as arrays: a row per run, the reference first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from videomme_pipeline.benchmarks.facets import Measure
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.nightly.alarm import Counts, Mask
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.groups import score_groups

_OUTCOMES = list(Outcome)
_LETTER_NAMES = list(Letter)
_LETTERS = 1 + len(_LETTER_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All rows of one run: the reference or a nightly run."""

    name: str
    rows: Sequence[ScoredQuestion]


@dataclass(frozen=True, slots=True)
class History:
    """All runs of one evaluation. The arrays have one row per run, the reference first.

    `answers` has a column per question and repeat. Each number encodes an outcome and a letter, or
    is -1 if there was no answer. `videos` (video number) and `labels` (values by tested facet, of
    groups if there are any) describe these columns. `missed` and `whole_groups` have a column per
    video. `missed` is the full score minus the score of the video's group in units, summed over
    repeats, at most `most_missed`. `whole_groups` is True if the group was answered completely.
    """

    answers: Counts
    videos: Counts
    labels: dict[str, NDArray[np.str_]]
    missed: Counts
    whole_groups: Mask
    most_missed: int

    @property
    def last_run(self) -> int:
        return len(self.answers) - 1

    @property
    def complete(self) -> Mask:
        """The videos with an answer to every question, by run."""
        return np.asarray(self._by_video(self.answers < 0) == 0)

    @property
    def has_groups(self) -> bool:
        return bool(np.any(self.whole_groups))

    def wrong(self, runs: Sequence[int], only: NDArray[np.bool_] | None = None) -> Counts:
        """Number of wrong answers, (run, video). `only` has one flag per column of `answers`."""
        wrong = self.answers[list(runs)] // _LETTERS != _OUTCOMES.index(Outcome.CORRECT)
        return self._by_video(wrong if only is None else wrong & only)

    def unreadable(self, runs: Sequence[int]) -> Counts:
        """Number of answers without a letter, (run, video)."""
        unreadable = _OUTCOMES.index(Outcome.UNREADABLE)
        return self._by_video(self.answers[list(runs)] // _LETTERS == unreadable)

    def unusual(self, runs: Sequence[int]) -> Counts:
        """The number of answers per video that differ from the most frequent answer in `runs`.

        If two runs have two different answers, neither is more frequent, and none counts.
        """
        answers = self.answers[list(runs)]
        codes = range(len(_OUTCOMES) * _LETTERS)
        counts = np.stack([(answers == code).sum(axis=0) for code in codes])
        frequency = np.take_along_axis(counts, np.maximum(answers, 0), axis=0)
        return self._by_video((frequency < counts.max(axis=0)) & (answers >= 0))

    def missed_points(self, runs: Sequence[int]) -> Counts:
        """The full score minus the score of each group, in units."""
        return self.missed[list(runs)]

    def _by_video(self, marks: NDArray[np.bool_]) -> Counts:
        # The questions of a video are adjacent columns.
        starts = np.flatnonzero(np.diff(self.videos, prepend=-1))
        return np.add.reduceat(marks.astype(np.int64), starts, axis=1)


def history_of(runs: Sequence[Sequence[ScoredQuestion]]) -> History:
    """The history of one evaluation from the rows of its reference and of each nightly run.

    ScoringError if there is no reference with rows, or no nightly run.
    """
    if len(runs) < 2 or not runs[0]:
        raise ScoringError(
            "a nightly run needs a reference to be compared with; run the evaluation first"
        )
    benchmark = find_benchmark(runs[0][0].benchmark)
    units = benchmark.grouping.units if benchmark.grouping else 1
    row_by_key = {_key(row): row for rows in runs for row in rows}
    columns = {key: number for number, key in enumerate(sorted(row_by_key))}
    video_ids = sorted({video_id for video_id, _, _ in columns})
    videos = {video_id: number for number, video_id in enumerate(video_ids)}
    answers = np.full((len(runs), len(columns)), -1, dtype=np.int64)
    missed = np.zeros((len(runs), len(videos)), dtype=np.int64)
    groups = np.zeros((len(runs), len(videos)), dtype=np.int64)
    for number, rows in enumerate(runs):
        for row in rows:
            if row.outcome is not Outcome.FAILED:
                answers[number, columns[_key(row)]] = _answer_code(row)
        for group in score_groups(rows)[0]:
            video = videos[group.video_id]
            missed[number, video] += round((100 - group.score) / 100 * units)
            groups[number, video] += Outcome.FAILED not in group.outcomes
    repeats = 1 + max(repeat for _, _, repeat in columns)
    whole_groups = groups == repeats
    measure = Measure.GROUP_SCORE if whole_groups.any() else Measure.ACCURACY
    return History(
        answers=answers,
        videos=np.array([videos[video_id] for video_id, _, _ in columns], dtype=np.int64),
        labels={
            facet: np.array([str(row_by_key[key].facets.get(facet, "")) for key in columns])
            for facet in benchmark.tested_facets(measure)
        },
        missed=missed,
        whole_groups=whole_groups,
        most_missed=units * repeats,
    )


def _key(row: ScoredQuestion) -> tuple[str, str, int]:
    return (row.video_id, row.question_id, row.repeat)


def _answer_code(row: ScoredQuestion) -> int:
    letter = 0 if row.extracted_answer is None else 1 + _LETTER_NAMES.index(row.extracted_answer)
    return _OUTCOMES.index(row.outcome) * _LETTERS + letter
