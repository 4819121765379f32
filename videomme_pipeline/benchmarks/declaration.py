"""The YAML file that declares a benchmark."""

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from videomme_pipeline.benchmarks.benchmark import Benchmark, Headline, License, Metric, Size
from videomme_pipeline.benchmarks.columns import Columns, column_of
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.benchmarks.facets import Facet
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.benchmarks.settings import Revision
from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fetch.release import Release
from videomme_pipeline.fingerprint import Spec


def _inside(path: str) -> str:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"{path} leads out of the folder; name a path inside of it")
    return path


RelativePath = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_inside)]
"""A path in the folder of the benchmark."""


class LicenseSpec(Spec):
    """The terms of use. Nothing is fetched or read before the user accepts them."""

    name: str
    terms: str
    """A short statement of the terms, for messages."""
    url: str
    """The page with the full text."""


class FacetSpec(Spec):
    """One way to group the questions."""

    title: str | None = None
    column: str | None = None
    """Column of the dataset, if it has another name than the facet."""
    values: tuple[str, ...] | None = None
    """The values in display order, or None for any values."""
    value_title: str = "{}"
    """Format of a value for display, such as "{} s"."""
    of_video: bool = False
    """True if all questions on one video have the same value."""
    each: bool = False
    """True if a row has a list of `values`. Each value then becomes a facet of its own."""

    @model_validator(mode="after")
    def _values_of_each(self) -> Self:
        if self.each and not self.values:
            raise ValueError("`each` needs the list of all `values`")
        return self


class HubSpec(Spec):
    """A dataset repository on the Hugging Face Hub."""

    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: Revision | None = None
    """The pinned commit. Without one, the user sets `revision` in benchmarks.yaml."""
    archives: tuple[str, ...] = ()
    """Archives with the videos: `.zip`, `.tar` or `.tar.gz`."""
    parts: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """The files of each archive that is split, in order."""
    subtitles: str | None = None
    """The archive with the subtitles."""
    sha256: Mapping[str, str] = Field(default_factory=dict)
    """Published checksums. The others are those that the hub reports for the commit."""
    has_videos: bool = True
    """False if the repository has only the annotations, so that videos come from a folder."""


class AnnotationFile(Spec):
    """One annotation file: JSON, JSON lines, CSV, TSV or Parquet."""

    file: RelativePath
    rows: str | None = None
    """Key of the list of questions inside of each row, if a row is a video."""
    values: Mapping[str, str] = Field(default_factory=dict)
    """Values of columns that the file does not have, such as the task."""
    videos: RelativePath | None = None
    """Folder of its videos, if it is not that of the declaration."""
    frames_per_second: float | None = Field(default=None, gt=0)
    """The frame rate, if each video is a folder of pictures."""


class SizeSpec(Spec):
    """Counts of the complete benchmark, with which scores are compared."""

    videos: int | None = Field(default=None, ge=1)
    questions: int | None = Field(default=None, ge=1)


