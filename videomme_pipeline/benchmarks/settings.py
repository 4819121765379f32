"""The user's settings for one benchmark (`benchmarks.yaml`)."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.selection import Questions, Selection, group_by_video
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fetch.release import Revision
from videomme_pipeline.fingerprint import fingerprint


def _text_of_path(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


class SourceKind(StrEnum):
    """The origin of the files of a published benchmark."""

    HUB = "hub"
    FOLDER = "folder"


class BenchmarkSettings(Selection):
    """Settings of one benchmark: license, source of its files, and which videos to evaluate."""

    accept_license: bool = False
    """True if the user accepts the benchmark's terms. Nothing is fetched or read before that."""

    source: SourceKind = SourceKind.HUB

    folder: Annotated[str, BeforeValidator(_text_of_path)] | None = None
    """The user's own copy: an unzipped download, lmms-eval's cache or a VLMEvalKit folder, or the
    URL of an unzipped download in an object store."""

    annotations: Path | None = None
    """The annotation file, if it is not in `folder`."""

    revision: Revision | None = None
    """Commit of the hub repository (40 hexadecimal digits), or None for the pinned one."""

    videos: tuple[str, ...] | None = None
    """Ids of the videos to evaluate, or None for all."""

    limit: int | None = Field(default=None, ge=1)
    """Evaluate only the first `limit` videos."""

    keep_archives: bool = True
    """Keep archives that were downloaded whole after they are unzipped."""

    @model_validator(mode="after")
    def _require_folder(self) -> "BenchmarkSettings":
        if self.source is SourceKind.FOLDER and self.folder is None:
            raise ValueError("source: folder needs `folder`, the path of your copy")
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of the settings that select questions. Paths and `keep_archives` are not in it."""
        return fingerprint(
            revision=self.revision, videos=self.videos, limit=self.limit, **self.selected_by
        )

    def select(self, questions: Iterable[Question]) -> list[Question]:
        """The questions on the selected videos, in their published order.

        Raises:
            ConfigurationError: if the settings name a video, duration or facet that no question
                has.
        """
        all_questions = list(questions)
        by_video = group_by_video(all_questions)
        named = by_video if self.videos is None else _named(by_video, self.videos)
        chosen = self.of(named)
        if named and not chosen:
            raise ConfigurationError(
                f"`duration: {self.duration}` selects none of {len(named)} videos; remove the key, "
                "or choose a duration that the selected videos have"
            )
        first = set(islice(chosen, self.limit))
        return [question for question in all_questions if question.video_id in first]


def _named(by_video: Questions, names: Sequence[str]) -> Questions:
    ids = list(by_video)
    unknown = sorted(set(names).difference(ids))
    if unknown:
        raise ConfigurationError(
            f"`videos` names {', '.join(unknown[:10])}, but the benchmark has "
            f"{len(ids)} videos from {ids[0]} to {ids[-1]}; "
            "use the `video_id`, not the YouTube id"
        )
    return {video_id: by_video[video_id] for video_id in ids if video_id in set(names)}
