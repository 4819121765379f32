"""The stored files that readers show: one of the files of each partition.

Several files of a partition can be stored, because a file is never replaced. Of the scores of an
evaluation, those with the current settings are shown, if they are stored. Otherwise those are shown
that the last run recorded. Scores are their own manifest: `evaluated_videos` names the questions,
videos, subtitles, prompts and responses that they were computed from, and readers show these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any

from upath import UPath

from videomme_pipeline.errors import DamagedFileError, StorageError
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.names import Planned, StageNames, StoredName
from videomme_pipeline.storage.records import append_record, sequence, timed_name
from videomme_pipeline.storage.tables import read_table

MANIFEST = {
    "questions": "from_questions",
    "videos": "from_video",
    "subtitles": "from_subtitles",
    "prompts": "from_prompts",
    "responses": "from_responses",
    "attempts": "from_responses",
    "frames": "frames_fingerprint",
}
"""The column of `evaluated_videos` with the fingerprint of a stage's file, by stage."""


@dataclass(frozen=True, kw_only=True)
class ShownScores:
    """The scores of an evaluation that readers show."""

    results: "Results"
    benchmark: str
    evaluation: str
    name: StoredName

    @property
    def path(self) -> UPath:
        return self.results.store.built(self.benchmark, "scores", self.name)

    @property
    def evaluated_videos(self) -> UPath:
        return self.results.store.built(self.benchmark, "evaluated_videos", self.name)

    @cached_property
    def manifest(self) -> list[dict[str, Any]]:
        """The video and the fingerprints of the inputs, once per video; empty if it is lost."""
        columns = ["video_id", "video_hash", *dict.fromkeys(MANIFEST.values())]
        try:
            rows: list[dict[str, Any]] = read_table(self.evaluated_videos, columns).to_pylist()
        except (DamagedFileError, FileNotFoundError, StorageError):
            return []
        return list({row["video_id"]: row for row in rows}.values())

    def files(self, stage: str, variant: str | None = None) -> dict[str, UPath]:
        """The stored files of a stage that the scores were computed from, by video.

        `variant` is the track of subtitles, and by default the evaluation.
        """
        names = self.results.names(self.benchmark, stage)
        files = {}
        for row in self.manifest:
            fingerprint = row[MANIFEST[stage]]
            name = fingerprint and names.best(
                variant or self.evaluation, row["video_id"], fingerprint
            )
            if name:
                files[row["video_id"]] = self.results.store.built(self.benchmark, stage, name)
        return files


