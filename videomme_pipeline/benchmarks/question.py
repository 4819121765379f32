"""The question row that every benchmark is read into, and the closed sets it uses.

v1 (Video-MME) and v2 (Video-MME-v2) have different columns; one row class holds both, with
None where a benchmark has no such column. How files are parsed belongs to the benchmark's
own module.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from videomme_pipeline.fetch.release import VideoReference

_OPTION = re.compile(r"^\s*\(?([A-H])\s*[.):：．、]\s*(.*)$", re.DOTALL)


class Letter(StrEnum):
    """An option's letter: A–D in v1, A–H in v2."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"
    E = "E"
    F = "F"
    G = "G"
    H = "H"


class Duration(StrEnum):
    """The v1 duration class: below 2 minutes, 4–15 minutes, 30–60 minutes.

    The dataset's own column decides, not the length of the file.
    """

    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


class GroupType(StrEnum):
    """How the four questions of a v2 group hang together."""

    RELEVANCE = "relevance"
    LOGIC = "logic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One multiple-choice question on one video.

    `options` are as published, letter and all ("A. Apples."), in order. `video_id` is the
    dataset's three-digit id; `youtube_id` is the upstream `videoID`.
    """

    benchmark: str
    question_id: str
    video_id: str
    youtube_id: str | None
    url: str | None
    question: str
    options: tuple[str, ...]
    answer: Letter
    # v1
    duration: Duration | None = None
    domain: str | None = None
    sub_category: str | None = None
    task_type: str | None = None
    # v2
    group_type: GroupType | None = None
    group_structure: str | None = None
    level: int | None = None
    second_head: str | None = None
    third_head: str | None = None

    @property
    def letters(self) -> tuple[Letter, ...]:
        """The letters that this question offers, in order."""
        return tuple(Letter)[: len(self.options)]

    def option_text(self, letter: Letter) -> str:
        """The text of an option without its letter: "Apples." for "A. Apples."."""
        option = self.options[self.letters.index(letter)]
        match = _OPTION.match(option)
        return match.group(2).strip() if match and match.group(1) == letter else option.strip()


def videos_of(questions: Iterable[Question]) -> tuple[VideoReference, ...]:
    """The videos that `questions` are about, each once, in order of first appearance."""
    return tuple(
        dict.fromkeys(
            VideoReference(question.video_id, question.youtube_id) for question in questions
        )
    )
