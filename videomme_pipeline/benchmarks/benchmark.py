"""A benchmark: everything that differs from one benchmark to the next."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from videomme_pipeline.benchmarks.columns import Columns
from videomme_pipeline.benchmarks.facets import Facet, Measure
from videomme_pipeline.benchmarks.groups import Grouping
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.benchmarks.source import Source
from videomme_pipeline.configuration import MAX_NAME_CHARACTERS, is_name
from videomme_pipeline.errors import AnnotationError, LicenseNotAcceptedError
from videomme_pipeline.fingerprint import Spec


class Size(Spec):
    """Counts of the complete benchmark, with which scores are compared; None where not known."""

    videos: int | None = Field(default=None, ge=1)
    questions_per_video: int | None = Field(default=None, ge=1)
    """The number of questions on each video. Annotations with any other number are rejected."""
    questions: int | None = Field(default=None, ge=1)
    """The number of questions. It follows from the other two if they are declared."""
    videos_with_subtitles: int | None = Field(default=None, ge=0)
    videos_by: Mapping[str, int] = Field(default_factory=dict)
    """The number of videos that each value of a facet has, by facet."""

    @model_validator(mode="before")
    @classmethod
    def _count_questions(cls, value: object) -> object:
        counts = value if isinstance(value, dict) else {}
        videos, per_video = counts.get("videos"), counts.get("questions_per_video")
        if isinstance(videos, int) and isinstance(per_video, int):
            return {"questions": videos * per_video, **counts}
        return value


class License(Spec):
    """The terms of use of a benchmark's questions and videos."""

    name: str
    terms: str
    """A short statement of the terms, for messages."""
    url: str
    """The page with the full text."""
    needs_acceptance: bool = True
    """True if nothing is fetched or read before the user accepts the terms."""


class PublishedPrompt(Spec):
    """A published prompt: Jinja texts of the user's message and of the system message."""

    text: str
    system: str | None = None


class DeclaredFacts(Spec):
    """The facts about a benchmark that its file and the benchmark itself state alike."""

    title: str
    license: License | None = None
    """None for data that is drawn on this machine, or is the user's own."""
    crossings: tuple[tuple[str, str], ...] = ()
    """Pairs of facets with a common breakdown."""
    strata: tuple[str, ...] = ()
    """Facets whose values a subset represents in proportion."""
    grouping: Grouping | None = None
    """The rule by which the questions on one video share one score. Facets and the headline score
    are then about groups."""
    mean_of: str | None = None
    """The facet over whose values the headline score is the mean of the accuracies. Without it,
    the headline score is the accuracy, or the group score."""
    size: Size = Size()
    prompt: str = "contract_v1"
    """The prompt that `videomme init` suggests."""
    alignment: str = "window-500"
    """The alignment that `videomme init` suggests."""
    reader: str = "careful"
    """The published reader, which official reports use."""
    bibtex: str | None = None
    """The paper to cite with a score, as a BibTeX entry."""
    is_public: bool = False
    """True if questions and frames may be shown to anyone."""
    export_columns: tuple[str, ...] | None = None
    """The columns of a question in exported results files, in order, if not all."""