class Declaration(Spec):
    """One benchmark of multiple-choice questions on videos."""

    title: str
    folder: Path | None = None
    """Your folder with the annotations and the videos, for a benchmark that is not published."""
    hub: HubSpec | None = None
    """Where a published benchmark comes from."""
    license: LicenseSpec | None = None
    annotations: tuple[AnnotationFile, ...]
    """The annotation files, or the path of the only one."""
    videos: RelativePath = "."
    """Folder of the videos."""
    subtitles: RelativePath | None = None
    """Folder of the subtitle files. Without the column `subtitle_file`, a file has the name of its
    video."""
    columns: Columns
    letters: int = Field(default=4, ge=2, le=len(Letter))
    """The largest number of options of a question."""
    facets: Mapping[str, FacetSpec | None] = Field(default_factory=dict)
    crossings: tuple[tuple[str, str], ...] = ()
    """Pairs of facets with a common breakdown."""
    strata: tuple[str, ...] = ()
    """Facets whose values a subset represents in proportion."""
    mean_of: str | None = None
    """The facet over whose values the headline score is the mean of the accuracies. Without it,
    the headline score is the accuracy."""
    size: SizeSpec = SizeSpec()
    prompt: str = "contract_v1_exact"
    """The prompt that `videomme init` suggests."""
    published_prompt: str | None = None
    """The text of the published prompt, in Jinja. Evaluations select it by the benchmark's name."""
    alignment: str = "window-500"
    reader: str = "strict"
    bibtex: str | None = None
    is_public: bool = False
    """True if questions and frames may be shown to anyone."""

    @model_validator(mode="before")
    @classmethod
    def _one_annotation_file(cls, value: object) -> object:
        if isinstance(value, dict) and isinstance(value.get("annotations"), str):
            return value | {"annotations": [{"file": value["annotations"]}]}
        return value

    @model_validator(mode="after")
    def _hub_or_folder(self) -> Self:
        if (self.hub is None) == (self.folder is None):
            raise ValueError("set either `folder` (your own benchmark) or `hub` (a published one)")
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """The declaration in a YAML file.

        Raises:
            ConfigurationError: if the file has a mistake. The message names it.
        """
        return parse_spec(read_yaml(path), cls, str(path))

    @cached_property
    def declared_facets(self) -> tuple[Facet, ...]:
        """Its facets, in order."""
        return tuple(
            facet
            for column, spec in self.facets.items()
            for facet in _facets(column, spec or FacetSpec())
        )

    @property
    def question_settings(self) -> dict[str, object]:
        """The settings that the questions depend on, as JSON."""
        others = {"title", "folder", "hub", "license", "bibtex", "prompt", "alignment", "reader"}
        return self.model_dump(mode="json", exclude=others | {"published_prompt", "is_public"})

    def release(self, name: str) -> Release | None:
        """The files on the hub of the benchmark called `name`, or None if it is not there."""
        if self.hub is None:
            return None
        return Release(
            benchmark=name,
            repository=self.hub.repository,
            revision=self.hub.revision or "",
            annotations=self.annotations[0].file,
            subtitles=self.hub.subtitles or "",
            archives=self.hub.archives if self.hub.has_videos else (),
            parts=self.hub.parts,
            sha256=self.hub.sha256,
            video_folder=self.videos,
            subtitle_folder=self.subtitles or self.videos,
            keeps_folders=True,
        )

    def benchmark(self, name: str, path: Path) -> Benchmark:
        """The benchmark called `name` that this file at `path` declares.

        Raises:
            ConfigurationError: if the facets contradict each other.
        """
        headline = Headline()
        if self.mean_of is not None:
            headline = Headline(metric=Metric.MEAN_OF, facet=self.mean_of)
        try:
            return Benchmark(
                name=name,
                title=self.title,
                source=partial(DeclaredSource, declaration=self),
                facets=self.declared_facets,
                license=License(**self.license.model_dump()) if self.license else None,
                crossings=self.crossings,
                strata=self.strata,
                letters=tuple(Letter)[: self.letters],
                headline=headline,
                size=Size(videos=self.size.videos, all_questions=self.size.questions),
                is_public=self.is_public,
                prompt=name if self.published_prompt else self.prompt,
                prompt_text=self.published_prompt,
                alignment=self.alignment,
                reader=self.reader,
                bibtex=self.bibtex,
                repository=self.hub.repository if self.hub else None,
            )
        except ValueError as error:
            raise ConfigurationError(f"{path}: {error}; correct the file") from error


def _facets(column: str, spec: FacetSpec) -> list[Facet]:
    """The facets that one entry of `facets` declares: one, or one per value."""
    title = spec.title or column.replace("_", " ").capitalize()
    if not spec.each:
        return [
            Facet(
                column=column,
                title=title,
                values=spec.values,
                value_title=spec.value_title,
                is_of_video=spec.of_video,
            )
        ]
    return [
        Facet(column=column_of(column, value), title=f"{title}: {value}", values=(value,))
        for value in spec.values or ()
    ]
