"""The plan and the decision of a race: two evaluations are asked until their difference is known.

The videos are asked in a random order that is fixed before the first request, and the difference is
tested after planned shares of them. The levels of these looks follow a group-sequential test,
so looking often makes no false verdict more likely. The last look has all videos.

At a share t of the videos, |z| must reach c × t^(shape - 0.5), where c makes the chance of any
false rejection equal to the level (Wang & Tsiatis, "Approximately Optimal One-Parameter Boundaries
for Group Sequential Trials", 1987). The chance is integrated numerically, as in Armitage,
McPherson & Rowe (1969).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
import scipy  # submodules are imported on first use
from blake3 import blake3
from numpy.typing import ArrayLike, NDArray

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.scoring.statistics import power
from videomme_pipeline.scoring.statistics.gate import GateCheck, Levels, Verdict

SHAPE = 0.25
"""Between O'Brien–Fleming (0), which rarely stops early, and Pocock (0.5)."""
_NODES = 100
"""Points of each numerical integral. Twice as many change no boundary by more than 1e-6."""
LOOKS = 9


class Stop(StrEnum):
    """Why a race stopped."""

    DECIDED = "decided"
    ALL_VIDEOS = "all videos"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Look:
    """A test after the first `videos` videos, a share of `share` of all, at its own levels."""

    videos: int
    share: float
    levels: Levels


def plan_looks(videos: int, most: int = LOOKS) -> tuple[Look, ...]:
    """The looks of a race on `videos` videos, after about equal numbers of videos.

    A look needs as many videos as can be significant at all, so small benchmarks have fewer looks.
    """
    count = max(1, min(most, videos // power.least_significant_videos(power.LEVEL)))
    numbers = [round(videos * (number + 1) / count) for number in range(count)]
    shares = tuple(number / videos for number in numbers)
    # The two one-sided tests of equivalence, each at 5%, share the bounds of a test at 10%.
    difference = 2 * scipy.special.ndtr(-boundaries(shares, power.LEVEL))
    equivalence = scipy.special.ndtr(-boundaries(shares, 2 * power.LEVEL))
    levels = map(Levels, difference.tolist(), equivalence.tolist())
    return tuple(map(Look, numbers, shares, levels))


def race_order(
    questions: Mapping[str, Sequence[Question]], strata: Sequence[str], seed: int
) -> tuple[str, ...]:
    """The video ids in the order in which a race asks them.

    The order is random, and each of its parts has the strata (values of the facets `strata`) in
    about the proportion of the benchmark. It depends only on the ids, the strata and `seed`.
    """
    by_stratum: dict[tuple[object, ...], list[tuple[str, str]]] = {}
    for video_id, rows in questions.items():
        stratum = tuple(rows[-1].facets.get(column) for column in strata)
        digest = blake3(f"{seed} {video_id}".encode()).hexdigest()
        by_stratum.setdefault(stratum, []).append((digest, video_id))
    ranked: Iterable[tuple[float, str, str]] = (
        ((rank + int(digest[:8], 16) / 2**32) / len(members), digest, video_id)
        for members in by_stratum.values()
        for rank, (digest, video_id) in enumerate(sorted(members))
    )
    return tuple(video_id for _, _, video_id in sorted(ranked))


def stop_after(check: GateCheck, looks: Sequence[Look]) -> Stop | None:
    """Why the race stops after a look, or None if the next look follows.

    `check` is the result of the first of `looks`, which are this look and all later ones.
    """
    if check.verdict is not Verdict.UNDECIDED:
        return Stop.DECIDED
    return Stop.ALL_VIDEOS if len(looks) == 1 else None


def boundary(check: GateCheck, look: Look) -> float | None:
    """The smallest difference, in points, that `look` finds, by Student's t.

    None for a single video.
    """
    if check.standard_error is None:
        return None
    bound = scipy.special.stdtrit(check.clusters - 1, 1 - look.levels.difference / 2)
    return float(bound) * check.standard_error


def detectable_in_race(questions: int, looks: Sequence[Look]) -> float | None:
    """The difference, in points, that a race detects with 80% power, or None with too few videos.

    The answers of two similar models are assumed, since nothing is known before the first request.
    """
    videos, level = looks[-1].videos, looks[-1].levels.difference
    if videos < power.least_significant_videos(level):
        return None
    analysis = power.PowerAnalysis(
        questions=questions, videos=videos, discordance=power.USUAL_DISCORDANCES[1], alpha=level
    )
    return 100 * analysis.effect


@cache
def boundaries(
    shares: tuple[float, ...], level: float, shape: float = SHAPE
) -> NDArray[np.float64]:
    """The smallest |z| that rejects at each look, for a two-sided test at `level`.

    `shares` are the shares of all videos at the looks, increasing to 1.
    """
    shapes = np.asarray(shares) ** (shape - 0.5)
    least = float(scipy.special.ndtri(1 - level / 2))
    constant = scipy.optimize.brentq(
        lambda c: crossing_probability(shares, c * shapes) - level, least, least + 3
    )
    return np.asarray(constant * shapes)


def crossing_probability(shares: Sequence[float], limits: ArrayLike) -> float:
    """The chance that |z| reaches its limit at any look, although there is no difference.

    The score z × √t has independent normal increments, whose variance is the growth of t.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    scores, masses, previous = np.zeros(1), np.ones(1), 0.0
    for share, limit in zip(shares, np.asarray(limits, dtype=float) * np.sqrt(shares), strict=True):
        error = np.sqrt(share - previous)
        steps = (limit * nodes[:, None] - scores) / error
        density = np.exp(-(steps**2) / 2) / (error * np.sqrt(2 * np.pi))
        scores, masses, previous = limit * nodes, limit * weights * (density @ masses), share
    return 1 - float(masses.sum())