class Benchmark(DeclaredFacts):
    """One benchmark.

    `facets` are in display order. The first one divides the benchmark into the fewest parts.
    `letters` are the letters of the question with the most options. Benchmarks about the same
    videos share a `media_folder`. `prompts` are the published prompts by the names with which an
    evaluation selects them.
    """

    name: str
    source: Callable[[str, BenchmarkSettings, Path], Source]
    """The class of its source, or a function that returns one. `open_source` calls it with the name
    of the benchmark, the user's settings and the media folder."""
    facets: tuple[Facet, ...]
    letters: tuple[Letter, ...] = tuple(Letter)[:4]
    has_text_cells: bool = False
    """True if the dataset has all options, and each number, as one text."""
    columns: Columns | None = None
    """The columns of the dataset, if it is declared."""
    media_folder: str | None = None
    prompts: Mapping[str, PublishedPrompt] = Field(default_factory=dict)
    repository: str | None = None
    """Dataset repository on the Hugging Face Hub under which scores are filed, or None."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if not is_name(self.name):
            raise ValueError(
                f"benchmark {self.name!r}: use letters, digits, `.`, `_`, `-` in its name, at most "
                f"{MAX_NAME_CHARACTERS} characters"
            )
        columns = {facet.column for facet in self.facets}
        named = {*chain.from_iterable(self.crossings), *self.strata, *self.size.videos_by}
        if self.mean_of is not None:
            if self.grouping:
                raise ValueError(
                    f"benchmark {self.name}: the headline score of groups is the group score; "
                    "remove `mean_of`"
                )
            named.add(self.mean_of)
        if self.grouping and self.grouping.chain:
            named |= {self.grouping.chain.facet, self.grouping.chain.structure}
        if unknown := sorted(named - columns):
            raise ValueError(f"benchmark {self.name}: facet {unknown[0]!r} is not declared")
        if self.letters != tuple(Letter)[: len(self.letters)]:
            raise ValueError(f"benchmark {self.name}: `letters` must be A, B, C … in order")
        return self

    def open_source(self, settings: BenchmarkSettings, folder: Path) -> Source:
        """Open the source of its questions and videos. Nothing is fetched or read yet.

        LicenseNotAcceptedError if the license needs acceptance, and `settings` does not accept it.
        """
        if self.license and self.license.needs_acceptance and not settings.accept_license:
            raise LicenseNotAcceptedError(self.name, self.license.terms, self.license.url)
        return self.source(self.name, settings, folder)

    @property
    def headline(self) -> str:
        """The score that ranks evaluations. That of `mean_of` is the name of a SQL view."""
        if self.mean_of is not None:
            return f"mean_over_{self.mean_of}"
        return "group_score" if self.grouping else "accuracy"

    @property
    def group_facet(self) -> str | None:
        """The facet that distinguishes chains from other groups, if there are chains."""
        return self.grouping.chain.facet if self.grouping and self.grouping.chain else None

    def check_letters(self, questions: Iterable[Question]) -> None:
        """Check that the benchmark has a letter for each option, and a question for its answer."""
        for question in questions:
            item = f"{self.name}, question {question.question_id}"
            if len(question.options) > len(self.letters):
                raise AnnotationError(
                    f"{item}: {len(question.options)} options, but the benchmark declares "
                    f"{len(self.letters)} letters ({', '.join(self.letters)}); declare more "
                    "`letters`, or correct the question"
                )
            if question.answer not in question.letters:
                raise AnnotationError(
                    f"{item}: the answer is {question.answer}, but the options are "
                    f"{', '.join(question.letters)}; correct the question"
                )

    @property
    def exported_columns(self) -> tuple[str, ...]:
        """Columns of a question in exported result files, in order."""
        facets = (facet.column for facet in self.published_facets)
        default = ("video_id", *facets, "question_id", "question", "options", "answer")
        return self.export_columns or default

    @property
    def published_facets(self) -> tuple[Facet, ...]:
        """Facets that are columns of the dataset."""
        return tuple(f for f in self.facets if f.derivation is None and f.is_column)

    @property
    def shown_facets(self) -> tuple[Facet, ...]:
        """Facets that have a breakdown, in display order."""
        return tuple(facet for facet in self.facets if facet.shown)

    def facet(self, column: str) -> Facet:
        """The facet stored in `column`, or KeyError."""
        return {facet.column: facet for facet in self.facets}[column]

    def tested_facets(self, measure: Measure) -> tuple[str, ...]:
        """Columns of the facets with `measure` whose values comparisons test one by one.

        Crossings of facets are shown, but never tested.
        """
        return tuple(
            facet.column for facet in self.shown_facets if facet.tested and facet.measure is measure
        )

    def breakdowns(self, measure: Measure) -> dict[str, tuple[str, ...]]:
        """Facet columns of each breakdown that shows `measure`, by the name of its SQL view."""
        facets = {
            facet.view: (facet.column,) for facet in self.shown_facets if facet.measure is measure
        }
        if measure is Measure.GROUP_SCORE:
            return {"group_score_overall": (), **facets} if self.grouping else {}
        crossed = {f"by_{first}_and_{second}": (first, second) for first, second in self.crossings}
        return {"overall": (), **facets, **crossed}
