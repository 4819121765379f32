"""The same evaluation asked again, night by night, for the history chart.

Whether a night is an alarm is decided in `scoring.alarm`, not here.
"""

from collections.abc import Sequence
from typing import Any

from videomme_pipeline.reports.stored import ScoredEvaluation
from videomme_pipeline.scoring.breakdowns import breakdown, group_breakdowns
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.store import Store, read_rows


def history(
    store: Store, benchmark: str, evaluations: Sequence[ScoredEvaluation]
) -> list[dict[str, Any]]:
    """One entry per evaluation and night, oldest first.

    `value` is the group score where there are groups, else the accuracy, as a fraction of the
    `n` that were answered: a night on which the endpoint was down is not a worse model, so
    `failed` stands beside it.
    """
    nights = []
    for place, evaluation in enumerate(evaluations):
        folder = store.observations(benchmark, evaluation.name)
        files = folder.glob("*.parquet") if folder.is_dir() else ()
        for path in sorted(files, key=lambda path: path.name):
            rows = read_rows(path, ScoredQuestion)
            answered = [row for row in rows if row.outcome is not Outcome.FAILED]
            if answered:
                nights.append(
                    {
                        "evaluation": place,
                        "date": path.stem,
                        "failed": len(rows) - len(answered),
                        **_score(answered),
                    }
                )
    return nights


def _score(rows: Sequence[ScoredQuestion]) -> dict[str, Any]:
    if rows[0].group_type is not None:
        cells, _, _ = group_breakdowns(rows)
        (group,) = cells["v2_overall"]
        value, low, high = group.group_score, group.group_score_low, group.group_score_high
        return {
            "n": group.groups,
            "value": _fraction(value),
            "low": _fraction(low),
            "high": _fraction(high),
        }
    (cell,) = breakdown(rows, ())
    return {
        "n": cell.questions,
        "value": round(cell.accuracy, 5),
        "low": round(cell.accuracy_low, 5),
        "high": round(cell.accuracy_high, 5),
    }


def _fraction(score: float | None) -> float | None:
    return None if score is None else round(score / 100, 5)
