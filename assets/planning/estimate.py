"""Work, time, space and cost of a refresh, estimated before it starts.

`refresh` stores the time and size of every partition that it builds. Estimates are means over
comparable partitions. If no comparable partition was ever built, the estimate is None.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from assets.planning.freshness import Freshness, PartitionState
from assets.stages.base import BUILD_SECONDS, FILE_BYTES, AnyStage
from assets.stages.responses import Responses
from assets.stages.scores import Scores
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.project.costs import PendingRequests
from videomme_pipeline.project.partitions import (
    WHOLE,
    VariantPartition,
    VideoVariantPartition,
    variant_of,
)

_NEWEST_EVENTS = 500
"""Unit costs are means over this many of the newest materializations of each asset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """Mean time and size of one partition, over `partitions` measured ones."""

    seconds: float
    bytes: float
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEstimate:
    """The work of a refresh on one asset.

    `partitions` is the number of partitions to build, or None if it is not known yet.
    `already_stored` is the number of those that are only reported to Dagster. `seconds` is
    wall-clock time, and `bytes` is the size of the new files. Both are None if no comparable
    partition was measured.
    """

    asset: str
    partitions: int | None
    already_stored: int
    seconds: float | None
    bytes: float | None


def estimate(
    states: Iterable[PartitionState], instance: dg.DagsterInstance
) -> list[RefreshEstimate]:
    """One estimate per asset that has something to build, in the order of the plan."""
    by_stage: dict[AnyStage, list[PartitionState]] = defaultdict(list)
    for state in states:
        if state.freshness is not Freshness.FRESH:
            by_stage[state.stage].append(state)
    return [_estimate(stage, not_fresh, instance) for stage, not_fresh in by_stage.items()]


def pending_requests(states: Iterable[PartitionState]) -> list[PendingRequests]:
    """The requests that a refresh would send to models, for `estimate_costs`."""
    by_benchmark: dict[str, PendingRequests] = {}
    for state in states:
        stage, partition = state.stage, state.partition
        if state.freshness is Freshness.FRESH or not isinstance(stage, Responses | Scores):
            continue
        pending = by_benchmark.setdefault(
            stage.benchmark.name, PendingRequests(benchmark=stage.benchmark)
        )
        if isinstance(partition, VideoVariantPartition):
            pending.videos.setdefault(partition.variant, []).append(partition.video)
        elif isinstance(partition, VariantPartition):
            pending.scores.append(partition.variant)
    return list(by_benchmark.values())


def unit_costs(instance: dg.DagsterInstance, stage: AnyStage) -> dict[str | None, UnitCost]:
    """Mean cost of a partition of each variant, from the newest materializations."""
    found = instance.fetch_materializations(stage.asset_key, limit=_NEWEST_EVENTS)
    measured: dict[str | None, list[tuple[float, float]]] = defaultdict(list)
    for record in found.records:
        event = record.asset_materialization
        if event is None or BUILD_SECONDS not in event.metadata:
            continue
        seconds, size = (event.metadata[name].value for name in (BUILD_SECONDS, FILE_BYTES))
        partition = stage.parse_partition(event.partition) if event.partition else WHOLE
        measured[variant_of(partition)].append((float(str(seconds)), float(str(size))))
    return {variant: _mean(costs) for variant, costs in measured.items()}


def _estimate(
    stage: AnyStage, not_fresh: Sequence[PartitionState], instance: dg.DagsterInstance
) -> RefreshEstimate:
    asset = stage.asset_key.to_user_string()
    if any(state.is_whole_stage for state in not_fresh):
        return RefreshEstimate(
            asset=asset, partitions=None, already_stored=0, seconds=None, bytes=None
        )
    to_build = [state for state in not_fresh if not _is_stored(state)]
    wanted = Counter(variant_of(state.partition) for state in to_build)
    costs = unit_costs(instance, stage) if wanted else {}
    units = {variant: _unit(stage, variant, costs) for variant in wanted}
    known = {variant: unit for variant, unit in units.items() if unit is not None}
    is_known = len(known) == len(units)
    return RefreshEstimate(
        asset=asset,
        partitions=len(to_build),
        already_stored=len(not_fresh) - len(to_build),
        seconds=sum(wanted[v] * unit.seconds for v, unit in known.items()) if is_known else None,
        bytes=sum(wanted[v] * unit.bytes for v, unit in known.items()) if is_known else None,
    )


def _unit(
    stage: AnyStage, variant: str | None, costs: Mapping[str | None, UnitCost]
) -> UnitCost | None:
    """The cost of the same variant, else the mean over comparable variants, else None."""
    if variant in costs:
        return costs[variant]
    comparable = [cost for other, cost in costs.items() if stage.is_comparable(variant, other)]
    partitions = sum(cost.partitions for cost in comparable)
    if not partitions:
        return None
    return UnitCost(
        seconds=sum(cost.seconds * cost.partitions for cost in comparable) / partitions,
        bytes=sum(cost.bytes * cost.partitions for cost in comparable) / partitions,
        partitions=partitions,
    )


def _is_stored(state: PartitionState) -> bool:
    """Return True if a file with the fingerprint of the partition is already stored."""
    if state.waits_for_parent:
        return False
    try:
        target = state.stage.target(state.partition)
    except VideoMMEError:
        return False
    return state.stage.stored(target) == target.fingerprint


def _mean(costs: Sequence[tuple[float, float]]) -> UnitCost:
    seconds, sizes = zip(*costs, strict=True)
    return UnitCost(
        seconds=sum(seconds) / len(costs), bytes=sum(sizes) / len(costs), partitions=len(costs)
    )
