"""The user's settings for one benchmark (`benchmarks.yaml`), and the selection of its videos."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, Self

from blake3 import blake3
from pydantic import BeforeValidator, Field, model_validator

from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fetch.release import Revision
from videomme_pipeline.fingerprint import Spec, fingerprint

Questions = Mapping[str, Sequence[Question]]
"""Questions by video id."""


def group_by_video(questions: Iterable[Question]) -> dict[str, tuple[Question, ...]]:
    by_video: dict[str, list[Question]] = {}
    for question in questions:
        by_video.setdefault(question.video_id, []).append(question)
    return {video_id: tuple(rows) for video_id, rows in by_video.items()}


class Subset(Spec):
    """A random sample of the videos. The same settings always select the same videos."""

    videos: int = Field(ge=1)
    stratify: tuple[str, ...] = ()
    """Facets whose values are represented in proportion, the most important one first."""
    seed: int = 0


class VideoSelection(Spec):
    """The videos of one duration, a random sample, or both. By default, all videos."""

    duration: Duration | None = None
    """Evaluate only the videos of this duration class."""
    subset: Subset | None = None
    """Evaluate only a random sample of the videos that `duration` selects."""

    @property
    def selected_by(self) -> dict[str, object]:
        """The keys that select videos and questions, as JSON. Empty if all are selected."""
        keys = set(Selection.model_fields)
        return self.model_dump(mode="json", include=keys, exclude_none=True)

    def of(self, questions: Questions) -> Questions:
        """The part of `questions` on the selected videos; empty if none has that duration."""
        chosen = questions
        if self.duration is not None:
            chosen = {
                video_id: rows
                for video_id, rows in questions.items()
                if rows[0].duration is self.duration
            }
        return _sample(chosen, self.subset) if self.subset and chosen else chosen


class Selection(VideoSelection):
    """The questions of an evaluation: those on the selected videos, or a chosen list of them."""

    questions: tuple[str, ...] | None = None
    """Ids of the only questions to ask. The score of a chosen list says nothing about the
    benchmark, so it is shown apart and never cited."""

    @classmethod
    def stored_in(cls, settings: Mapping[str, object]) -> Self:
        """The selection among the stored settings of an evaluation."""
        return cls.model_validate(
            {key: settings[key] for key in cls.model_fields if key in settings}
        )

    def of(self, questions: Questions) -> Questions:
        selected = super().of(questions)
        if self.questions is None:
            return selected
        chosen = set(self.questions)
        listed = (row for rows in selected.values() for row in rows if row.question_id in chosen)
        return group_by_video(listed)


def _text_of_path(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


class BenchmarkSettings(VideoSelection):
    """Settings of one benchmark: license, source of its files, and which videos to evaluate."""

    accept_license: bool = False
    """True if the user accepts the benchmark's terms. Nothing is fetched or read before that."""
    source: Literal["hub", "folder"] = "hub"
    """The origin of the files of a published benchmark."""
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
    needs_video: str | None = None
    """A blind evaluation. A question that it answers correctly does not need the video, which is a
    value of the facet `needs_video` of all other evaluations."""
    keep_archives: bool = True
    """Keep archives that were downloaded whole after they are unzipped."""

    @model_validator(mode="after")
    def _require_folder(self) -> "BenchmarkSettings":
        if self.source == "folder" and self.folder is None:
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

        ConfigurationErrors name videos, durations and facets that no question has.
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
    if unknown := sorted(set(names).difference(ids)):
        raise ConfigurationError(
            f"`videos` names {', '.join(unknown[:10])}, but the benchmark has "
            f"{len(ids)} videos from {ids[0]} to {ids[-1]}; "
            "use the `video_id`, not the YouTube id"
        )
    return {video_id: by_video[video_id] for video_id in ids if video_id in set(names)}


def _sample(questions: Questions, subset: Subset) -> Questions:
    all_facets = [row.facets for rows in questions.values() for row in rows]
    unknown = [name for name in subset.stratify if not any(name in facets for facets in all_facets)]
    if unknown:
        names = sorted({name for facets in all_facets for name in facets})
        raise ConfigurationError(
            f"`subset`: no question has the facet `{unknown[0]}`; stratify by "
            f"{', '.join(names) or 'nothing'}"
        )
    videos = stratified_videos(questions, subset.videos, subset.stratify, subset.seed)
    return {video_id: questions[video_id] for video_id in videos}


def stratified_videos(
    questions: Mapping[str, Sequence[Question]],
    videos: int,
    strata: Sequence[str],
    seed: int | None = None,
) -> tuple[str, ...]:
    """Draw `videos` video ids, each stratum in proportion. The result is always the same.

    Systematic sampling over the videos, ordered by the facets `strata`, and by a hash of `seed` and
    the id within a stratum. The result is all videos if there are no more than `videos`.
    """
    ordered = sorted(questions, key=lambda video: _order(video, questions[video], strata, seed))
    if videos >= len(ordered):
        return tuple(questions)
    chosen = {ordered[(2 * n + 1) * len(ordered) // (2 * videos)] for n in range(videos)}
    return tuple(video_id for video_id in questions if video_id in chosen)


def _order(
    video_id: str, questions: Sequence[Question], strata: Sequence[str], seed: int | None
) -> tuple[str, ...]:
    last = questions[-1]  # the first release of v2 has the level in the last row of a group only
    hashed = video_id if seed is None else f"{seed} {video_id}"
    return (
        *(str(last.facets.get(column, "")) for column in strata),
        blake3(hashed.encode()).hexdigest(),
    )
