"""Scored evaluations and questions, read from the store for the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.storage.results import Results, ShownScores
from videomme_pipeline.storage.tables import read_rows, stored_settings
from videomme_pipeline.subtitles.align import Alignment

_SAMPLING: TypeAdapter[Sampling] = TypeAdapter(Sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEvaluation:
    """One evaluation with all scored questions, in the order of the benchmark.

    `specification` has every setting that can change a score, by stage, as of the time the scores
    were computed.
    """

    name: str
    fingerprint: str
    specification: dict[str, Any]
    rows: tuple[ScoredQuestion, ...]
    shown: ShownScores
    """The file of the scores, which names the files of the inputs."""

    @property
    def sampling(self) -> Sampling | None:
        """The sampling, or None without frames or with an unknown sampling (imported results)."""
        value = self.specification.get("sampling")
        return _SAMPLING.validate_python(value) if value else None

    @property
    def alignment(self) -> Alignment | None:
        """The subtitle alignment, or None without subtitles."""
        value = self.specification.get("alignment")
        return Alignment.model_validate(value) if value else None

    @property
    def track_name(self) -> str | None:
        """Name of the folder with the aligned subtitle lines, or None without subtitles."""
        alignment = self.alignment
        return None if alignment is None else f"{self.rows[0].sampling}.{alignment.name}"

    @property
    def is_baseline(self) -> bool:
        """True if the model saw no frames: a blind model or a guess."""
        return self.rows[0].sampling == "none"

    @property
    def input_key(self) -> str:
        """Key that is equal for evaluations with the same frames and subtitle lines."""
        return f"{self.rows[0].sampling}/{self.track_name or 'none'}"


def evaluations_of(
    results: Results, benchmark: str, names: Sequence[str] | None = None
) -> list[ScoredEvaluation]:
    """Scored evaluations of `benchmark`, or those in `names`, sorted by name."""
    scored = [
        (shown, read_rows(shown.path, ScoredQuestion))
        for shown in results.scores(benchmark)
        if names is None or shown.evaluation in names
    ]
    return [
        ScoredEvaluation(
            name=shown.evaluation,
            fingerprint=rows[0].evaluation_fingerprint,
            specification=stored_settings(shown.path),
            rows=tuple(rows),
            shown=shown,
        )
        for shown, rows in scored
        if rows
    ]
