"""Evaluations against each other, as `scoring.compare` finds them, arranged for the page."""

from collections.abc import Sequence
from typing import Any

from videomme_pipeline.reports.stored import ScoredEvaluation


def comparisons(evaluations: Sequence[ScoredEvaluation]) -> list[dict[str, Any]]:
    return []
