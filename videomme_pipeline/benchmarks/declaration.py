"""The YAML file that declares a benchmark."""

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from videomme_pipeline.benchmarks.benchmark import Benchmark, DeclaredFacts, PublishedPrompt
from videomme_pipeline.benchmarks.columns import Columns, column_of
from videomme_pipeline.benchmarks.facets import Facet, FacetColumn, FacetFacts, Measure
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.benchmarks.source import Source
from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fetch.release import HubSpec, Release
from videomme_pipeline.fingerprint import Spec

LISTED = ("yes", "no")
"""The values of a facet of questions in a file, and of those that are not in it."""
PUBLISHED = Path(__file__).with_name("published")
"""The folder of the declarations of published benchmarks."""


def inside(path: str) -> str:
    """`path`, which must not lead out of its folder."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"the path {path!r} leads out of the folder; name a path inside of it")
    return path


RelativePath = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(inside)]
"""A path in the folder of the benchmark."""


class FacetSpec(FacetFacts):
    """One way to group the questions."""

    title: str | None = None
    column: str | None = None
    """Column of the dataset, if it has another name than the facet."""
    alias: str | None = None
    """Another name that annotations may have for the column."""
    required: bool = False
    """True if each question must have a value."""
    file: RelativePath | None = None
    """File with the ids of the questions whose value is `yes`, as a JSON list or one per line. The
    others have `no`, and the dataset has no column for the facet."""
    each: bool = False
    """True if a row has a list of `values`. Each value then becomes a facet of its own."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.each and not self.values:
            raise ValueError("`each` needs the list of all `values`")
        if len({type(value) for value in self.values or ()}) > 1:
            raise ValueError("`values` are texts or numbers, not both; quote those that are texts")
        return self


class AnnotationFile(Spec):
    """One annotation file: JSON, JSON lines, CSV, TSV or Parquet."""

    file: RelativePath
    rows: str | None = None
    """Key of the list of questions inside of each row, if a row is a video."""
    values: Mapping[str, str] = Field(default_factory=dict)
    """Values of columns that the file does not have, such as the task."""
    videos: RelativePath | None = None
    """Folder of the file's videos. Default: `videos` of the declaration."""
    frames_per_second: float | None = Field(default=None, gt=0)
    """The frame rate, if each video is a folder of pictures."""


class Declaration(DeclaredFacts):
    """One benchmark of multiple-choice questions on videos."""

    folder: Path | None = None
    """Your folder with the annotations and the videos, for a benchmark that is not published."""
    hub: HubSpec | None = None
    """The origin of a published benchmark."""
    annotations: tuple[AnnotationFile, ...]
    """The annotation files, or the path of the only one."""
    videos: RelativePath = "."
    """Folder of the videos."""
    subtitles: RelativePath | None = None
    """Folder of the subtitles. Without `subtitle_file`, a file is named like its video."""
    columns: Columns
    letters: int = Field(default=4, ge=2, le=len(Letter))
    """The largest number of options of a question."""
    facets: Mapping[FacetColumn, FacetSpec | None] = Field(default_factory=dict)
    published_prompts: Mapping[str, PublishedPrompt] = Field(default_factory=dict)
    """The published prompts by their sources (`authors`, `lmms_eval`, `vlmevalkit`). An evaluation
    selects one as `<benchmark>.<source>`, and the first one also by the name of the benchmark."""

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
        """The declaration in a YAML file. A ConfigurationError names its mistakes."""
        return parse_spec(read_yaml(path), cls, str(path))

    @cached_property
    def declared_facets(self) -> tuple[Facet, ...]:
        measure = Measure.GROUP_SCORE if self.grouping else Measure.ACCURACY
        facets = (_facets(name, spec or FacetSpec(), measure) for name, spec in self.facets.items())
        return tuple(chain.from_iterable(facets))

    @property
    def columns_of_facets(self) -> dict[str, FacetSpec]:
        """The declared facets that are columns of the dataset, by name."""
        specs = {name: spec or FacetSpec() for name, spec in self.facets.items()}
        return {name: spec for name, spec in specs.items() if not (spec.derivation or spec.file)}

    @property
    def facet_files(self) -> dict[str, str]:
        """The files that list the questions of declared facets, by facet."""
        return {name: spec.file for name, spec in self.facets.items() if spec and spec.file}

    @property
    def question_settings(self) -> dict[str, object]:
        """The settings that the questions depend on, as JSON."""
        others = {"title", "folder", "hub", "license", "bibtex", "prompt", "alignment", "reader"}
        others |= {"published_prompts", "is_public", "export_columns"}
        return self.model_dump(mode="json", exclude=others)

    def release(self, name: str, revision: str | None = None) -> Release | None:
        """The files on the hub at `revision`, or at the pinned one. None if it is not there."""
        if self.hub is None:
            return None
        return Release(
            benchmark=name,
            hub=self.hub,
            revision=revision or self.hub.revision,
            video_folder=self.videos,
            subtitle_folder=self.subtitles or self.videos,
            keeps_folders=self.columns.video_id is None,
        )

    def benchmark(self, path: Path, source: Callable[..., Source]) -> Benchmark:
        """The benchmark that this file declares, with the stem of its `path` as the name."""
        name = path.stem
        prompts = {f"{name}.{key}": prompt for key, prompt in self.published_prompts.items()}
        default = dict(zip([name], self.published_prompts.values(), strict=False))
        try:
            facets = self.declared_facets
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}; correct the file") from error
        own = {
            "name": name,
            "source": source,
            "facets": facets,
            "letters": tuple(Letter)[: self.letters],
            "has_text_cells": self.columns.options_are == "lines",
            "columns": self.columns,
            "prompt": name if default else self.prompt,
            "prompts": default | prompts,
            "repository": self.hub.repository if self.hub else None,
        }
        shared = {field: getattr(self, field) for field in DeclaredFacts.model_fields}
        return parse_spec(shared | own, Benchmark, str(path))


def _facets(name: str, spec: FacetSpec, measure: Measure) -> list[Facet]:
    """The facets that one entry of `facets` declares: one, or one per value."""
    title = spec.title or name.replace("_", " ").capitalize()
    own: list[dict[str, object]] = [{"column": name, "title": title}]
    if spec.file is not None:
        own[0] |= {"values": LISTED, "is_column": False}
    if spec.each:
        own = [
            {"column": column_of(name, str(v)), "title": f"{title}: {v}", "values": (v,)}
            for v in spec.values or ()
        ]
    shared = {field: getattr(spec, field) for field in FacetFacts.model_fields}
    return [
        parse_spec(shared | {"measure": measure} | facts, Facet, f"facet {name}") for facts in own
    ]
