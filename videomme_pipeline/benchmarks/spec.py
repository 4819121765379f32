"""The user's settings for one benchmark (`benchmarks.yaml`), and the selection of its questions."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.benchmarks.subset import stratified_videos
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec, fingerprint

Revision = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


_Questions = Mapping[str, Sequence[Question]]
"""Questions by video id."""


class SourceKind(StrEnum):
    """Where the files of a published benchmark come from."""

    HUB = "hub"
    FOLDER = "folder"


class Subset(Spec):
    """A random sample of the videos. The same settings always select the same videos."""

    videos: int = Field(ge=1)
    stratify: tuple[str, ...] = ()
    """Facets whose values are represented in proportion, the most important one first."""

    seed: int = 0


class BenchmarkSpec(Spec):
    """Settings of one benchmark: license, source of its files, and which videos to evaluate."""

    accept_license: bool = False
    """True if the user accepts the benchmark's terms. Nothing is fetched or read before that."""

    source: SourceKind = SourceKind.HUB

    folder: Path | None = None
    """The user's own copy: an unzipped download, lmms-eval's cache or a VLMEvalKit folder."""

    annotations: Path | None = None
    """The annotation file, if it is not in `folder`."""

    revision: Revision | None = None
    """Commit of the hub repository (40 hexadecimal digits), or None for the pinned one."""

    videos: tuple[str, ...] | None = None
    """Ids of the videos to evaluate, or None for all."""

    duration: Duration | None = None
    """Evaluate only the videos of this duration class."""

    subset: Subset | None = None
    """Evaluate only a random sample of the videos that the keys above select."""

    limit: int | None = Field(default=None, ge=1)
    """Evaluate only the first `limit` videos."""

    keep_archives: bool = True
    """Keep archives that were downloaded whole after they are unzipped."""

    @model_validator(mode="after")
    def _require_folder(self) -> "BenchmarkSpec":
        if self.source is SourceKind.FOLDER and self.folder is None:
            raise ValueError("source: folder needs `folder`, the path of your copy")
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of the settings that select questions. Paths and `keep_archives` are not in it."""
        later = {"duration": self.duration, "subset": self.subset}
        return fingerprint(
            revision=self.revision,
            videos=self.videos,
            limit=self.limit,
            **{name: value for name, value in later.items() if value is not None},
        )


def select(questions: Iterable[Question], spec: BenchmarkSpec) -> list[Question]:
    """The questions on the videos that `spec` selects, in their published order.

    Raises:
        ConfigurationError: if `spec` names a video, duration or facet that no question has.
    """
    all_questions = list(questions)
    by_video: dict[str, list[Question]] = {}
    for question in all_questions:
        by_video.setdefault(question.video_id, []).append(question)
    chosen: _Questions = by_video
    if spec.videos is not None:
        chosen = _named(by_video, spec.videos)
    if spec.duration is not None:
        chosen = _of_duration(chosen, spec.duration)
    names = chosen if spec.subset is None else _sample(chosen, spec.subset)
    wanted = set(islice(names, spec.limit))
    return [question for question in all_questions if question.video_id in wanted]


def _named(by_video: _Questions, names: Sequence[str]) -> _Questions:
    known = list(by_video)
    unknown = sorted(set(names).difference(known))
    if unknown:
        raise ConfigurationError(
            f"`videos` names {', '.join(unknown[:10])}, but the benchmark has "
            f"{len(known)} videos from {known[0]} to {known[-1]}; "
            "use the `video_id`, not the YouTube id"
        )
    return {video_id: by_video[video_id] for video_id in known if video_id in set(names)}


def _of_duration(by_video: _Questions, duration: Duration) -> _Questions:
    chosen = {name: found for name, found in by_video.items() if found[0].duration is duration}
    if not chosen:
        raise ConfigurationError(
            f"`duration: {duration}` selects none of {len(by_video)} videos; remove the key, or "
            "choose a duration that the selected videos have"
        )
    return chosen


def _sample(by_video: _Questions, subset: Subset) -> tuple[str, ...]:
    facets = {name for found in by_video.values() for row in found for name in row.facets}
    unknown = [name for name in subset.stratify if name not in facets]
    if unknown:
        raise ConfigurationError(
            f"`subset`: no question has the facet `{unknown[0]}`; stratify by "
            f"{', '.join(sorted(facets)) or 'nothing'}"
        )
    return stratified_videos(by_video, subset.videos, subset.stratify, subset.seed)