class Results:
    """The files of a store that readers show, as of now.

    With a project, scores of an evaluation whose file was deleted are not shown. Without
    `uses_plan`, the files are those that runs recorded, even if current ones are stored.
    `benchmark` limits the results to one benchmark.
    """

    def __init__(
        self, store: Store, *, uses_plan: bool = True, benchmark: str | None = None
    ) -> None:
        self.store = store
        self._benchmark = benchmark
        self.names: Callable[[str, str], StageNames] = cache(store.names)
        """The names of the files of a benchmark and stage. Each folder is listed once."""
        self._scores_of: Callable[[str], list[ShownScores]] = cache(self._find_scores)
        self._planned = store.planned() if uses_plan else {}

    @cached_property
    def benchmarks(self) -> list[str]:
        """The benchmarks with stored questions or scores, sorted."""
        return self.store.benchmarks() if self._benchmark is None else [self._benchmark]

    def scores(self, benchmark: str | None = None) -> list[ShownScores]:
        """The shown scores of a benchmark or of all, sorted by benchmark and evaluation."""
        chosen = self.benchmarks if benchmark is None else [benchmark]
        return [shown for name in chosen for shown in self._scores_of(name)]

    def find(self, evaluation: str) -> ShownScores | None:
        """The shown scores of an evaluation, or None if it has none."""
        return next((s for s in self.scores() if s.evaluation == evaluation), None)

    def _find_scores(self, benchmark: str) -> list[ShownScores]:
        names = self.names(benchmark, "scores").by_partition
        recorded = _records(self.names(benchmark, "shown"))
        planned, shown = self._planned_of(benchmark).scores, list[ShownScores]()
        for evaluation in sorted({variant for variant, _ in names if variant}):
            if self._planned and evaluation not in self._evaluations:
                continue
            fingerprints = [fingerprint for _, fingerprint in recorded.get(evaluation, ())]
            order = filter(None, [planned.get(evaluation), *fingerprints])
            stored = (self._stored_scores(benchmark, evaluation, f) for f in order)
            shown += [*filter(None, stored)][:1]
        return shown

    def _stored_scores(
        self, benchmark: str, evaluation: str, fingerprint: str
    ) -> ShownScores | None:
        name = self.names(benchmark, "scores").best(evaluation, None, fingerprint)
        if name is None:
            return None
        return ShownScores(results=self, benchmark=benchmark, evaluation=evaluation, name=name)

    def recorded_since(self, benchmark: str, timestamp: float) -> list[ShownScores]:
        """The scores of a benchmark that were recorded since a time, and the newest ones before."""
        recorded = _records(self.names(benchmark, "shown"))
        stored = (
            self._stored_scores(benchmark, evaluation, fingerprint)
            for evaluation, records in recorded.items()
            for number, (time, fingerprint) in enumerate(records)
            if number == 0 or time.timestamp() >= timestamp
        )
        return [scores for scores in stored if scores is not None]

    @cached_property
    def _evaluations(self) -> frozenset[str]:
        return frozenset[str]().union(*(p.evaluations for p in self._planned.values()))

    def _planned_of(self, benchmark: str) -> Planned:
        return self._planned.get(benchmark, Planned(evaluations=frozenset()))

    def questions(self, benchmark: str) -> UPath | None:
        """The file of the questions: the current one if it is stored, else that of shown scores."""
        names = self.names(benchmark, "questions")
        stored = [name.fingerprint for name in names.by_partition.get((None, None), ())]
        used = (row["from_questions"] for s in self.scores(benchmark) for row in s.manifest[:1])
        planned = self._planned_of(benchmark).questions
        chosen = next((f for f in (planned, *used) if f in stored), None)
        if chosen is None and stored:
            chosen = stored[-1]
        return None if chosen is None else self._built(benchmark, "questions", chosen)

    def videos(self, benchmark: str) -> dict[str, UPath]:
        """The rows of the videos, by video: current ones, else those of shown scores."""
        names = self.names(benchmark, "videos")
        chosen = {
            str(video): stored[-1].fingerprint for (_, video), stored in names.by_partition.items()
        }
        for scores in self.scores(benchmark):
            chosen |= {
                row["video_id"]: row["from_video"] for row in scores.manifest if row["from_video"]
            }
        chosen |= self._planned_of(benchmark).videos
        return {
            video: self._built(benchmark, "videos", fingerprint, video)
            for video, fingerprint in sorted(chosen.items())
            if names.best(None, video, fingerprint)
        }

    def _built(
        self, benchmark: str, stage: str, fingerprint: str, video: str | None = None
    ) -> UPath:
        name = StoredName(variant=None, video=video, fingerprint=fingerprint)
        return self.store.built(benchmark, stage, name)


def record_shown(
    store: Store,
    benchmark: str,
    evaluation: str,
    fingerprint: str,
    specification: Mapping[str, Any],
) -> None:
    """Record that the scores of an evaluation are those with this fingerprint, if that is new."""
    folder = store.shown(benchmark, evaluation)
    newest = next(reversed(sequence(folder)), None)
    if newest is None or newest[1] != fingerprint:
        append_record(
            folder, fingerprint, {"specification": dict(specification)}, datetime.now(UTC)
        )


def _records(names: StageNames) -> dict[str, list[tuple[datetime, str]]]:
    """The times and fingerprints of the shown scores of each evaluation, the newest first."""
    records: dict[str, list[tuple[datetime, str]]] = {}
    for text in sorted(names.texts, reverse=True):
        evaluation, _, name = text.rpartition("/")
        if evaluation and (timed := timed_name(name)):
            records.setdefault(evaluation, []).append(timed)
    return records
