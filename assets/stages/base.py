"""Base classes of the stages. The module of each stage defines how its partitions are built."""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

import dagster as dg
from upath import UPath

from videomme_pipeline.assets.partitions import Partitions
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.project.state.failures import FailureLog
from videomme_pipeline.project.state.partitions import (
    DIMENSIONS,
    WHOLE,
    Dimension,
    Partition,
    Whole,
    partition_of,
    variant_in,
)
from videomme_pipeline.project.state.versions import INCOMPLETE, code_version
from videomme_pipeline.scoring.findings.run import CitationFinding
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.publish import publish, writing
from videomme_pipeline.storage.tables import set_aside, stored_fingerprint

_log = logging.getLogger(__name__)

OWNERS = ("team:evaluation",)
"""The owners of every asset."""
P = TypeVar("P", bound=Partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Generic[P]):
    """A partition to build: the versions of everything it depends on, and the path of its file.

    `fingerprint` is stored in the file. `data_version` is reported to Dagster. The two are equal,
    except for videos (the data version is the content hash) and frames (the path contains the
    content hash, so the fingerprint does not). `inputs` maps asset keys to the data versions of
    parents, for the assets in which the partition has exactly one parent.
    """

    partition: P
    fingerprint: str
    data_version: str
    path: UPath
    inputs: Mapping[dg.AssetKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built(Generic[P]):
    """A partition that was built and stored.

    `incomplete` is True if inputs were missing, for example answers in scores. Such a partition
    can be used, but it stays stale until the inputs arrive.
    """

    target: Target[P]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    incomplete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Generic[P]):
    """A partition that could not be built, and why. Other partitions are not affected."""

    partition: P
    reason: str


Targets: TypeAlias = Sequence[Target[P]]
Results: TypeAlias = Iterator[Built[P] | Failed[P]]
"""The results of building or describing partitions, each as soon as it is available."""


def describe_each(
    targets: Iterable[Target[P]], metadata_of: Callable[[Target[P]], Mapping[str, Any]]
) -> Results[P]:
    """Yield each target with the metadata that `metadata_of` returns, or as failed if it raises."""
    for target in targets:
        try:
            yield Built(target=target, metadata=metadata_of(target))
        except VideoMMEError as error:
            yield Failed(partition=target.partition, reason=str(error))


