"""The one rule of freshness, and the plan that follows from it.

A partition is fresh when what it would be made of now is what was last materialized, its file is
there, and all its parents are fresh. What it would be made of follows from the configuration and
the content of the videos alone, so the whole graph is planned without making anything.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum

import dagster as dg

from assets.errors import NotReadyError
from assets.partitions import Cell, Dimension
from assets.stages.base import DATA_VERSION_TAG, BenchmarkStage, Stage
from videomme_pipeline.errors import VideoMMEError


class Freshness(StrEnum):
    """Where one partition stands."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"
    FAILED = "failed"
    """It was tried and could not be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Where one partition stands, and why it is not fresh."""

    stage: Stage
    cell: Cell
    freshness: Freshness
    reason: str = ""
    keeps_version: bool = False
    """It will be made again with the same data version, so nothing behind it is affected."""
    waits: bool = False
    """A parent will change first, so what it will be made of is not known yet."""
    stands_for_all: bool = False
    """Not one partition but all of its stage, which are not known yet."""

    @property
    def will_change(self) -> bool:
        """Whether what is made from it goes stale too."""
        return self.freshness is not Freshness.FRESH and not self.keeps_version

    @property
    def name(self) -> str:
        """The partition as a person writes it: "smoke/frames uniform_n-8|001"."""
        key = self.stage.partition_key(self.cell)
        asset = self.stage.asset_key.to_user_string()
        return f"{asset} {key}" if key else asset


def recorded_versions(instance: dg.DagsterInstance, stage: Stage) -> dict[Cell, str]:
    """The data version that Dagster last saw of each partition of a stage."""
    if not stage.dimensions:
        event = instance.get_latest_materialization_event(stage.asset_key)
        tags = event.asset_materialization.tags if event and event.asset_materialization else None
        return {Cell(): tags[DATA_VERSION_TAG]} if tags and DATA_VERSION_TAG in tags else {}
    tagged = instance.event_log_storage.get_latest_tags_by_partition(
        stage.asset_key,
        event_type=dg.DagsterEventType.ASSET_MATERIALIZATION,
        tag_keys=[DATA_VERSION_TAG],
    )
    return {
        stage.cell(key): tags[DATA_VERSION_TAG]
        for key, tags in tagged.items()
        if DATA_VERSION_TAG in tags
    }


def failed_attempts(instance: dg.DagsterInstance, stage: Stage) -> set[Cell]:
    """The partitions that Dagster shows as failed since a run that was to make them has failed.

    An interrupted range run leaves all of its partitions so, also those that were fresh.
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
    return {stage.cell(key) for key, (run_id, _) in attempts.items() if run_id in ended}


def newest_event(instance: dg.DagsterInstance) -> int | None:
    """The id of the newest event that Dagster holds; None before the first."""
    return instance.event_log_storage.get_maximum_record_id()


def plan(
    stages: Sequence[Stage],
    instance: dg.DagsterInstance,
    evaluations: Sequence[str] | None = None,
) -> list[PartitionState]:
    """Where every partition of `stages` stands; upstream stages must come first.

    With `evaluations`, only the partitions that these need are looked at. A stage whose
    partitions are not known yet (no questions) is one missing partition.
    """
    states: list[PartitionState] = []
    not_fresh: dict[Stage, set[Cell]] = {}
    with ThreadPoolExecutor() as pool:  # the database answers for later stages meanwhile
        recorded = {stage: pool.submit(recorded_versions, instance, stage) for stage in stages}
        for stage in stages:
            keys = stage.parent_keys
            above = {up: cells for up, cells in not_fresh.items() if cells and up.asset_key in keys}
            found = _plan_stage(stage, recorded[stage].result(), evaluations, above)
            not_fresh[stage] = {s.cell for s in found if s.will_change}
            states.extend(found)
    return states


def counts(states: Iterable[PartitionState]) -> dict[str, Counter[Freshness]]:
    """How many partitions of each asset are fresh, stale, missing and failed."""
    by_asset: dict[str, Counter[Freshness]] = {}
    for state in states:
        by_asset.setdefault(state.stage.asset_key.to_user_string(), Counter())[state.freshness] += 1
    return by_asset


def parents(stage: Stage, cell: Cell, above: Stage) -> list[Cell]:
    """The partitions of an upstream stage that `cell` is made from.

    The rule that the partition mappings tell Dagster, spelled for the planner; a test holds the
    two equal. A stage over all benchmarks is made from everything.
    """
    if not isinstance(stage, BenchmarkStage):
        return above.cells()
    variant: str | None = None
    if above.variant_dimension is not None:
        variant = stage.benchmark.partitions.parent(
            cell.variant, stage.variant_dimension, above.variant_dimension
        )
        if variant is None:
            return []
    if Dimension.VIDEO not in above.dimensions:
        return [Cell(variant=variant)]
    videos = [cell.video] if cell.video is not None else list(stage.benchmark.questions)
    return [Cell(video=video, variant=variant) for video in videos]


def _plan_stage(
    stage: Stage,
    recorded: Mapping[Cell, str],
    evaluations: Sequence[str] | None,
    above: Mapping[Stage, set[Cell]],
) -> list[PartitionState]:
    try:
        cells = stage.cells(evaluations)
    except NotReadyError as error:
        state = PartitionState(
            stage=stage,
            cell=Cell(),
            freshness=Freshness.MISSING,
            reason=str(error),
            stands_for_all=True,
        )
        return [state]
    failures = stage.failures.read()
    states = []
    for cell in cells:
        state = _judge(stage, cell, recorded.get(cell), above)
        if cell in failures and state.freshness is not Freshness.FRESH:
            state = replace(state, freshness=Freshness.FAILED, reason=failures[cell])
        states.append(state)
    return states


def _judge(
    stage: Stage, cell: Cell, version: str | None, above: Mapping[Stage, set[Cell]]
) -> PartitionState:
    def state(freshness: Freshness, reason: str = "", **more: bool) -> PartitionState:
        return PartitionState(stage=stage, cell=cell, freshness=freshness, reason=reason, **more)

    behind = Freshness.STALE if version else Freshness.MISSING
    for upstream, changing in above.items():
        if not changing.isdisjoint(parents(stage, cell, upstream)):
            key = upstream.asset_key.to_user_string()
            return state(behind, f"{key}, which it is made from, is not fresh", waits=True)
    try:
        target = stage.target(cell)
    except VideoMMEError as error:
        return state(behind, str(error))
    if version is None:
        return state(behind, "never materialized")
    if version != target.data_version:
        return state(behind, "its configuration, code version or inputs changed")
    if not stage.is_current(target):
        return state(behind, "its file is gone, or says what is no longer so", keeps_version=True)
    return state(Freshness.FRESH)
