"""The question row that every benchmark is read into, and the closed sets it uses."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.fetch.release import Footage, VideoReference

_OPTION = re.compile(r"^\s*\(?([A-N])\s*[.):：．、]\s*(.*)$", re.DOTALL)


class Letter(StrEnum):
    """The letter of an option. Each benchmark declares how many of them it offers."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"
    E = "E"
    F = "F"
    G = "G"
    H = "H"
    I = "I"  # noqa: E741 - the name of an option, not of a variable
    J = "J"
    K = "K"
    L = "L"
    M = "M"
    N = "N"


class Duration(StrEnum):
    """Values of the facet `duration`: below 2 minutes, 4–15 minutes, 30–60 minutes.

    The dataset's own column decides, not the length of the file.
    """

    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


_LETTERS = tuple(Letter)
_DURATIONS: dict[object, Duration] = {duration.value: duration for duration in Duration}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One multiple-choice question on one video."""

    benchmark: str
    """Name of the benchmark."""
    question_id: str
    """Id of the question, unique in the benchmark."""
    video_id: str
    """The dataset's id of the video (three digits in Video-MME)."""
    youtube_id: str | None
    """The dataset's `videoID`, or None if it has none."""
    url: str | None
    """Address of the video, or None."""
    question: str
    """Text of the question, as published."""
    options: tuple[str, ...]
    """Options in order, as published with their letters ("A. Apples.")."""
    answer: Letter
    """Correct letter."""
    facets: Facets = field(default_factory=Facets)
    """Values of the facets by which questions are grouped."""
    footage: Footage = field(default_factory=Footage)
    """Facts of the annotations about the files of the video."""

    @property
    def reference(self) -> VideoReference:
        """The video of this question, as the annotations name it."""
        return VideoReference(self.video_id, self.youtube_id, self.footage)

    @property
    def letters(self) -> tuple[Letter, ...]:
        return _LETTERS[: len(self.options)]

    @property
    def duration(self) -> Duration | None:
        """Duration class that samplings may depend on, or None if the question has none."""
        return _DURATIONS.get(self.facets.get("duration"))

    def option_text(self, letter: Letter) -> str:
        """Text of an option without its letter: "Apples." for "A. Apples."."""
        return option_texts(self.options)[self.letters.index(letter)]


def split_option(option: str) -> tuple[Letter | None, str]:
    """Split "A. Apples." into (A, "Apples."). The letter is None if the option has none."""
    match = _OPTION.match(option)
    return (Letter(match[1]), match[2].strip()) if match else (None, option.strip())


def option_texts(options: Sequence[str]) -> list[str]:
    """Texts of `options` without their letters. A letter of another position is part of a text."""
    labelled = zip(_LETTERS, map(split_option, options), options, strict=False)
    return [text if own == letter else option.strip() for letter, (own, text), option in labelled]


def videos_of(questions: Iterable[Question]) -> tuple[VideoReference, ...]:
    """Videos that `questions` are about, without repetition, in order of first appearance."""
    return tuple(dict.fromkeys(question.reference for question in questions))


def with_own_ids(questions: Sequence[Question]) -> list[Question]:
    """`questions` with the id of the video before ids that are numbers within a video.

    These are the ids that questions on several videos have: "film1-2" for question 2 on film1.
    """
    videos: dict[str, set[str]] = {}
    for question in questions:
        videos.setdefault(question.question_id, set()).add(question.video_id)
    return [
        replace(question, question_id=f"{question.video_id}-{question.question_id}")
        if len(videos[question.question_id]) > 1
        else question
        for question in questions
    ]


def example_ids(questions: Iterable[Question]) -> dict[str, str]:
    """The contract's id of each question, by question id: `video_001_q1` for the first question on
    video 001. `questions` are all questions of a benchmark, in its order."""
    videos = {question.question_id: question.video_id for question in questions}
    numbers: Counter[str] = Counter()
    ids = {}
    for question_id, video_id in videos.items():
        numbers[video_id] += 1
        ids[question_id] = f"video_{video_id}_q{numbers[video_id]}"
    return ids
