"""What every stage of the graph has in common: its partitions, what each would be made of now,
and how the stale ones are made again.

`refresh` is the one loop that both an asset and the `refresh_stale` job go through, so that
whoever asks gets the same events. What a partition is made from belongs to each stage's module.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from time import monotonic
from typing import Any, ClassVar

import dagster as dg
from upath import UPath

from assets.failures import FailureLog
from assets.partitions import DIMENSIONS, Cell, Dimension, cell_of, partition_key, variant_of
from assets.resources import Benchmark, Project
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.store import Store, publish, stored_fingerprint

DATA_VERSION_TAG = "dagster/data_version"
CODE_VERSION_TAG = "dagster/code_version"
INPUT_DATA_VERSION_TAG = "dagster/input_data_version"
INPUT_EVENT_POINTER_TAG = "dagster/input_event_pointer"
USER_PROVIDED_TAG = "dagster/data_version_is_user_provided"
SEVERAL_PARENTS = "several"
INCOMPLETE = "-incomplete"
MAKE_SECONDS = "make_seconds"
"""Metadata: by how much a partition made its run longer, on the wall clock."""
FILE_BYTES = "file_bytes"
"""Metadata: the size of the stored file."""
_RESULTS = ("*/scores/*.parquet", "*/observations/*/*.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one partition would be made of now, and where it is kept.

    `fingerprint` stands in the file; `data_version` is what Dagster is told (the same, but for
    videos, where only the content counts). `inputs` are the data versions of its parents by
    asset key, for those assets in which it has exactly one parent partition.
    """

    cell: Cell
    fingerprint: str
    data_version: str
    path: UPath
    inputs: Mapping[dg.AssetKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A partition that is now what its target says.

    `incomplete` marks one that was made of less than it should be (scores with failed requests):
    it can be used, and is stale until the rest is there.
    """

    target: Target
    metadata: Mapping[str, Any] = field(default_factory=dict)
    incomplete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A partition that could not be made, and why. The others go on."""

    cell: Cell
    reason: str


class Stage(ABC):
    """One asset: its partitions, what each is made of, and how it is made."""

    name: ClassVar[str]
    description: ClassVar[str]
    code_version: ClassVar[str]
    upstream: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[frozenset[str]] = frozenset()
    row_class: ClassVar[type | None] = None
    takes_machine: ClassVar[bool] = True
    """Whether it uses all cores, or a file that one alone may write: runs take turns at it."""

    @property
    def dimensions(self) -> frozenset[Dimension]:
        """What its partitions are keyed by."""
        return DIMENSIONS.get(self.name, frozenset())

    @property
    @abstractmethod
    def store(self) -> Store: ...

    @property
    @abstractmethod
    def group(self) -> str:
        """The part of the graph it is shown in."""

    @property
    @abstractmethod
    def asset_key(self) -> dg.AssetKey: ...

    @property
    @abstractmethod
    def partitions_def(self) -> dg.PartitionsDefinition[str] | None: ...

    @abstractmethod
    def deps(self) -> list[dg.AssetDep]:
        """The assets it is made from, and which of their partitions."""

    @cached_property
    def parent_keys(self) -> tuple[dg.AssetKey, ...]:
        """The keys of those assets."""
        return tuple(dep.asset_key for dep in self.deps())

    @abstractmethod
    def cells(self, evaluations: Sequence[str] | None = None) -> list[Cell]:
        """Every partition that should exist (for these evaluations only; None: for all).

        Raises:
            NotReadyError: when they are not known yet.
        """

    @abstractmethod
    def target(self, cell: Cell) -> Target:
        """What `cell` would be made of now.

        Raises:
            NotReadyError: when an input is missing; the message says which and why.
        """

    @abstractmethod
    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        """Make each target, yielding it the moment it is stored. Never raises for one target."""

    def prepare(self, cells: Sequence[Cell]) -> Iterator[Failed]:  # noqa: ARG002 - for subclasses
        """Fetch what must be there before the targets of `cells` are known; mostly nothing."""
        yield from ()

    def announce(self, instance: dg.DagsterInstance) -> None:  # noqa: B027 - most have nothing to say
        """Tell Dagster what it must know beside the events."""

    def look_again(self) -> None:  # noqa: B027 - most keep nothing
        """Forget what was read before; the files may have changed."""

    def stored(self, target: Target) -> str | None:
        """The fingerprint of what is stored for `target`; None for nothing."""
        return stored_fingerprint(target.path)

    def takes_as_much(self, variant: str | None, other: str | None) -> bool:  # noqa: ARG002
        """Whether what partitions of `other` took says something about those of `variant`."""
        return True

    def is_current(self, target: Target) -> bool:
        """Whether what is stored is still right, given that its data version is. Fast."""
        return bool(target.path.exists())

    @cached_property
    def variant_dimension(self) -> Dimension | None:
        return next(iter(self.dimensions - {Dimension.VIDEO}), None)

    @property
    def failures(self) -> FailureLog:
        """Which partitions could not be made, and why."""
        return FailureLog.of(self.store, self.asset_key.to_user_string())

    def partition_key(self, cell: Cell) -> str | None:
        return partition_key(cell, self.variant_dimension)

    def cell(self, key: str) -> Cell:
        return cell_of(key, self.variant_dimension, per_video=Dimension.VIDEO in self.dimensions)


class BenchmarkStage(Stage):
    """A stage of one benchmark's chain; the benchmark's name is its key prefix."""

    settings: ClassVar[tuple[str, ...]] = ()
    """The parts of an evaluation's specification that it is made by, beside its inputs."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark

    @property
    def store(self) -> Store:
        return self.benchmark.store

    def recipe(self, cell: Cell) -> dict[str, Any]:
        """The values of `settings` for the evaluation of `cell`, as its file keeps them."""
        assert cell.variant is not None
        evaluation = self.benchmark.evaluations[cell.variant]
        specification = evaluation.specification | {"model": dict(evaluation.model.identity)}
        return {name: specification[name] for name in self.settings}

    @property
    def group(self) -> str:
        return self.benchmark.name

    @property
    def asset_key(self) -> dg.AssetKey:
        return self.key_of(self.name)

    def key_of(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage of the same chain."""
        return _asset_key(self.benchmark.name, stage)

    @property
    def partitions_def(self) -> dg.PartitionsDefinition[str] | None:
        return self.benchmark.partitions.definition(self.dimensions)

    def deps(self) -> list[dg.AssetDep]:
        return [
            dg.AssetDep(
                self.key_of(name),
                partition_mapping=self.benchmark.partitions.mapping(
                    DIMENSIONS[name], self.dimensions
                ),
            )
            for name in self.upstream
        ]

    def inputs(self, **versions: str | None) -> dict[dg.AssetKey, str]:
        """Data versions of direct parents by stage; those that are None are no parents."""
        held = {self.key_of(stage): version for stage, version in versions.items() if version}
        if "questions" in self.upstream and self.benchmark.questions_version:
            held[self.key_of("questions")] = self.benchmark.questions_version
        return held

    def look_again(self) -> None:
        self.benchmark.look_again()

    def cells(self, evaluations: Sequence[str] | None = None) -> list[Cell]:
        variants = self._variants(evaluations)
        if not variants:
            return []
        videos: Iterable[str | None] = (
            self.benchmark.questions if Dimension.VIDEO in self.dimensions else [None]
        )
        return [Cell(video=video, variant=variant) for variant in variants for video in videos]

    def _variants(self, evaluations: Sequence[str] | None) -> Sequence[str | None]:
        """The variants that evaluations need; [None] for a stage without any, [] when none do."""
        dimension = self.variant_dimension
        if evaluations is None:
            return [None] if dimension is None else self.benchmark.partitions.variants(dimension)
        own = [
            self.benchmark.evaluations[e] for e in evaluations if e in self.benchmark.evaluations
        ]
        if dimension is None:
            return [None] if own else []
        return sorted({variant for e in own if (variant := variant_of(e, dimension))})


@cache
def _asset_key(benchmark: str, stage: str) -> dg.AssetKey:
    return dg.AssetKey([benchmark, stage])


class SharedStage(Stage):
    """One file over the scores of all benchmarks, signed with what it was made of."""

    partitions_def = None

    def __init__(self, project: Project) -> None:
        self.project = project

    @property
    @abstractmethod
    def path(self) -> UPath: ...

    @property
    def store(self) -> Store:
        return self.project.store

    @property
    def group(self) -> str:
        return "results"

    @property
    def asset_key(self) -> dg.AssetKey:
        return dg.AssetKey(self.name)

    def deps(self) -> list[dg.AssetDep]:
        scores = [dg.AssetKey([benchmark, "scores"]) for benchmark in self.project.benchmarks]
        return [dg.AssetDep(key) for key in [*scores, *map(dg.AssetKey, self.upstream)]]

    def cells(self, evaluations: Sequence[str] | None = None) -> list[Cell]:  # noqa: ARG002
        return [Cell()]

    def target(self, cell: Cell) -> Target:
        """Made of all scores and nights stored, also those whose evaluation file is gone."""
        root = self.store.path()
        files = [file for pattern in _RESULTS for file in sorted(root.glob(pattern), key=str)]
        version = fingerprint(
            self.name,
            self.code_version,
            [(list(file.relative_to(root).parts), stored_fingerprint(file)) for file in files],
        )
        return Target(cell=cell, fingerprint=version, data_version=version, path=self.path)

    def stored(self, target: Target) -> str | None:
        signature = _signature(target.path)
        return signature.read_text() if target.path.exists() and signature.exists() else None

    def sign(self, target: Target) -> None:
        """Note beside the file what it was made of."""
        publish(_signature(target.path), target.fingerprint.encode())


def _signature(path: UPath) -> UPath:
    return path.with_name(f".{path.name}.fingerprint")


def materialization(stage: Stage, made: Made, seen: int | None) -> dg.AssetMaterialization:
    """The event that tells Dagster what a partition was made of.

    Dagster calls a partition unsynced when a parent has another data version in an event later
    than `seen`, the newest event when the making began.
    """
    target = made.target
    version = target.data_version + (INCOMPLETE if made.incomplete else "")
    tags = {
        DATA_VERSION_TAG: version,
        CODE_VERSION_TAG: stage.code_version,
        USER_PROVIDED_TAG: "true",
    }
    for parent in stage.parent_keys:
        key = parent.to_user_string()
        tags[f"{INPUT_DATA_VERSION_TAG}/{key}"] = target.inputs.get(parent, SEVERAL_PARENTS)
        tags[f"{INPUT_EVENT_POINTER_TAG}/{key}"] = "NULL" if seen is None else str(seen)
    return dg.AssetMaterialization(
        asset_key=stage.asset_key,
        partition=stage.partition_key(target.cell),
        tags=tags,
        metadata=dict(made.metadata),
    )


def _measured(made: Made, seconds: float) -> Made:
    """With what it took, from which later runs are estimated."""
    path = made.target.path
    size = path.stat().st_size if path.exists() else 0
    took = {MAKE_SECONDS: round(seconds, 4), FILE_BYTES: size}
    return replace(made, metadata={**made.metadata, **took})


def refresh(
    stage: Stage,
    asked: Sequence[Cell],
    recorded: Mapping[Cell, str],
    seen: int | None,
    *,
    report_fresh: bool = False,
) -> Iterator[dg.AssetMaterialization]:
    """Make the stale partitions among `asked`, one event each as soon as it is stored.

    `recorded` are the data versions that Dagster last saw, `seen` is its newest event. What is
    stored already is not made again, only reported. With `report_fresh` a fresh partition gets
    an event too: a backfill counts a partition without one as failed. Those that fail get none;
    their reasons go to `stage.failures`.
    """
    began = monotonic()
    failures = {failed.cell: failed.reason for failed in stage.prepare(asked)}
    prepared = monotonic() - began
    stale: list[Target] = []
    for cell in asked:
        if cell in failures:
            continue
        try:
            target = stage.target(cell)
        except VideoMMEError as error:
            failures[cell] = str(error)
            continue
        if stage.stored(target) != target.fingerprint:
            stale.append(target)
        elif report_fresh or recorded.get(cell) != target.data_version:
            yield materialization(
                stage, Made(target=target, metadata={"already_stored": True}), seen
            )
    began = monotonic() - prepared
    for result in stage.make(stale) if stale else ():
        if isinstance(result, Failed):
            failures[result.cell] = result.reason
            continue
        seconds = monotonic() - began
        began += seconds
        yield materialization(stage, _measured(result, seconds), seen)
    stage.failures.update(asked, failures)
    stage.look_again()
