"""Tables of constants that views join: benchmarks, quantiles, and the scores of groups."""

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import scipy  # submodules are imported on first use

from videomme_pipeline.benchmarks.registry import registered_benchmarks
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.scoring.statistics.groups import GroupRule, group_score, linear_score

_MAX_DEGREES = 4_096
"""Degrees of freedom in `t_quantiles`: more than any benchmark has videos."""


def benchmark_rows() -> list[dict[str, Any]]:
    """The registered benchmarks: title, headline metric, and declared numbers of questions."""
    return [
        {
            "benchmark": benchmark.name,
            "title": benchmark.title,
            "headline": benchmark.headline,
            "declared_questions": benchmark.size.questions,
            "group_size": benchmark.grouping.size if benchmark.grouping else None,
        }
        for benchmark in registered_benchmarks()
    ]


def t_quantiles() -> pa.Table:
    degrees = np.arange(1, _MAX_DEGREES + 1)
    quantiles = scipy.special.stdtrit(degrees, 0.975)
    return pa.table({"degrees_of_freedom": pa.array(degrees), "t_975": pa.array(quantiles)})


def group_outcomes() -> pa.Table:
    """The score of every possible group of each benchmark under both rules.

    `code` contains the outcomes in question order as base-3 digits, the first question lowest:
    0 incorrect, 1 correct, 2 without a letter.
    """
    digits = (Outcome.INCORRECT, Outcome.CORRECT, Outcome.UNREADABLE)
    return pa.Table.from_pylist(
        [
            {
                "benchmark": benchmark.name,
                "is_chain": structure is not None,
                "structure": structure,
                "code": sum(digit * 3**position for position, digit in enumerate(code)),
                "group_score": group_score(grouping, structure, outcomes),
                "group_score_official": group_score(
                    grouping, structure, outcomes, GroupRule.OFFICIAL
                ),
                "linear_score": linear_score(outcomes),
            }
            for benchmark in registered_benchmarks()
            if (grouping := benchmark.grouping) is not None
            for structure in (None, *(grouping.chain.scores if grouping.chain else ()))
            for code in product(range(3), repeat=grouping.size)
            if (outcomes := [digits[digit] for digit in code])
        ]
    )
