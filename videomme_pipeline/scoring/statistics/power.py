"""The smallest difference of two evaluations that a comparison can detect.

The assumptions are stated, or measured on two evaluations or two repeats of one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log2, sqrt
from typing import NamedTuple

import numpy as np
import scipy  # submodules are imported on first use

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.estimates import clustered_mean

USUAL_DISCORDANCES = (0.05, 0.12, 0.25)
"""Two runs of one model, two similar models, and two unrelated models of medium accuracy."""
USUAL_CORRELATION = 0.2
LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAnalysis:
    """The smallest true difference that the paired test detects with `power` at level `alpha`.

    `discordance` is the share of questions that exactly one of two evaluations answers correctly,
    which is the variance of the difference of one question. `correlation` is the correlation of
    these differences within a video. `cluster_size` is that of `mean_cluster_size`, or None if all
    videos have as many questions. `effect` is a difference of accuracies, as a fraction of 1. It is
    at least one question in each of the fewest videos that the exact test can reject. ScoringError
    if there are too few videos for any significant difference.
    """

    questions: int
    videos: int
    discordance: float
    correlation: float = USUAL_CORRELATION
    cluster_size: float | None = None
    alpha: float = LEVEL
    power: float = 0.8
    effect: float = field(init=False)

    def __post_init__(self) -> None:
        least = least_significant_videos(self.alpha)
        if self.videos < least:
            raise ScoringError(
                f"{self.videos} videos: with fewer than {least}, no difference can be significant "
                f"at a level of {self.alpha:g}; use more videos"
            )
        size = self.cluster_size or self.questions / self.videos
        design_effect = 1 + (size - 1) * self.correlation
        standard_error = sqrt(self.discordance * design_effect / self.questions)
        quantiles = scipy.special.stdtrit(self.videos - 1, [1 - self.alpha / 2, self.power])
        effect = max(float(quantiles.sum() * standard_error), least / self.questions)
        object.__setattr__(self, "effect", effect)


def mean_cluster_size(sizes: Iterable[int]) -> float:
    """The mean number of questions on the video of a question: sum of squares / sum of `sizes`.

    With it, the design effect holds for unequal numbers of questions per video (Kish, 1965).
    """
    counts = list(sizes)
    return sum(count * count for count in counts) / sum(counts)


def least_significant_videos(alpha: float) -> int:
    """The smallest number of videos that can make a two-sided sign-flip test significant.

    If n videos differ, all in the same direction, the p-value is 2^(1 - n).
    """
    return 1 + ceil(-log2(alpha))


class Noise(NamedTuple):
    """The noise between two evaluations: their discordance, and its correlation within a video."""

    discordance: float
    correlation: float


def measure_noise(a: Sequence[ScoredQuestion], b: Sequence[ScoredQuestion]) -> Noise:
    """The noise between two evaluations of the same questions, without failed ones.

    ScoringError if no question was answered in both.
    """
    answered = _answered_in_both(a, b)
    if not answered:
        raise ScoringError(
            "no question was answered in both evaluations; compare evaluations of the same "
            "benchmark that have answers"
        )
    differences = np.array([float(a.is_correct) - b.is_correct for a, b in answered])
    estimate = clustered_mean(differences, [a.video_id for a, _ in answered])
    discordance = float(np.mean(differences != 0))
    variance = float(np.var(differences)) / estimate.values
    per_video = mean_cluster_size(Counter(a.video_id for a, _ in answered).values())
    if not variance or per_video <= 1 or estimate.standard_error is None:
        return Noise(discordance=discordance, correlation=0.0)
    design_effect = estimate.standard_error**2 / variance
    correlation = (design_effect - 1) / (per_video - 1)
    return Noise(discordance=discordance, correlation=min(1.0, max(0.0, correlation)))


def detectable_difference(
    rows: Sequence[ScoredQuestion], others: Sequence[ScoredQuestion]
) -> float | None:
    """The difference that a comparison of two such evaluations detects, as a fraction of 1.

    The test has 80% power at a level of 5%. Discordance and correlation are measured between the
    two, and only questions that both answered count. If there are none, the questions of `rows`,
    the largest usual discordance and the usual correlation are assumed. Repeats of a question are
    one question, whose mean has less noise. The result is None with too few videos for any
    significant difference.
    """
    compared = [row for row, _ in _answered_in_both(rows, others)]
    usual = Noise(USUAL_DISCORDANCES[-1], USUAL_CORRELATION)
    noise = measure_noise(rows, others) if compared else usual
    compared = compared or list(rows)
    discordance = noise.discordance - _removed_by_repeats(rows) - _removed_by_repeats(others)
    questions = Counter(video for video, _ in {(r.video_id, r.question_id) for r in compared})
    if len(questions) < least_significant_videos(LEVEL):
        return None
    return PowerAnalysis(
        questions=questions.total(),
        videos=len(questions),
        cluster_size=mean_cluster_size(questions.values()),
        discordance=max(0.0, discordance),
        correlation=noise.correlation,
    ).effect


def _removed_by_repeats(rows: Sequence[ScoredQuestion]) -> float:
    """The part of the variance of a question's difference that the mean over its repeats removes.

    Half of the discordance of two repeats is the noise of one of them.
    """
    pair = first_repeats(rows)
    if pair is None or not _answered_in_both(*pair):
        return 0.0
    count = len({row.repeat for row in rows})
    return (1 - 1 / count) * measure_noise(*pair).discordance / 2


def first_repeats(rows: Sequence[ScoredQuestion]) -> tuple[list[ScoredQuestion], ...] | None:
    """The first and the second repeats as two evaluations, or None without second repeats."""
    first = [row for row in rows if row.repeat == 0]
    second = [replace(row, repeat=0) for row in rows if row.repeat == 1]
    return (first, second) if second else None


def as_repeats(runs: Sequence[Sequence[ScoredQuestion]]) -> list[ScoredQuestion]:
    """Several runs of one evaluation as one evaluation with repeats, named like the first run."""
    rows: list[ScoredQuestion] = []
    for run in runs:
        first = 1 + max((row.repeat for row in rows), default=-1)
        rows += [
            replace(row, evaluation=(rows or run)[0].evaluation, repeat=first + row.repeat)
            for row in run
        ]
    return rows


def _answered_in_both(
    a: Sequence[ScoredQuestion], b: Sequence[ScoredQuestion]
) -> list[tuple[ScoredQuestion, ScoredQuestion]]:
    """The pairs of answers to the same question and repeat."""
    others = {(row.question_id, row.repeat): row for row in b if row.outcome is not Outcome.FAILED}
    return [
        (row, others[key])
        for row in a
        if row.outcome is not Outcome.FAILED and (key := (row.question_id, row.repeat)) in others
    ]