class Stage(ABC, Generic[P]):
    """One asset: its partitions, the inputs of each partition, and how partitions are built.

    `P` is the class of the stage's partitions.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    upstream: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[frozenset[str]] = frozenset()
    row_class: ClassVar[type | None] = None
    is_cited: ClassVar[bool] = False
    """True for scores, which have a check that no score is blocked from being cited."""
    asks_models: ClassVar[bool] = False
    """True if the stage needs the servers of models.

    Other stages use all cores, or write a file that allows only one writer. Only one run at a time
    works on them.
    """

    uses_workers: ClassVar[bool] = False
    """True if the stage works on videos, on the workers of a cluster if there is one."""

    def __init__(self, project: Project) -> None:
        self.project = project

    @property
    def store(self) -> Store:
        return self.project.store

    def show(self, what: str, done: int, total: int, stored: str, workers: str = "") -> None:
        """Show that `done` of `total` items are finished."""
        self.project.on_progress(
            StageProgress(
                what=f"{self.group}: {what}",
                done=done,
                total=total,
                stored=stored,
                workers=workers,
            )
        )

    @property
    def dimensions(self) -> frozenset[Dimension]:
        """The dimensions of the stage's partition keys."""
        return DIMENSIONS.get(self.name, frozenset())

    @property
    @abstractmethod
    def code_version(self) -> str:
        """The version of the stage's code, which is part of the stage's fingerprints."""

    @property
    @abstractmethod
    def group(self) -> str:
        """Dagster's asset group."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The asset's name in this project, such as "smoke/frames"."""

    @cached_property
    def asset_key(self) -> dg.AssetKey:
        return key_in(self.project, self.label)

    @property
    @abstractmethod
    def partitions_def(self) -> dg.PartitionsDefinition[str] | None: ...

    @abstractmethod
    def deps(self) -> list[dg.AssetDep]:
        """The assets upstream of the stage, with the mappings to parent partitions."""

    @cached_property
    def parent_keys(self) -> tuple[dg.AssetKey, ...]:
        """The keys of the assets upstream of the stage."""
        return tuple(dep.asset_key for dep in self.deps())

    @abstractmethod
    def partitions(self, evaluations: Sequence[str] | None = None) -> list[P]:
        """Every partition that should exist for these evaluations (None: for all evaluations).

        Raises:
            NotReadyError: if the partitions are not known yet.
        """

    @abstractmethod
    def target(self, partition: P) -> Target[P]:
        """The target of `partition`, from the current configuration, code and inputs.

        Raises:
            NotReadyError: if an input is missing; the message says which one and why.
        """

    @abstractmethod
    def build(self, targets: Targets[P]) -> Results[P]:
        """Build the targets and yield each of them once its file is stored.

        A target that fails does not stop the others.
        """

    def selects(self, partition: P) -> bool:  # noqa: ARG002
        """Return True if the evaluation of `partition` selects its video."""
        return True

    @abstractmethod
    def metadata(self, target: Target[P]) -> Mapping[str, Any]:
        """The metadata of the stored file of `target`.

        Raises:
            VideoMMEError: if the file is damaged.
        """

    def describe(self, targets: Targets[P]) -> Results[P]:
        """Yield each target with the metadata of its stored file, or as failed if it is damaged."""
        return describe_each(targets, self.metadata)

    def prepare(self, partitions: Sequence[P]) -> Iterator[Failed[P]]:  # noqa: ARG002
        """Fetch the inputs of `partitions` that `target` needs. Most stages need nothing."""
        yield from ()

    def tags(self, partition: P) -> Mapping[str, str]:  # noqa: ARG002
        """Further tags of a partition's events: versions that are neither settings nor parents."""
        return {}

    def citation_findings(self) -> list[CitationFinding]:
        """Findings that block or qualify a citation. Empty for every stage but `scores`."""
        return []

    def update_partition_keys(self, instance: dg.DagsterInstance) -> None:
        """Update the dynamic partitions in Dagster, if the stage defines any."""

    def invalidate(self) -> None:
        """Drop cached data, because files may have changed."""

    def list_ahead(self) -> None:
        """List the stage's files before `is_current` needs them, if that takes many requests."""

    def stored(self, target: Target[P]) -> str | None:
        """The fingerprint in the file of `target`, or None without a file."""
        return stored_fingerprint(target.path)

    def is_comparable(self, variant: str | None, other: str | None) -> bool:  # noqa: ARG002
        """Return True if partitions of both variants need about the same time and space."""
        return True

    @abstractmethod
    def is_current(self, target: Target[P]) -> bool:
        """Return True if the stored file is up to date, given that the data version is current."""

    @cached_property
    def variant_dimension(self) -> Dimension | None:
        """The dimension other than the video, or None."""
        return next(iter(self.dimensions - {Dimension.VIDEO}), None)

    @property
    def failures(self) -> FailureLog:
        """The partitions that could not be built, with the reasons."""
        return FailureLog(self.store, self.label)

    def key_of_partition(self, partition: Partition) -> str | None:
        """Dagster's key of a partition, or None for an asset without partitions."""
        video, variant, dimension = partition.video, partition.variant, self.variant_dimension
        if video is None or variant is None or dimension is None:
            return video or variant
        return dg.MultiPartitionKey({"video": video, dimension.value: variant})

    def parse_partition(self, key: str) -> P:
        """The partition of Dagster's key: "uniform_n-16|001" is a sampling and a video."""
        if Dimension.VIDEO not in self.dimensions:
            return cast("P", partition_of(variant=key))
        if self.variant_dimension is None:
            return cast("P", partition_of(video=key))
        variant, _, video = key.partition("|")  # Dagster sorts dimensions by name: video is last
        return cast("P", partition_of(video=video, variant=variant))


