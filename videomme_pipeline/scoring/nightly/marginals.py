"""Tests for a worse score on one facet value: a domain, a task type, a level."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from videomme_pipeline.scoring.nightly.alarm import AlarmState, exchangeability_test
from videomme_pipeline.scoring.nightly.history import History
from videomme_pipeline.scoring.statistics.estimates import adjusted_p_values


class MarginalTest(NamedTuple):
    """The test of one value of one facet in one run. The scores are fractions of 1.

    `p_value` has the Benjamini–Hochberg correction over all tests of the run.
    """

    column: str
    value: str
    current: float
    before: float
    p_value: float


def marginal_tests(history: History, pool: Sequence[int], run: int) -> list[MarginalTest]:
    """One test per value of each facet: is `run` worse than the runs of `pool`?

    As in `compare`, groups are compared if there are any, and questions otherwise.
    """
    runs = [*pool, run]
    cells = []
    for column, labels in history.labels.items():
        for value in sorted(set(labels.tolist()) - {""}):
            selected = labels == value
            videos = np.zeros(history.missed.shape[1], dtype=bool)
            videos[history.videos[selected]] = True
            if history.has_groups:
                counts, valid = history.missed_points(runs), history.whole_groups[runs] & videos
                most = float(history.most_missed)
            else:
                counts, valid = history.wrong(runs, selected), history.complete[runs] & videos
                most = float(selected.sum() / videos.sum())
            cells.append((column, value, counts, valid, most))
    p_values = [exchangeability_test(counts, valid).p_value for *_, counts, valid, _ in cells]
    adjusted = adjusted_p_values(p_values)
    return [
        MarginalTest(
            column,
            value,
            current=1 - float(counts[-1:][valid[-1:]].mean()) / most,
            before=1 - float(counts[:-1][valid[:-1]].mean()) / most,
            p_value=float(p_value),
        )
        for (column, value, counts, valid, most), p_value in zip(cells, adjusted, strict=True)
        if valid[-1].any() and valid[:-1].any()
    ]


def worse_marginals(
    history: History, accuracy_states: Sequence[AlarmState], run: int, budget: float
) -> tuple[list[MarginalTest], bool]:
    """The significant tests of `run` by p-value, and True if one was not significant a run earlier.

    Each run is compared with the pool of the accuracy test (`accuracy_states`). A test is
    significant at a level of 1 / `budget`: noise alone causes one in `budget` runs.
    """

    def significant(run: int) -> list[MarginalTest]:
        tests = marginal_tests(history, accuracy_states[run - 1].pool, run)
        return sorted((t for t in tests if t.p_value <= 1 / budget), key=lambda test: test.p_value)

    worse = significant(run)
    earlier = significant(run - 1) if worse and run > 1 else []
    earlier_cells = {(test.column, test.value) for test in earlier}
    return worse, any((test.column, test.value) not in earlier_cells for test in worse)
