"""The rows of one run of a tracked evaluation, in memory and as they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from videomme_pipeline.scoring.scored_question import ScoredQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedQuestion(ScoredQuestion):
    """A scored question of one nightly run."""

    observation: str
    """Date of the run."""

    @classmethod
    def of(cls, row: ScoredQuestion, observation: str) -> "ObservedQuestion":
        # Not `asdict`: it copies deeply, which takes seconds for 2,700 rows.
        values: dict[str, Any] = {
            field.name: getattr(row, field.name) for field in fields(ScoredQuestion)
        }
        return cls(**values, observation=observation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All rows of one run: the reference or a nightly run."""

    name: str
    rows: Sequence[ScoredQuestion]
