"""Keys that select some videos of a benchmark, in benchmarks.yaml and in evaluation files."""

from collections.abc import Iterable, Mapping, Sequence

from blake3 import blake3
from pydantic import Field

from videomme_pipeline.benchmarks.question import Duration, Question
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.fingerprint import Spec

Questions = Mapping[str, Sequence[Question]]
"""Questions by video id."""


def group_by_video(questions: Iterable[Question]) -> dict[str, tuple[Question, ...]]:
    """The questions by video id, in their order."""
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


class Selection(Spec):
    """The videos of one duration, a random sample, or both. By default, all videos."""

    duration: Duration | None = None
    """Evaluate only the videos of this duration class."""

    subset: Subset | None = None
    """Evaluate only a random sample of the videos of that duration, or of all videos."""

    @property
    def selected_by(self) -> dict[str, object]:
        """The keys that select videos, as JSON. Empty if all videos are selected."""
        values = Selection(duration=self.duration, subset=self.subset).model_dump(mode="json")
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def stored_in(cls, settings: Mapping[str, object]) -> "Selection":
        """The selection among the stored settings of an evaluation."""
        return cls.model_validate(
            {key: settings[key] for key in cls.model_fields if key in settings}
        )

    def of(self, questions: Questions) -> Questions:
        """The part of `questions` on the selected videos; empty if none has that duration.

        Raises:
            ConfigurationError: if `subset` names a facet that no question has.
        """
        chosen = questions
        if self.duration is not None:
            chosen = {
                video_id: rows
                for video_id, rows in questions.items()
                if rows[0].duration is self.duration
            }
        return _sample(chosen, self.subset) if self.subset and chosen else chosen


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
