"""What the store holds of a benchmark's evaluations, as the page needs it.

Reads tables; counts nothing and draws nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.store import Store, read_rows, stored_settings
from videomme_pipeline.subtitles.align import Alignment

_SAMPLING: TypeAdapter[Sampling] = TypeAdapter(Sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEvaluation:
    """One evaluation with every scored question, in the order of the benchmark.

    `specification` is every named value that can change a score, by stage, as it was when the
    scores were made.
    """

    name: str
    fingerprint: str
    specification: dict[str, Any]
    rows: tuple[ScoredQuestion, ...]

    @property
    def sampling(self) -> Sampling | None:
        """None when no frames were sent, or when the scores do not say (imported results)."""
        value = self.specification.get("sampling")
        return _SAMPLING.validate_python(value) if value else None

    @property
    def alignment(self) -> Alignment | None:
        value = self.specification.get("alignment")
        return Alignment.model_validate(value) if value else None

    @property
    def track_name(self) -> str | None:
        """The folder of the aligned lines this evaluation was shown, None without any."""
        alignment = self.alignment
        return None if alignment is None else f"{self.rows[0].sampling}.{alignment.name}"

    @property
    def with_subtitles(self) -> bool:
        return self.rows[0].track == "with_subtitles"

    @property
    def is_baseline(self) -> bool:
        """Whether the answers come without a look at the video: a blind or a guessing model."""
        return self.rows[0].sampling == "none"

    @property
    def input_key(self) -> str:
        """Evaluations with the same key were shown the same frames and subtitle lines."""
        return f"{self.rows[0].sampling}/{self.track_name or 'none'}"


def questions_of(store: Store, benchmark: str) -> list[Question]:
    return read_rows(store.questions(benchmark), Question)


def evaluations_of(
    store: Store, benchmark: str, names: Sequence[str] | None = None
) -> list[ScoredEvaluation]:
    """The evaluations of `benchmark` that have scores, by name; `names` keeps only those."""
    found = []
    for path in store.score_files(benchmark):
        if names is not None and path.stem not in names:
            continue
        rows = read_rows(path, ScoredQuestion)
        if rows:
            found.append(
                ScoredEvaluation(
                    name=path.stem,
                    fingerprint=rows[0].evaluation_fingerprint,
                    specification=stored_settings(path),
                    rows=tuple(rows),
                )
            )
    return found
