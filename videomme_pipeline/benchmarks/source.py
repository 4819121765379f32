"""The interface of all sources of questions and videos."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from upath import UPath

from videomme_pipeline.benchmarks import locate
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.errors import AnnotationError, listed
from videomme_pipeline.fetch.release import VideoReference

_LISTED = 5

OnProgress = Callable[[int, int], None]
"""Called with the number of finished items and the total."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with one row of the annotations."""

    row: str
    message: str


@dataclass(slots=True, kw_only=True)
class AnnotationContent:
    """The content of a benchmark's annotations."""

    questions: list[Question] = field(default_factory=list)
    hidden: int = 0
    """Rows that are left out, because their answer is not published."""
    inexact_answers: int = 0
    """Answers that equal an option except for case and spaces."""
    ambiguous_answers: int = 0
    """Answers that equal several options."""
    unmatched: list[Problem] = field(default_factory=list)
    """Published questions that are left out, because their answer is none of their options."""
    problems: list[Problem] = field(default_factory=list)
    advice: str = ""
    """The next step for the problems."""
    files: Sequence[Path] = ()
    segments: dict[str, Sequence[object]] = field(default_factory=dict)
    """The subtitles in the annotations, by video id."""

    def require(self) -> Sequence[Question]:
        """The questions. An AnnotationError lists the problems, if there are any."""
        if self.problems:
            problems = self.listed(self.problems)
            raise AnnotationError(f"{problems}; `videomme doctor` checks all rows")
        if not self.questions and self.unmatched:
            raise AnnotationError(f"no row can be used: {self.listed(self.unmatched)}")
        return self.questions

    def listed(self, problems: Sequence[Problem]) -> str:
        """A text about the first few `problems`, with the number of rows that share a problem."""
        rows: dict[str, list[str]] = defaultdict(list)
        for problem in problems:
            rows[problem.message].append(problem.row)
        shown = list(rows.items())[:_LISTED]
        text = "; ".join(f"{listed(names, 1)}: {message}" for message, names in shown)
        rest = len(problems) - sum(len(names) for _, names in shown)
        return text + (f"; and {rest:,} more" if rest > 0 else "") + self.advice


class Source(ABC):
    """The questions, videos and subtitles of the benchmark called `name`.

    Fetched files are stored in `folder`. `Benchmark.open_source` has checked the license.
    """

    def __init__(self, name: str, settings: BenchmarkSettings, folder: Path) -> None:
        self.name = name
        self.settings = settings
        self.folder = folder

    @property
    def is_fetched(self) -> bool:
        """True if the next run fetches missing files."""
        return True

    @property
    def has_subtitles(self) -> bool:
        """True if the benchmark has subtitles of at least some videos."""
        return True

    @property
    @abstractmethod
    def version(self) -> str:
        """Fingerprint of the questions. VideoMMEError if the user's folder has none."""

    @abstractmethod
    def questions(self) -> Sequence[Question]:
        """The selected questions, which are fetched if necessary, or VideoMMEError."""

    def stored_questions(self) -> AnnotationContent | None:
        """The questions before they are selected, or None if they have yet to be fetched."""
        return None

    def known_questions(self) -> Sequence[Question] | None:
        """The selected questions, or None if they have yet to be fetched."""
        stored = self.stored_questions()
        return None if stored is None else self.settings.select(stored.require())

    @abstractmethod
    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:
        """Fetch the missing files of `videos`, and return the reason of each failure by video id.

        VideoMMEError if no video can be fetched at all.
        """

    def video_file(self, video: VideoReference) -> locate.VideoSource:
        """The file of a video, or VideoMissingError."""
        return locate.locate_video(self._index, video)

    def subtitle(self, video: VideoReference) -> locate.MediaFile | None:
        """The subtitle file of a video, or None."""
        return self._index.subtitles.get(video.file_stem)

    @cached_property
    def roots(self) -> tuple[Path | UPath, ...]:
        """The folders that are searched for files."""
        return (self.folder,)

    def invalidate(self) -> None:
        """Drop the list of files, so that the folders are read again."""
        for cached in ("_index", "roots"):
            self.__dict__.pop(cached, None)

    @cached_property
    def _index(self) -> locate.MediaIndex:
        return locate.index_media(self.roots)
