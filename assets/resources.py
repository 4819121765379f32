"""What the stages share: the configuration, the store, and one benchmark's questions and videos.

Everything here is read from files when it is first asked for, never at import.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from assets.dagster_internals.processes import note_process
from assets.dagster_internals.slots import Slots, StepContext, endpoint_pool, machine_pool
from assets.errors import NotReadyError
from assets.failures import FailureLog
from assets.partitions import Partitions
from assets.versions import Versions
from videomme_pipeline.benchmarks.media import Media, media_folder_name, open_media
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import ConfigurationError, CostLimitError
from videomme_pipeline.evaluation import Configuration, Evaluation, read_configuration
from videomme_pipeline.fetch.release import VideoReference
from videomme_pipeline.frames.sampling import Sampling
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.store import RowFolder, Store, StoredRow, read_rows, stored_fingerprint
from videomme_pipeline.videos.probe import HashCache, Video, content_hash

CONFIGURATION_VARIABLE = "VIDEOMME_CONFIGURATION"
DATA_VARIABLE = "VIDEOMME_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a stage is: `done` of `total` items of `what`."""

    what: str
    done: int
    total: int


def no_progress(progress: Progress) -> None:
    """For whoever does not watch."""


@dataclass(kw_only=True)
class Spending:
    """What one run may spend on models, over all its evaluations, and what it has spent.

    `stops` say of each evaluation that ran out of money how to go on. Once a request did not fit
    into what was left, it `is_used_up`: nothing that costs is asked. No fingerprint knows of it.
    """

    run_id: str | None = None
    most_dollars: float | None = None
    spent_dollars: float = 0.0
    is_used_up: bool = False
    stops: list[str] = field(default_factory=list)

    @property
    def stopped_by(self) -> str | None:
        """The first of the `stops`: what comes after it finds no money either."""
        return next(iter(self.stops), None)

    @property
    def left_dollars(self) -> float | None:
        """None without a limit."""
        if self.most_dollars is None:
            return None
        return 0.0 if self.is_used_up else max(self.most_dollars - self.spent_dollars, 0.0)

    def begin(self, run_id: str, most_dollars: float | None) -> None:
        """Count anew in every step of another run."""
        if run_id != self.run_id:
            self.run_id, self.most_dollars = run_id, most_dollars
            self.spent_dollars, self.is_used_up, self.stops = 0.0, False, []

    def stop(self, name: str, error: CostLimitError, own_limit: float | None) -> CostLimitError:
        """What to say where `error` ended the asking under `name`: it was its model's `own_limit`,
        or that of the run."""
        if self.most_dollars is not None and error.most_dollars != own_limit:
            self.is_used_up = True
            error = CostLimitError(self.most_dollars, self.spent_dollars)
        self.stops.append(f"{name}: {error}")
        return error


@dataclass(frozen=True, kw_only=True)
class Project:
    """One configuration folder and one data folder."""

    configuration: Configuration
    store: Store
    on_progress: Callable[[Progress], None] = no_progress
    spending: Spending = field(default_factory=Spending)
    slots: Slots = field(default_factory=Slots)

    @cached_property
    def benchmarks(self) -> dict[str, "Benchmark"]:
        """The benchmarks that are set up, by name."""
        return {name: Benchmark(name, self) for name in self.configuration.benchmarks}

    @cached_property
    def hashes(self) -> HashCache:
        """Content hashes of files that have not changed since they were hashed."""
        return HashCache(self.store.local("hashes.sqlite"))

    @contextmanager
    def within(
        self, context: StepContext, *, takes_machine: bool, most_dollars: float | None = None
    ) -> Iterator[None]:
        """The block is the work of one step of a run, which may spend so much over all steps.

        One that `takes_machine` begins when no other such step works on this machine.
        """
        note_process(context.instance, context.run)
        self.spending.begin(context.run.run_id, most_dollars)
        pool = machine_pool() if takes_machine else None
        with self.slots.within(context), self.slots.hold(pool, self._show_wait):
            yield

    def asking(self, model: ModelSpec) -> AbstractContextManager[None]:
        """The block asks a model: it has its turn at the endpoint, or waits for it first."""
        return self.slots.hold(endpoint_pool(model), self._show_wait)

    def _show_wait(self, pool: str, is_over: bool) -> None:
        what = f"turn at {pool}, which another run has"
        self.on_progress(Progress(what=what, done=int(is_over), total=1))


