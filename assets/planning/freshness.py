"""The rule of freshness, and the plan of a refresh.

A partition is fresh if its data version is that of its last materialization, its file exists, and
all its parents are fresh. Data versions depend only on the configuration, the code and the
content of the videos, so the whole graph is planned without building anything.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, takewhile

import dagster as dg

from videomme_pipeline.assets.instance import History
from videomme_pipeline.assets.stages.base import AnyStage, BenchmarkStage
from videomme_pipeline.assets.stages.chain import all_stages
from videomme_pipeline.assets.stages.refresh import CODE_VERSION_TAG, DATA_VERSION_TAG
from videomme_pipeline.errors import NotReadyError, VideoMMEError
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import WHOLE, Dimension, Partition, partition_of

_EVENTS_AT_A_TIME = 500


class Freshness(StrEnum):
    """State of one partition."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"
    FAILED = "failed"
    """The last attempt to build the partition failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of one partition, with a reason if the partition is not fresh."""

    stage: AnyStage
    partition: Partition
    freshness: Freshness
    reason: str = ""
    keeps_version: bool = False
    """True if a rebuild gives the same data version, so that nothing downstream becomes stale."""
    waits_for_parent: bool = False
    """True if a parent will change first, so that the next data version is not known yet."""
    is_whole_stage: bool = False
    """True if this state represents all partitions of its stage, because they are not known yet."""

    @property
    def will_change(self) -> bool:
        """True if everything that is built from this partition becomes stale too."""
        return self.freshness is not Freshness.FRESH and not self.keeps_version

    @property
    def name(self) -> str:
        """Asset and partition key, such as "smoke/frames uniform_n-8|001"."""
        key = self.stage.key_of_partition(self.partition)
        asset = self.stage.label
        return f"{asset} {key}" if key else asset


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


def recorded_versions(history: History, stage: AnyStage) -> dict[Partition, str]:
    """The data version of the newest materialization of each partition of a stage."""
    if history is None:
        return {}
    if not stage.dimensions:
        tags = _tags_of_whole_stage(history, stage)
        return {WHOLE: tags[DATA_VERSION_TAG]} if DATA_VERSION_TAG in tags else {}
    tagged = history.event_log_storage.get_latest_tags_by_partition(
        stage.asset_key,
        event_type=dg.DagsterEventType.ASSET_MATERIALIZATION,
        tag_keys=[DATA_VERSION_TAG],
    )
    return {
        stage.parse_partition(key): tags[DATA_VERSION_TAG]
        for key, tags in tagged.items()
        if DATA_VERSION_TAG in tags
    }


def recorded_tags(
    history: History, stage: AnyStage, partitions: AbstractSet[Partition] | None = None
) -> Iterator[tuple[Partition, Mapping[str, str]]]:
    """Yield the tags of each partition's newest materialization, oldest event first.

    Reads one event, then 500 at a time. If `partitions` is None, reads those of all partitions.
    """
    if history is None:
        return
    if not stage.dimensions:
        tags = _tags_of_whole_stage(history, stage)
        yield from [(WHOLE, tags)] if tags else []
        return
    by_partition = history.event_log_storage.get_latest_storage_id_by_partition(
        stage.asset_key, dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    ids = sorted(
        number
        for key, number in by_partition.items()
        if partitions is None or stage.parse_partition(key) in partitions
    )
    starts = [0, *range(1, len(ids), _EVENTS_AT_A_TIME)]
    for batch in (ids[start:end] for start, end in pairwise([*starts, len(ids)])):
        materializations = history.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=stage.asset_key, storage_ids=batch),
            limit=len(batch),
            ascending=True,
        )
        for record in materializations.records:
            built = record.asset_materialization
            if built is not None and built.partition is not None and built.tags:
                yield stage.parse_partition(built.partition), built.tags


def wrongly_shown(instance: dg.DagsterInstance, stage: AnyStage) -> set[Partition]:
    """The partitions that Dagster shows as failed or unsynced until they are reported again."""
    return failed_attempts(instance, stage) | _unsynced(instance, stage)


def _unsynced(instance: dg.DagsterInstance, stage: AnyStage) -> set[Partition]:
    """The partitions whose newest event has another code version than the stage.

    Earlier events have earlier code versions, so the search ends at the first current one.
    """
    tagged = recorded_tags(instance, stage)
    outdated = takewhile(lambda item: item[1].get(CODE_VERSION_TAG) != stage.code_version, tagged)
    return {partition for partition, tags in outdated if CODE_VERSION_TAG in tags}


def _tags_of_whole_stage(instance: dg.DagsterInstance, stage: AnyStage) -> Mapping[str, str]:
    """The tags of the newest materialization of a stage without partitions."""
    event = instance.get_latest_materialization_event(stage.asset_key)
    newest = event.asset_materialization if event else None
    return (newest.tags if newest else None) or {}


def failed_attempts(instance: dg.DagsterInstance, stage: AnyStage) -> set[Partition]:
    """The partitions that Dagster shows as failed because a run that planned them has ended.

    After an interrupted run of a range, Dagster shows all partitions of the range as failed, even
    fresh ones.
    """
    if not stage.dimensions:
        return set()
    storage = instance.event_log_storage
    attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        stage.asset_key
    )
    if not attempts:
        return set()
    run_ids = list({run_id for run_id, _ in attempts.values()})
    runs = instance.get_runs(dg.RunsFilter(run_ids=run_ids))
    ended = {run.run_id for run in runs if run.is_finished}
    return {stage.parse_partition(key) for key, (run_id, _) in attempts.items() if run_id in ended}


