"""The scripts of the smoke videos, with the content of every scene, and the questions about them.

The names and values of fields are part of fingerprints, so they keep the spelling `colour`.
Questions are in the layouts of the published annotations. The correct answer about a drawn video
is a value of its script. Wrong ones are of the same kind.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from videomme_pipeline.benchmarks.benchmark import Size
from videomme_pipeline.benchmarks.declaration import PUBLISHED, Declaration
from videomme_pipeline.benchmarks.question import Duration, Question, videos_of
from videomme_pipeline.benchmarks.questions import read_questions
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.rows import from_values

DATA = Path(__file__).with_name("data")
"""The scripts, the sources of clips and the questions of the smoke benchmarks."""

DRAWING_VERSION = 1
"""Increase it when the same script results in other pictures."""
SIZES: Mapping[str, Size] = {
    "smoke": Size(videos=24, questions_per_video=3, videos_with_subtitles=19),
    "smoke_v2": Size(videos=10, questions_per_video=4, videos_with_subtitles=10),
}
PUBLISHED_AS: Mapping[str, str] = {"smoke": "videomme", "smoke_v2": "videomme_v2"}
"""The published benchmark whose declaration each smoke benchmark shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scene: what it shows and what the narrator says. Its end is exclusive.

    The names of shapes, colors, motions and corners are those that `drawing` knows. `code` is a
    label in `corner`; `left_sign` and `right_sign` are at the picture's edges. The
    narrator says that `person` asks for `item`, and stops because of `reason`.
    """

    start_seconds: int
    end_seconds: int
    heading: str
    shape: str
    colour: str
    count: int
    motion: str
    code: str
    corner: str
    left_sign: str
    right_sign: str
    person: str
    item: str
    reason: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences that the narrator repeats during the scene."""
        return (
            f"At the {self.heading.lower()}, {self.person} asks for the {self.item}.",
            f"{self.person} stops at the {self.heading.lower()} because {self.reason}.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One drawn video. `narrated` is true if it has subtitles.

    `headings` are all candidates for its scenes. Unused ones serve as wrong answers.
    """

    video_id: str
    title: str
    topic: str
    domain: str
    sub_category: str
    duration: Duration
    width: int
    height: int
    frames_per_second: int
    narrated: bool
    headings: tuple[str, ...]
    scenes: tuple[Scene, ...]


@cache
def scripts() -> tuple[Script, ...]:
    rows = json.loads((DATA / "scripts.json").read_text(encoding="utf-8"))
    return tuple(
        from_values(
            row | {"scenes": [from_values(scene, Scene) for scene in row["scenes"]]}, Script
        )
        for row in rows
    )


@cache
def questions(benchmark: str) -> tuple[Question, ...]:
    """The questions of `smoke` or `smoke_v2`. Raises AnnotationError for another benchmark."""
    if benchmark not in SIZES:
        raise AnnotationError(f"{benchmark}: the smoke benchmarks are {' and '.join(SIZES)}")
    published = Declaration.read(PUBLISHED / f"{PUBLISHED_AS[benchmark]}.yaml")
    declaration = published.model_copy(update={"size": SIZES[benchmark]})
    return tuple(read_questions(declaration, [DATA / f"{benchmark}.jsonl"], benchmark).require())


def video_ids(benchmark: str = "smoke") -> tuple[str, ...]:
    """Video ids of `benchmark`, from "001". The videos of `smoke_v2` are a subset of `smoke`."""
    return tuple(video.video_id for video in videos_of(questions(benchmark)))
