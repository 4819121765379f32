"""The rule of freshness, and the plan of a refresh.

A partition is fresh if the file with its fingerprint is stored. Nothing else decides. Fingerprints
depend only on the configuration, the code and the content of the videos, so the whole graph is
planned without building anything: one listing per stage, the fingerprints, and one look at each
server.
"""

import gc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from sys import intern
from typing import NamedTuple

from videomme_pipeline.errors import NotReadyError, VideoMMEError
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.failures import UNKNOWN, Failure
from videomme_pipeline.project.state.partitions import WHOLE, Partition, partition_of
from videomme_pipeline.stages.chain import all_stages
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage, key_of


class Freshness(StrEnum):
    """State of one partition."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"
    FAILED = "failed"
    """The last attempt to build the partition failed."""


class PartitionState(NamedTuple):
    """The state of one partition, with a reason if it is not fresh; no `fingerprint` if unknown."""

    stage: AnyStage
    partition: Partition
    freshness: Freshness
    fingerprint: str | None = None
    reason: str = ""
    waits_for_parent: bool = False
    """True if a parent is not fresh either."""
    is_whole_stage: bool = False
    """True if this state represents all partitions of its stage, because they are not known yet."""

    @property
    def name(self) -> str:
        """Asset and partition key, such as "smoke/frames uniform_n-8|001"."""
        key = key_of(self.partition)
        return f"{self.stage.label} {key}" if key else self.stage.label


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """The partitions of one asset that failed for the same reason."""

    asset: str
    partitions: tuple[str, ...]
    reason: str

    @property
    def title(self) -> str:
        """The only partition, or the number of partitions and their asset."""
        if len(self.partitions) == 1:
            return self.partitions[0]
        return f"{len(self.partitions):,} partitions of {self.asset}"


@contextmanager
def _without_garbage_search() -> Iterator[None]:
    """A plan keeps its millions of objects, and to search them takes a fifth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.unfreeze()  # into the oldest generation, which most searches leave out
            gc.enable()


@_without_garbage_search()
def plan_project(
    project: Project, evaluations: Sequence[str] | None = None
) -> list[PartitionState]:
    """The state of every partition that `evaluations` need (None: of all), upstream first.

    If the server of a model has changed, the responses of the model are stale. A server that is
    down counts as unchanged. A stage whose partitions are not known yet, because there are no
    questions, has one missing partition.
    """
    for benchmark in project.benchmarks.values():
        benchmark.invalidate()
    project.observe_servers(evaluations, is_stored=False)
    stages = all_stages(project)
    states: list[PartitionState] = []
    not_fresh: dict[AnyStage, dict[Partition, PartitionState]] = {}
    with ThreadPoolExecutor() as pool:  # an object store answers several listings at a time
        for stage in stages:
            if isinstance(stage, BenchmarkStage):
                pool.submit(lambda stage: stage.names, stage)
    for stage in stages:
        waiting = {
            upstream: partitions
            for upstream, partitions in not_fresh.items()
            if partitions and upstream.label in stage.upstream
        }
        planned = _plan_stage(stage, evaluations, waiting)
        not_fresh[stage] = {s.partition: s for s in planned if s.freshness is not Freshness.FRESH}
        states += planned
    return states


def counts(states: Iterable[PartitionState]) -> dict[str, Counter[Freshness]]:
    """The number of fresh, stale, missing and failed partitions of each asset."""
    by_asset: dict[str, Counter[Freshness]] = defaultdict(Counter)
    for state in states:
        by_asset[state.stage.label][state.freshness] += 1
    return dict(by_asset)


def failure_groups(states: Iterable[PartitionState]) -> list[FailureGroup]:
    """The failures where they began, in the order of `states`, which must be upstream first.

    A partition that waits for a parent is left out if another failure in the same benchmark began
    without waiting.
    """
    failed = [state for state in states if state.freshness is Freshness.FAILED]
    began = {state.stage.group for state in failed if not state.waits_for_parent}
    partitions: dict[tuple[str, str], list[str]] = {}
    for state in failed:
        if not state.waits_for_parent or state.stage.group not in began:
            asset = state.stage.label
            partitions.setdefault((asset, state.reason), []).append(state.name)
    return [
        FailureGroup(asset=asset, partitions=tuple(names), reason=reason)
        for (asset, reason), names in partitions.items()
    ]


