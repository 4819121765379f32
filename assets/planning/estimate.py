"""Work, time, space and cost of a refresh, estimated before it starts.

Within `Project.predicted`, the work is exact as far as the new versions of questions and videos can
be known before they are built. Other partitions that wait for a parent are counted as an upper
bound, because the parent may turn out to be the same as before.

`refresh` stores the time and size of every partition that it builds. Estimates are means over
comparable partitions. If no comparable partition was ever built, the estimate is None.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto

import dagster as dg

from assets.instance import History
from assets.planning.freshness import Freshness, PartitionState
from assets.stages.base import BUILD_SECONDS, FILE_BYTES, AnyStage, BenchmarkStage
from assets.stages.responses import Responses
from assets.stages.scores import Scores
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.project.answers.costs import PendingRequests
from videomme_pipeline.project.state.partitions import (
    WHOLE,
    VariantPartition,
    VideoVariantPartition,
    variant_of,
)

_NEWEST_EVENTS = 500
"""Unit costs are means over the measured partitions among this many events. If none of them was
measured, older events are read."""


class Work(Enum):
    """The work of a refresh on a partition that is not fresh."""

    BUILD = auto()
    REPORT = auto()
    """The partition is already stored, and only reported to Dagster."""
    UNKNOWN = auto()
    """The partition is built, unless the parents that it waits for stay the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """The mean time and size of one partition, over `partitions` measured partitions."""

    seconds: float
    bytes: float
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEstimate:
    """The work of a refresh on one asset.

    `partitions` is the number of partitions to build, or None before the questions are built. With
    `is_upper_bound`, some of them may turn out to be unchanged. `already_stored` is the number of
    partitions that are only reported to Dagster. `seconds` is wall-clock time, and `bytes` is the
    size of the new files. Both are None if no comparable partition was measured.
    """

    asset: str
    partitions: int | None
    is_upper_bound: bool
    already_stored: int
    seconds: float | None
    bytes: float | None


def estimate(states: Iterable[PartitionState], history: History) -> list[RefreshEstimate]:
    """One estimate per asset that has something to build, in the order of the plan."""
    return [_estimate(stage, work, history) for stage, work in _work_by_stage(states).items()]


def pending_requests(states: Iterable[PartitionState]) -> list[PendingRequests]:
    """The requests that a refresh would send to models, for `estimate_costs`."""
    by_benchmark: dict[str, PendingRequests] = {}
    for stage, work_of in _work_by_stage(states).items():
        if not isinstance(stage, Responses | Scores):
            continue
        pending = by_benchmark.setdefault(
            stage.benchmark.name, PendingRequests(benchmark=stage.benchmark)
        )
        for state, work in work_of.items():
            partition = state.partition
            if work is Work.REPORT:
                continue
            if isinstance(partition, VideoVariantPartition):
                pending.videos.setdefault(partition.variant, []).append(partition.video)
            elif isinstance(partition, VariantPartition):
                pending.scores.append(partition.variant)
    return [part for part in by_benchmark.values() if part.videos or part.scores]


def unit_costs(history: History, stage: AnyStage) -> dict[str | None, UnitCost]:
    """Mean cost of a partition of each variant, from the newest materializations."""
    if history is None:
        return {}
    measured: dict[str | None, list[tuple[float, float]]] = defaultdict(list)
    cursor: str | None = None
    while not measured:  # the newest may all be events of partitions that were only reported
        page = history.fetch_materializations(stage.asset_key, limit=_NEWEST_EVENTS, cursor=cursor)
        for record in page.records:
            event = record.asset_materialization
            if event is None or BUILD_SECONDS not in event.metadata:
                continue
            seconds, size = (event.metadata[name].value for name in (BUILD_SECONDS, FILE_BYTES))
            partition = stage.parse_partition(event.partition) if event.partition else WHOLE
            measured[variant_of(partition)].append((float(str(seconds)), float(str(size))))
        if not page.has_more:
            break
        cursor = page.cursor
    return {variant: _mean(costs) for variant, costs in measured.items()}


def _work_by_stage(
    states: Iterable[PartitionState],
) -> dict[AnyStage, dict[PartitionState, Work]]:
    """The work on every partition that is not fresh. `states` must be ordered upstream first."""
    by_stage: dict[AnyStage, dict[PartitionState, Work]] = defaultdict(dict)
    work_on: dict[dg.AssetKey, set[Work]] = defaultdict(set)
    for state in states:
        if state.freshness is Freshness.FRESH:
            continue
        stage = state.stage
        upstream = set[Work]().union(*(work_on[key] for key in stage.parent_keys))
        work = _work(state, upstream)
        by_stage[stage][state] = work
        work_on[stage.asset_key].add(work)
    return by_stage


def _work(state: PartitionState, upstream: AbstractSet[Work]) -> Work:
    """The work on one partition. `upstream` contains all work on the assets that it depends on."""
    stage = state.stage
    if state.is_whole_stage:
        return Work.UNKNOWN
    if not isinstance(stage, BenchmarkStage):
        # The fingerprint of a shared file depends on the stored files, which will change.
        for work in (Work.BUILD, Work.UNKNOWN):
            if work in upstream:
                return work
    elif state.waits_for_parent and not stage.benchmark.snapshot.is_prediction:
        return Work.UNKNOWN
    try:
        target = stage.target(state.partition)
    except VideoMMEError:
        return Work.BUILD if state.freshness is Freshness.MISSING else Work.UNKNOWN
    return Work.REPORT if stage.stored(target) == target.fingerprint else Work.BUILD


def _estimate(
    stage: AnyStage, work_of: Mapping[PartitionState, Work], history: History
) -> RefreshEstimate:
    asset = stage.asset_key.to_user_string()
    if any(state.is_whole_stage for state in work_of):
        return RefreshEstimate(
            asset=asset,
            partitions=None,
            is_upper_bound=False,
            already_stored=0,
            seconds=None,
            bytes=None,
        )
    to_build = [state for state, work in work_of.items() if work is not Work.REPORT]
    counts = Counter(variant_of(state.partition) for state in to_build)
    costs = unit_costs(history, stage) if counts else {}
    units = [(_unit(stage, variant, costs), count) for variant, count in counts.items()]
    measured = [(unit, count) for unit, count in units if unit is not None]
    is_measured = len(measured) == len(units)
    return RefreshEstimate(
        asset=asset,
        partitions=len(to_build),
        is_upper_bound=Work.UNKNOWN in work_of.values(),
        already_stored=len(work_of) - len(to_build),
        seconds=sum(unit.seconds * count for unit, count in measured) if is_measured else None,
        bytes=sum(unit.bytes * count for unit, count in measured) if is_measured else None,
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


def _mean(costs: Sequence[tuple[float, float]]) -> UnitCost:
    seconds, sizes = zip(*costs, strict=True)
    return UnitCost(
        seconds=sum(seconds) / len(costs), bytes=sum(sizes) / len(costs), partitions=len(costs)
    )