AnyStage = Stage[Any]


def key_in(project: Project, label: str) -> dg.AssetKey:
    """Dagster's key of an asset of `project`, such as "smoke/frames"."""
    return _asset_key(project.runs.prefix, label)


@cache
def _asset_key(prefix: str, label: str) -> dg.AssetKey:
    return dg.AssetKey(f"{prefix}{label}".split("/"))


def group_name(benchmark: str) -> str:
    """`benchmark` as the name of an asset group, which has only letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", benchmark)


class BenchmarkStage(Stage[P]):
    """A stage of one benchmark. The name of the benchmark is the prefix of the asset key."""

    settings: ClassVar[tuple[str, ...]] = ()
    """The keys of an evaluation's specification that the stage itself depends on."""

    def __init__(self, project: Project, benchmark: str) -> None:
        super().__init__(project)
        self.benchmark = project.benchmarks[benchmark]

    @cached_property
    def graph(self) -> Partitions:
        """The partition definitions of the benchmark."""
        return Partitions.of(self.benchmark, self.project.runs.prefix)

    def settings_of(self, evaluation: str) -> dict[str, Any]:
        """The values of `settings` for an evaluation, as its files store them."""
        chosen = self.benchmark.evaluations[evaluation]
        specification = chosen.specification | {"model": dict(chosen.model.identity)}
        return {name: specification.get(name) for name in self.settings}

    @property
    def code_version(self) -> str:
        return code_version(self.name)

    @property
    def group(self) -> str:
        return self.benchmark.name

    @property
    def label(self) -> str:
        return f"{self.benchmark.name}/{self.name}"

    def key_of(self, stage: str) -> dg.AssetKey:
        """The asset key of a stage of the same benchmark."""
        return key_in(self.project, f"{self.benchmark.name}/{stage}")

    @property
    def partitions_def(self) -> dg.PartitionsDefinition[str] | None:
        return self.graph.definition(self.dimensions)

    def is_current(self, target: Target[P]) -> bool:
        return self.benchmark.snapshot.listing.has(target.path)

    def list_ahead(self) -> None:
        if Dimension.VIDEO in self.dimensions:
            self.benchmark.snapshot.listing.list_ahead(self.benchmark.name, self.name)

    def deps(self) -> list[dg.AssetDep]:
        return [
            dg.AssetDep(
                self.key_of(name),
                partition_mapping=self.graph.mapping(DIMENSIONS[name], self.dimensions),
            )
            for name in self.upstream
        ]

    def inputs(self, **versions: str | None) -> dict[dg.AssetKey, str]:
        """The data versions of direct parents by asset key. `versions` has them by stage.

        None is the version of a stage in which a partition has no parent.
        """
        inputs = {self.key_of(stage): version for stage, version in versions.items() if version}
        questions_version = self.benchmark.snapshot.questions_version
        if "questions" in self.upstream and questions_version:
            inputs[self.key_of("questions")] = questions_version
        return inputs

    def target_of(self, partition: P, version: str, path: UPath, **inputs: str | None) -> Target[P]:
        """The target of a partition whose data version is also the fingerprint in its file.

        `inputs` are the data versions of its parents, by stage.
        """
        return Target(
            partition=partition,
            fingerprint=version,
            data_version=version,
            path=path,
            inputs=self.inputs(**inputs),
        )

    def invalidate(self) -> None:
        self.benchmark.invalidate()

    def partitions(self, evaluations: Sequence[str] | None = None) -> list[P]:
        variants = self._variants(evaluations)
        if not variants:
            return []
        return [
            cast("P", partition_of(video=video, variant=variant))
            for variant in variants
            for video in self._videos(variant, evaluations)
        ]

    def selects(self, partition: P) -> bool:
        if self.dimensions != {Dimension.VIDEO, Dimension.EVALUATION}:
            return True
        evaluation = self.benchmark.evaluations[str(partition.variant)]
        return partition.video in self.benchmark.snapshot.questions_of(evaluation)

    def _videos(
        self, variant: str | None, evaluations: Sequence[str] | None
    ) -> Iterable[str | None]:
        """The videos that `evaluations` need of a variant, or [None] for a stage without videos."""
        dimension, snapshot = self.variant_dimension, self.benchmark.snapshot
        if Dimension.VIDEO not in self.dimensions:
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
            return [None] if dimension is None else self.graph.variants(dimension)
        own = self.benchmark.evaluations
        chosen = [own[name] for name in evaluations if name in own]
        if dimension is None:
            return [None] if chosen else []
        return sorted({variant for e in chosen if (variant := variant_in(e, dimension))})