def configuration_folder() -> Path:
    """Where the YAML files are: the environment says, else `assets/` in the working directory."""
    return Path(os.environ.get(CONFIGURATION_VARIABLE, "assets"))


def open_project(
    configuration: Path | None = None,
    data: str | None = None,
    on_progress: Callable[[Progress], None] = no_progress,
) -> Project:
    """The project that the arguments name, else the environment, else `assets/` and `data/` here.

    Raises:
        ConfigurationError: when the configuration folder cannot be used at all.
    """
    folder = configuration or configuration_folder()
    root = data or os.environ.get(DATA_VARIABLE, "data")
    if not (folder / "benchmarks.yaml").exists():
        raise ConfigurationError(
            f"{folder / 'benchmarks.yaml'}: no such file; run this in the project's folder, or "
            f"name the folder of its configuration in {CONFIGURATION_VARIABLE}"
        )
    return Project(
        configuration=read_configuration(folder), store=Store.at(root), on_progress=on_progress
    )


class Benchmark:
    """One benchmark's chain: how it is set up, and what is stored of it so far.

    Questions, videos and their versions are read once and kept until `look_again`.
    """

    def __init__(self, name: str, project: Project) -> None:
        self.name = name
        self.project = project
        self._subtitle_hashes: dict[str, str | None] = {}
        self._known_versions: dict[str | None, dict[tuple[Any, ...], Any]] = {}
        self._video_files = RowFolder(project.store.videos(name), Video)

    @property
    def store(self) -> Store:
        return self.project.store

    @cached_property
    def media(self) -> Media:
        spec = self.project.configuration.benchmarks[self.name]
        folder = self.store.media(media_folder_name(self.name))
        return open_media(self.name, spec, folder)

    @cached_property
    def evaluations(self) -> dict[str, Evaluation]:
        return {e.name: e for e in self.project.configuration.evaluations_of(self.name)}

    @cached_property
    def samplings(self) -> dict[str, Sampling]:
        return self.project.configuration.samplings_of(self.name)

    @cached_property
    def partitions(self) -> Partitions:
        return Partitions(
            benchmark=self.name,
            samplings=tuple(self.samplings),
            evaluations=tuple(self.evaluations.values()),
        )

    @cached_property
    def questions(self) -> dict[str, tuple[Question, ...]]:
        """The stored questions by video id.

        Raises:
            NotReadyError: when the questions were not materialized yet.
        """
        try:
            rows = read_rows(self.store.questions(self.name), Question)
        except FileNotFoundError:
            raise NotReadyError(
                f"{self.name}: its questions are not there yet; materialize {self.name}/questions"
            ) from None
        by_video: dict[str, list[Question]] = defaultdict(list)
        for question in rows:
            by_video[question.video_id].append(question)
        return {video_id: tuple(held) for video_id, held in by_video.items()}

    @cached_property
    def questions_version(self) -> str | None:
        """The data version of the stored questions; None when there are none."""
        return stored_fingerprint(self.store.questions(self.name))

    @cached_property
    def videos(self) -> dict[str, Video]:
        """The stored video rows by video id."""
        return {held.row.video_id: held.row for held in self.stored_videos.values()}

    @cached_property
    def stored_videos(self) -> dict[str, StoredRow[Video]]:
        """The files of the video rows by video id; those that did not change are not read again."""
        return self._video_files.read()

    @cached_property
    def versions(self) -> Versions:
        """What every partition would be made of now."""
        failures = FailureLog.of(self.store, f"{self.name}/videos").read()
        reasons = {cell.video: reason for cell, reason in failures.items() if cell.video}
        return Versions(
            self.questions,
            self.videos,
            self.subtitle_hash,
            reasons,
            self._known_versions.setdefault(self.questions_version, {}),
        )

    def subtitle_hash(self, video_id: str) -> str | None:
        """The content of a video's subtitle file; None without one."""
        if video_id not in self._subtitle_hashes:
            path = self.media.subtitle(self.reference(video_id))
            found = content_hash(path, self.project.hashes) if path else None
            self._subtitle_hashes[video_id] = found
        return self._subtitle_hashes[video_id]

    def reference(self, video_id: str) -> VideoReference:
        """A video as the annotations name it."""
        question = self.questions[video_id][0]
        return VideoReference(question.video_id, question.youtube_id)

    def look_again(self) -> None:
        """Read questions, videos and files again when they are next asked for."""
        for name in ("questions", "questions_version", "stored_videos", "videos", "versions"):
            self.__dict__.pop(name, None)
        self._subtitle_hashes.clear()
        self.media.look_again()
