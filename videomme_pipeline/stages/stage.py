"""A stage: one record with everything that is particular about it, and the stage of one benchmark.

The module of each stage defines its record. Everything else iterates over the records: the plan,
the refresh, the assets of Dagster, the listing of the data folder.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from upath import UPath

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import text_fingerprint
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.failures import FailureLog
from videomme_pipeline.project.state.partitions import (
    WHOLE,
    Dimension,
    Partition,
    partition_of,
    variant_in,
)
from videomme_pipeline.project.state.versions import code_version
from videomme_pipeline.stages.facts import Facts
from videomme_pipeline.storage.names import StageNames, StoredName, part_id
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import set_aside, write_rows

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A partition to build: its fingerprint, and the name of the file that the build publishes.

    `inputs` are the fingerprints of its parents by stage, for the stages in which it has exactly
    one. Dagster's data version is the fingerprint.
    """

    partition: Partition
    fingerprint: str
    name: StoredName
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """A partition that was built and stored.

    `incomplete` is True if inputs were missing, for example answers in scores. Such a partition
    can be used, but it stays stale until the inputs arrive. `by_others` is True if another run
    built the partition meanwhile.
    """

    target: Target
    facts: Facts = field(default_factory=dict)
    incomplete: bool = False
    by_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailure:
    """A partition that could not be built, and why. Other partitions are not affected."""

    partition: Partition
    reason: str


Targets: TypeAlias = Sequence[Target]
BuildEvents: TypeAlias = Iterator[BuildResult | BuildFailure]
"""The result or failure of each target, as soon as it is known."""


def each(targets: Iterable[Target], build: Callable[[Target], Facts]) -> BuildEvents:
    """Yield each target with the facts that `build` returns, or as failed after an error."""
    for target in targets:
        try:
            yield BuildResult(target=target, facts=build(target))
        except VideoMMEError as error:
            yield BuildFailure(partition=target.partition, reason=str(error))


def key_of(partition: Partition) -> str | None:
    """The key of a partition, such as "uniform_n-16|001"; None for the only one of its stage."""
    parts = [part for part in (partition.variant, partition.video) if part is not None]
    return "|".join(parts) or None