class SharedStage(Stage[Whole]):
    """One file about the scores of all benchmarks, with its fingerprint in a second file."""

    partitions_def = None

    @property
    @abstractmethod
    def path(self) -> UPath: ...

    @property
    def group(self) -> str:
        return "results"

    @property
    def label(self) -> str:
        return self.name

    def deps(self) -> list[dg.AssetDep]:
        scores = [f"{benchmark}/scores" for benchmark in self.project.benchmarks]
        return [dg.AssetDep(key_in(self.project, label)) for label in [*scores, *self.upstream]]

    def partitions(self, evaluations: Sequence[str] | None = None) -> list[Whole]:  # noqa: ARG002
        return [WHOLE]

    def target(self, partition: Whole) -> Target[Whole]:  # noqa: ARG002 - it has only one
        return self.target_over(self.stored_results())

    def stored_results(self) -> dict[UPath, str | None]:
        """The fingerprints of all scores and of what happened to them, even of deleted files."""
        store = self.store
        files = [
            *(*store.score_files(), *store.observation_files()),
            *(*store.checkpoint_files(), *store.race_files()),
        ]
        return {file: stored_fingerprint(file) for file in files}

    def target_over(self, results: Mapping[UPath, str | None]) -> Target[Whole]:
        """The target over these results."""
        root = self.store.path()
        version = fingerprint(
            self.name,
            self.code_version,
            [(list(file.relative_to(root).parts), stored) for file, stored in results.items()],
        )
        return Target(partition=WHOLE, fingerprint=version, data_version=version, path=self.path)

    def stored(self, target: Target[Whole]) -> str | None:
        """The fingerprint of the file, or None. A file with another checksum is set aside."""
        path, signature = target.path, _signature(target.path)
        if not (path.exists() and signature.is_file()):
            return None
        version, _, checksum = signature.read_text(encoding="utf-8", errors="replace").partition(
            " "
        )
        if checksum == self.checksum(path):
            return str(version)
        _log.warning("%s: the file is damaged%s", path, set_aside(path))
        return None

    def is_current(self, target: Target[Whole]) -> bool:
        return self.stored(target) is not None

    def sign(self, target: Target[Whole], *, incomplete: bool = False) -> None:
        """Write `.<name>.fingerprint`: the target's fingerprint and the stored file's checksum."""
        version = target.fingerprint + (INCOMPLETE if incomplete else "")
        signature = f"{version} {self.checksum(target.path)}".strip()
        publish(_signature(target.path), signature.encode())

    def remove_signature(self, target: Target[Whole]) -> None:
        """Remove the signature, so that a file is not taken for damaged if its writer is killed."""
        with writing(target.path):
            _signature(target.path).unlink(missing_ok=True)

    def checksum(self, path: UPath) -> str:  # noqa: ARG002
        """Checksum of the stored file, or "" for a file with its own checksums."""
        return ""


def _signature(path: UPath) -> UPath:
    return path.with_name(f".{path.name}.fingerprint")