def parents(stage: AnyStage, partition: Partition, upstream: AnyStage) -> list[Partition]:
    """The partitions of an upstream stage that `partition` is built from.

    Dagster's partition mappings express the same rule; a test compares the two. A stage that is
    shared by all benchmarks is built from all partitions. Without questions, the videos are not
    known, and the upstream stage is one partition, as in `plan`.
    """
    if not isinstance(stage, BenchmarkStage) or not isinstance(upstream, BenchmarkStage):
        return list(upstream.partitions())
    variant: str | None = None
    if upstream.variant_dimension is not None:
        variant = stage.benchmark.parent_variant(
            partition.variant, stage.variant_dimension, upstream.variant_dimension
        )
        if variant is None:
            return []
    if not upstream.has_videos:
        return [partition_of(variant=variant)]
    if partition.video is not None:
        return [partition_of(video=partition.video, variant=variant)]
    try:
        videos = stage.benchmark.snapshot.questions
    except NotReadyError:
        return [WHOLE]
    return [partition_of(video=video, variant=variant) for video in videos]


def _plan_stage(
    stage: AnyStage,
    evaluations: Sequence[str] | None,
    waiting: dict[AnyStage, dict[Partition, PartitionState]],
) -> list[PartitionState]:
    """The states of one stage. `waiting` has the partitions upstream that are not fresh."""
    try:
        partitions = stage.partitions(evaluations)
    except NotReadyError as error:
        state = PartitionState(
            stage, WHOLE, Freshness.MISSING, reason=str(error), is_whole_stage=True
        )
        return [state]
    failures = stage.failures.read()
    return [
        _state_of(stage, partition, waiting, failures.get(partition)) for partition in partitions
    ]


def _state_of(
    stage: AnyStage,
    partition: Partition,
    waiting: dict[AnyStage, dict[Partition, PartitionState]],
    failure: Failure | None,
) -> PartitionState:
    """The state of one partition, whose last attempt ended with `failure`."""
    fingerprint, is_stored, reason = None, False, ""
    parent = _waiting_parent(stage, partition, waiting) if waiting else None
    # The fingerprint of the prompts of a video contains those of its frames, and so on.
    is_unknown = parent and parent.partition.variant and partition.video and not parent.fingerprint
    try:
        if not is_unknown:
            fingerprint = stage.fingerprint(partition)
            is_stored = stage.has(partition, fingerprint)
    except VideoMMEError as error:
        reason = str(error)
    if is_stored and isinstance(stage, BenchmarkStage):
        parent = None  # the fingerprint says everything about the parents
    if parent:
        reason = intern(f"its parent in {parent.stage.label} is not fresh")  # one text for all
    if is_stored and not parent:
        freshness = Freshness.FRESH
    elif failure is not None and failure.fingerprint == (fingerprint or UNKNOWN):
        freshness, reason = Freshness.FAILED, failure.reason
    elif _was_built(stage, partition):
        freshness = Freshness.STALE
        reason = reason or "its configuration, code version or inputs changed"
    else:
        freshness = Freshness.MISSING
        reason = reason or "never built"
    return PartitionState(stage, partition, freshness, fingerprint, reason, parent is not None)


def _waiting_parent(
    stage: AnyStage, partition: Partition, waiting: dict[AnyStage, dict[Partition, PartitionState]]
) -> PartitionState | None:
    """The first parent of a partition that is not fresh."""
    for upstream, states in waiting.items():
        for parent in parents(stage, partition, upstream):
            if parent in states:
                return states[parent]
    return None


def _was_built(stage: AnyStage, partition: Partition) -> bool:
    """True if the partition was built with other settings or inputs, or lacks answers."""
    if not isinstance(stage, BenchmarkStage):
        return stage.path.exists()
    return (partition.variant, partition.video) in stage.names.by_partition