def _own_name(_: BenchmarkState, partition: Partition, fingerprint: str) -> StoredName:
    return StoredName(partition.variant, partition.video, fingerprint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The facts about one stage of every benchmark.

    `fingerprint` is the rule for a partition's fingerprint; it raises NotReadyError if an input is
    not known. `inputs` are the fingerprints of the parents by stage. `build` yields each target
    once its file is stored; a target that fails does not stop the others. `stored_facts` reads the
    facts of a stored file, if they are worth the time. `prepare` fetches what the fingerprints of
    partitions need, before they are built.
    """

    name: str
    description: str
    dimensions: frozenset[Dimension]
    row_class: type
    kinds: frozenset[str]
    fingerprint: Callable[[BenchmarkState, Any], str]
    build: "Callable[[BenchmarkStage, Targets], BuildEvents]"
    upstream: tuple[str, ...] = ()
    inputs: Callable[[BenchmarkState, Any], Mapping[str, str | None]] = lambda *_: {}
    prepare: "Callable[[BenchmarkStage, Sequence[Any]], Iterable[BuildFailure]]" = lambda *_: ()
    file_name: Callable[[BenchmarkState, Any, str], StoredName] = _own_name
    stored_facts: Callable[[UPath], Facts] | None = None
    settings: tuple[str, ...] = ()
    """The keys of an evaluation's specification that the stage itself depends on."""
    companion: str | None = None
    """The folder of a second file with the same name, which is stored before the stage's file."""
    is_cited: bool = False
    """True for scores, which have a check that no score is blocked from being cited."""
    asks_models: bool = False
    """True if the stage needs the servers of models.

    Other stages use all cores, or write a file that allows only one writer. Only one run at a time
    works on them.
    """
    uses_workers: bool = False
    """True if the stage works on videos, on the workers of a cluster if there is one."""


@dataclass(frozen=True, eq=False)
class BenchmarkStage:
    """A stage of one benchmark of a project."""

    stage: Stage
    project: Project
    benchmark: BenchmarkState
    cache: dict[Any, Any] = field(default_factory=dict)
    """All that a stage keeps between its functions, such as probes that were done ahead."""

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def group(self) -> str:
        """Dagster's asset group."""
        return self.benchmark.name

    @cached_property
    def label(self) -> str:
        """The asset's name in this project, such as "smoke/frames"."""
        return f"{self.benchmark.name}/{self.name}"

    @property
    def upstream(self) -> tuple[str, ...]:
        """The labels of the stages upstream."""
        return tuple(f"{self.benchmark.name}/{name}" for name in self.stage.upstream)

    @property
    def asks_models(self) -> bool:
        return self.stage.asks_models

    @property
    def is_cited(self) -> bool:
        return self.stage.is_cited

    @property
    def code_version(self) -> str:
        """The version of the stage's code, which is part of its fingerprints."""
        return code_version(self.name)

    @property
    def failures(self) -> FailureLog:
        return self.benchmark.failures(self.name)

    @cached_property
    def variant_dimension(self) -> Dimension | None:
        """The dimension other than the video, or None."""
        return next(iter(self.stage.dimensions - {Dimension.VIDEO}), None)

    @cached_property
    def has_videos(self) -> bool:
        return Dimension.VIDEO in self.stage.dimensions

    def show(self, what: str, done: int, total: int, stored: str, workers: str = "") -> None:
        """Show that `done` of `total` items are finished."""
        what = f"{self.group}: {what}"
        self.project.on_progress(
            StageProgress(what=what, done=done, total=total, stored=stored, workers=workers)
        )

    def invalidate(self) -> None:
        """Drop cached data, because files may have changed."""
        self.benchmark.invalidate()

    # Partitions.

    def partitions(self, evaluations: Sequence[str] | None = None) -> list[Partition]:
        """Every partition that these evaluations need (None: all), or NotReadyError if unknown."""
        return [
            partition_of(video=video, variant=variant)
            for variant in self._variants(evaluations)
            for video in self._videos(variant, evaluations)
        ]

    def selects(self, partition: Partition) -> bool:
        """Return True if the evaluation of `partition` selects its video."""
        if self.stage.dimensions != {Dimension.VIDEO, Dimension.EVALUATION}:
            return True
        evaluation = self.benchmark.evaluations[str(partition.variant)]
        return partition.video in self.benchmark.snapshot.questions_of(evaluation)

    def _videos(
        self, variant: str | None, evaluations: Sequence[str] | None
    ) -> Iterable[str | None]:
        """The videos that `evaluations` need of a variant, or [None] for a stage without videos."""
        dimension, snapshot = self.variant_dimension, self.benchmark.snapshot
        if not self.has_videos:
            return [None]
        if evaluations is None and (variant is None or self.benchmark.offers(variant)):
            return snapshot.questions
        needed: set[str] = set()
        for evaluation in self.benchmark.evaluations.values():
            is_chosen = evaluations is None or evaluation.name in evaluations
            if is_chosen and (dimension is None or variant_in(evaluation, dimension) == variant):
                needed.update(snapshot.questions_of(evaluation))
        return [video_id for video_id in snapshot.questions if video_id in needed]

    def _variants(self, evaluations: Sequence[str] | None) -> Sequence[str | None]:
        """The variants that `evaluations` need, or [None] for a stage without variants."""
        dimension = self.variant_dimension
        if evaluations is None:
            return [None] if dimension is None else self.benchmark.variants(dimension)
        own = self.benchmark.evaluations
        chosen = [own[name] for name in evaluations if name in own]
        if dimension is None:
            return [None] if chosen else []
        return sorted({variant for e in chosen if (variant := variant_in(e, dimension))})

    def parse_key(self, key: str) -> Partition:
        """The partition with a key. Dagster sorts dimensions by name: the video is last."""
        variant, _, video = key.rpartition("|")
        if self.has_videos:
            return partition_of(video=video, variant=variant or None)
        return partition_of(variant=key)

    # Files.

    @property
    def names(self) -> StageNames:
        """The names of the stage's files when they were first needed."""
        return self.benchmark.snapshot.names(self.name)

    def fingerprint(self, partition: Partition) -> str:
        """The current fingerprint. Raises NotReadyError, which names an input that is not known."""
        return self.stage.fingerprint(self.benchmark, partition)

    def has(self, partition: Partition, fingerprint: str) -> bool:
        """Return True if the file with this fingerprint is stored."""
        name = str(self.stage.file_name(self.benchmark, partition, fingerprint))
        companion = self.stage.companion
        return name in self.names.texts and (
            companion is None or name in self.benchmark.snapshot.names(companion).texts
        )

    def target(self, partition: Partition) -> Target:
        """The target of `partition`. Errors are those of `fingerprint`."""
        fingerprint = self.fingerprint(partition)
        name = self.stage.file_name(self.benchmark, partition, fingerprint)
        inputs = self.stage.inputs(self.benchmark, partition)
        if "questions" in self.stage.upstream:
            inputs = {"questions": self.benchmark.snapshot.questions_version, **inputs}
        return Target(
            partition=partition,
            fingerprint=fingerprint,
            name=name,
            inputs={stage: version for stage, version in inputs.items() if version},
        )

    def build(self, targets: Targets) -> BuildEvents:
        return self.stage.build(self, targets)

    def facts(self, target: Target) -> Facts:
        """The facts of the stored file of `target`. Raises VideoMMEError if it is damaged."""
        read = self.stage.stored_facts
        return {} if read is None else read(self.path_of(target))

    def prepare(self, partitions: Sequence[Partition]) -> Iterable[BuildFailure]:
        return self.stage.prepare(self, partitions)

    def part_of(self, target: Target, rows: Sequence[object], answers: int) -> Target:
        """`target` with the name of an incomplete file, which has these rows and answers."""
        return replace(target, name=target.name._replace(part=part_id(answers, rows)))

    def write(
        self,
        target: Target,
        rows: Iterable[Any],
        *,
        companion: type | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Publish the rows of a target, unless another run has stored them meanwhile.

        With a row class `companion`, they become the second file of the stage.
        """
        stage = self.name if companion is None else str(self.stage.companion)
        write_rows(
            self.project.store.built(self.benchmark.name, stage, target.name),
            rows,
            companion or self.stage.row_class,
            fingerprint=target.name.fingerprint,
            settings=settings,
            parts=self.parts(target),
            only_new=True,
        )

    def parts(self, target: Target) -> dict[str, object]:
        """The named parts of a target's fingerprint, which its file stores for explanations."""
        settings: dict[str, object] = {}
        if self.stage.settings:
            evaluation = self.benchmark.evaluations[str(target.partition.variant)]
            specification = evaluation.specification | {"model": dict(evaluation.model.identity)}
            settings = {name: specification.get(name) for name in self.stage.settings}
        return {"code": self.code_version, "settings": settings, "inputs": dict(target.inputs)}

    def path_of(self, target: Target) -> UPath:
        """The file that the build of `target` publishes."""
        return self.project.store.built(self.benchmark.name, self.name, target.name)


class SharedStage(ABC):
    """One file about the scores of all benchmarks, with its fingerprint in a second file."""

    name: ClassVar[str]
    description: ClassVar[str]
    shared_upstream: ClassVar[tuple[str, ...]] = ()
    """The labels of other shared stages upstream."""
    kinds: ClassVar[frozenset[str]]
    code_version: ClassVar[str]
    asks_models: ClassVar[bool] = False
    is_cited: ClassVar[bool] = False
    variant_dimension: ClassVar[None] = None
    group: ClassVar[str] = "results"

    def __init__(self, project: Project) -> None:
        self.project = project

    @property
    @abstractmethod
    def path(self) -> UPath: ...

    @property
    def upstream(self) -> tuple[str, ...]:
        """The labels of the stages upstream: the scores of all benchmarks, and shared stages."""
        return (*(f"{name}/scores" for name in self.project.benchmarks), *self.shared_upstream)

    @property
    def signature(self) -> UPath:
        return self.path.with_name(f".{self.path.name}.fingerprint")

    @abstractmethod
    def build(self, targets: Targets) -> BuildEvents: ...

    @abstractmethod
    def facts(self, target: Target) -> Facts: ...

    @property
    def label(self) -> str:
        return self.name

    @property
    def failures(self) -> FailureLog:
        return FailureLog(self.project.store, self.label)

    def invalidate(self) -> None:
        """Drop cached data, because files may have changed."""
        for benchmark in self.project.benchmarks.values():
            benchmark.invalidate()

    def partitions(self, evaluations: Sequence[str] | None = None) -> list[Partition]:  # noqa: ARG002
        return [WHOLE]

    def selects(self, partition: Partition) -> bool:  # noqa: ARG002
        return True

    def prepare(self, partitions: Sequence[Partition]) -> Iterable[BuildFailure]:  # noqa: ARG002
        return ()

    def parse_key(self, key: str) -> Partition:
        raise ValueError(f"{self.label} has no partition {key}")

    def fingerprint(self, partition: Partition) -> str:  # noqa: ARG002 - it has only one
        return self.fingerprint_over(Results(self.project.store))

    def fingerprint_over(self, results: Results) -> str:
        """The fingerprint over the shown results and everything that happened to them."""
        store = results.store
        files = [
            *(*(scores.path for scores in results.scores()), *store.observation_files()),
            *(*store.newest_files("checkpoints"), *store.newest_files("races")),
        ]
        return text_fingerprint(self.name, self.code_version, *map(str, map(self._named, files)))

    def _named(self, path: UPath) -> str:
        return str(path.relative_to(self.project.store.path()))

    def target(self, partition: Partition) -> Target:
        fingerprint = self.fingerprint(partition)
        name = StoredName(variant=None, video=None, fingerprint=fingerprint)
        return Target(partition=WHOLE, fingerprint=fingerprint, name=name)

    def has(self, partition: Partition, fingerprint: str) -> bool:  # noqa: ARG002
        """Return True if the file has this fingerprint. A damaged file is set aside."""
        if not (self.path.exists() and self.signature.is_file()):
            return False
        text = self.signature.read_text(encoding="utf-8", errors="replace")
        stored, _, checksum = text.partition(" ")
        if checksum != self.checksum(self.path):
            _log.warning("%s: the file is damaged%s", self.path, set_aside(self.path))
            return False
        return bool(stored == fingerprint)

    def sign(self, target: Target) -> None:
        """Write `.<name>.fingerprint`: the target's fingerprint and the stored file's checksum."""
        text = f"{target.fingerprint} {self.checksum(self.path)}".strip()
        publish(self.signature, text.encode())

    def checksum(self, path: UPath) -> str:  # noqa: ARG002 - for subclasses
        """Checksum of the stored file, or "" for a file with its own checksums."""
        return ""


AnyStage: TypeAlias = BenchmarkStage | SharedStage