def newest_event(instance: dg.DagsterInstance) -> int | None:
    """The id of Dagster's newest event, or None without events."""
    return instance.event_log_storage.get_maximum_record_id()


def plan(
    stages: Sequence[AnyStage],
    history: History,
    evaluations: Sequence[str] | None = None,
) -> list[PartitionState]:
    """The state of every partition of `stages`, which must be ordered upstream first.

    `evaluations` limits the result to the partitions that these evaluations need. A stage whose
    partitions are not known yet, because there are no questions, has one missing partition.
    """
    states: list[PartitionState] = []
    not_fresh: dict[AnyStage, set[Partition]] = {}
    with ThreadPoolExecutor() as pool:  # query later stages while an earlier one is planned
        queries = {
            stage: (
                pool.submit(recorded_versions, history, stage),
                pool.submit(stage.failures.read),
                pool.submit(stage.list_ahead),
            )
            for stage in stages
        }
        for stage, (recorded, failures, _) in queries.items():
            keys = stage.parent_keys
            changing = {
                upstream: partitions
                for upstream, partitions in not_fresh.items()
                if partitions and upstream.asset_key in keys
            }
            planned = _plan_stage(
                stage, evaluations, recorded.result(), failures.result(), changing
            )
            not_fresh[stage] = {s.partition for s in planned if s.will_change}
            states.extend(planned)
    return states


def plan_project(
    project: Project,
    history: History,
    evaluations: Sequence[str] | None = None,
    *,
    assets: Iterable[dg.AssetKey] | None = None,
) -> list[PartitionState]:
    """The state of every partition that `evaluations` need (None: of all), upstream first.

    `assets` limits the plan to these assets and everything upstream of them. If the server of a
    model has changed, the responses of the model are stale. A server that is down counts as
    unchanged.
    """
    for benchmark in project.benchmarks.values():
        benchmark.invalidate()
    project.observe_servers(evaluations, is_stored=False)
    stages = all_stages(project)
    chosen = stages if assets is None else _with_upstream(stages, assets)
    return plan(chosen, history, evaluations)


def _with_upstream(stages: Sequence[AnyStage], keys: Iterable[dg.AssetKey]) -> list[AnyStage]:
    """The stages of some assets and everything upstream of them, in the order of `stages`."""
    needed = set(keys)
    for stage in reversed(stages):
        if stage.asset_key in needed:
            needed.update(stage.parent_keys)
    return [stage for stage in stages if stage.asset_key in needed]


def counts(states: Iterable[PartitionState]) -> dict[str, Counter[Freshness]]:
    """The number of fresh, stale, missing and failed partitions of each asset."""
    by_asset: dict[str, Counter[Freshness]] = {}
    for state in states:
        by_asset.setdefault(state.stage.label, Counter())[state.freshness] += 1
    return by_asset


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
    if not isinstance(stage, BenchmarkStage):
        return list(upstream.partitions())
    variant: str | None = None
    if upstream.variant_dimension is not None:
        variant = stage.graph.parent(
            partition.variant, stage.variant_dimension, upstream.variant_dimension
        )
        if variant is None:
            return []
    if Dimension.VIDEO not in upstream.dimensions:
        return [partition_of(variant=variant)]
    video = partition.video
    try:
        videos = stage.benchmark.snapshot.questions if video is None else (video,)
    except NotReadyError:
        return [WHOLE]
    return [partition_of(video=video, variant=variant) for video in videos]


def _plan_stage(
    stage: AnyStage,
    evaluations: Sequence[str] | None,
    recorded: Mapping[Partition, str],
    failures: Mapping[Partition, str],
    changing: Mapping[AnyStage, set[Partition]],
) -> list[PartitionState]:
    try:
        partitions = stage.partitions(evaluations)
    except NotReadyError as error:
        state = PartitionState(
            stage=stage,
            partition=WHOLE,
            freshness=Freshness.MISSING,
            reason=str(error),
            is_whole_stage=True,
        )
        return [state]
    states = []
    for partition in partitions:
        state = state_of(stage, partition, recorded.get(partition), changing)
        if partition in failures and state.freshness is not Freshness.FRESH:
            state = replace(state, freshness=Freshness.FAILED, reason=failures[partition])
        states.append(state)
    return states


def state_of(
    stage: AnyStage,
    partition: Partition,
    recorded: str | None,
    changing: Mapping[AnyStage, set[Partition]],
) -> PartitionState:
    """The state of one partition, ignoring recorded failures.

    `recorded` is the partition's data version in Dagster. `changing` contains the partitions of
    upstream stages that will change.
    """

    def state(freshness: Freshness, reason: str = "", **more: bool) -> PartitionState:
        return PartitionState(
            stage=stage, partition=partition, freshness=freshness, reason=reason, **more
        )

    outdated = Freshness.STALE if recorded else Freshness.MISSING
    for upstream, changed in changing.items():
        if not changed.isdisjoint(parents(stage, partition, upstream)):
            key = upstream.label
            return state(outdated, f"its parent in {key} is not fresh", waits_for_parent=True)
    try:
        target = stage.target(partition)
    except VideoMMEError as error:
        return state(outdated, str(error))
    if recorded is None:
        return state(outdated, "never materialized")
    if recorded != target.data_version:
        return state(outdated, "its configuration, code version or inputs changed")
    if not stage.is_current(target):
        return state(outdated, "its file is missing or outdated", keeps_version=True)
    return state(Freshness.FRESH)
