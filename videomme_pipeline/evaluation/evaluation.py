"""An evaluation: benchmark × model × sampling × track × prompt × generation × reader."""

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Literal

from videomme_pipeline.benchmarks.selection import Selection
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.judge.judge import Judge
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.prompts.render import Template
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import track
from videomme_pipeline.subtitles.align import Alignment

NONE = "none"
"""The value of an evaluation file's `sampling` or `subtitles` that means none."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """An evaluation: an evaluation file in which every name is replaced by the named object."""

    name: str
    benchmark: str
    model: ModelSpec
    sampling: Sampling | None
    alignment: Alignment | None
    template: Template
    reader: ReaderName
    judge: Judge | None = None
    generation: Generation
    repeats: int
    selection: Selection = field(default_factory=Selection)
    conversation: Literal["group"] | None = None

    @cached_property
    def sampling_name(self) -> str:
        """The name of the sampling; `none` for an evaluation without frames."""
        return NONE if self.sampling is None else self.sampling.name

    @property
    def track(self) -> str:
        """The track under which results are reported."""
        return track(
            subtitles=self.alignment is not None,
            audio=self.model.hears_audio,
            chosen=self.selection.questions is not None,
            conversation=self.conversation is not None,
        )

    @cached_property
    def track_name(self) -> str | None:
        """The partition of the subtitles, `<sampling>.<alignment>`, or None without subtitles."""
        return None if self.alignment is None else f"{self.sampling_name}.{self.alignment.name}"

    @property
    def pairing(self) -> str:
        """Hash of everything except the subtitles. Equal hashes pair the tracks of a setting."""
        return replace(self, alignment=None).fingerprint

    @property
    def specification(self) -> dict[str, Any]:
        """Every value that can change a score, as JSON, by stage."""
        parts = {name: _as_json(part) for name, part in self._parts.items()}
        return parts | self.selection.selected_by

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the whole specification, without the name of the evaluation."""
        return fingerprint(*map(_as_hashed, self._parts.values()), **self.selection.selected_by)

    @property
    def _parts(self) -> dict[str, Any]:
        """Everything that can change a response or its reading, in the order of the fingerprint."""
        return {
            "benchmark": self.benchmark,
            "model": self.model,
            "sampling": self.sampling,
            "alignment": self.alignment,
            "template": self.template,
            "generation": self.generation,
            "reader": self.reader,
            "repeats": self.repeats,
            "judge": self.judge,
            **({"conversation": self.conversation} if self.conversation else {}),
        }


def _as_json(part: Any) -> Any:
    if isinstance(part, Spec):
        return part.model_dump(mode="json")
    if isinstance(part, Judge):
        return part.specification
    return part.value if isinstance(part, Enum) else part


def _as_hashed(part: Any) -> Any:
    """Models and judges have keys that cannot change a score. Their fingerprints omit these."""
    return part.fingerprint if isinstance(part, ModelSpec | Judge) else part
