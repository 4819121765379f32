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
from statistics import fmean
from typing import TypeAlias

import dagster as dg

from videomme_pipeline.assets.instance import History
from videomme_pipeline.assets.planning.freshness import Freshness, PartitionState
from videomme_pipeline.assets.stages.base import AnyStage, BenchmarkStage
from videomme_pipeline.assets.stages.refresh import BUILD_SECONDS, FILE_BYTES
from videomme_pipeline.assets.stages.responses import Responses
from videomme_pipeline.assets.stages.scores import Scores
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.project.answers.costs import PendingRequests
from videomme_pipeline.project.state.partitions import WHOLE, VariantPartition, VideoVariant

Cost: TypeAlias = tuple[float, float]
"""Wall-clock seconds and bytes of one partition."""
_NEWEST_EVENTS = 500
"""Mean costs are means over the measured partitions among this many events. If none of them was
measured, older events are read."""


class Work(Enum):
    """The work of a refresh on a partition that is not fresh."""

    BUILD = auto()
    REPORT = auto()
    """The partition is already stored, and only reported to Dagster."""
    UNKNOWN = auto()
    """The partition is built, unless the parents that it waits for stay the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEstimate:
    """The work of a refresh on one asset.

    `partitions` is the number of partitions to build, or None before the questions are built. With
    `is_upper_bound`, some of them may turn out to be unchanged. `already_stored` is the number of
    partitions that are only reported to Dagster. `seconds` is wall-clock time, and `bytes` is the
    size of the new files. Both are None if no comparable partition was measured.
    """

    asset: str
    partitions: int | None = None
    is_upper_bound: bool = False
    already_stored: int = 0
    seconds: float | None = None
    bytes: float | None = None


WorkByStage: TypeAlias = Mapping[AnyStage, Mapping[PartitionState, Work]]
"""The work on every partition that is not fresh, upstream first."""


def planned_work(states: Iterable[PartitionState]) -> WorkByStage:
    """The work of a refresh on `states`, which must be ordered upstream first."""
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


def estimate(work_by_stage: WorkByStage, history: History) -> list[RefreshEstimate]:
    """One estimate per asset that has something to build, in the order of the plan."""
    return [_estimate(stage, work_of, history) for stage, work_of in work_by_stage.items()]


def pending_requests(work_by_stage: WorkByStage) -> list[PendingRequests]:
    """The requests that a refresh would send to models, for `estimate_costs`."""
    by_benchmark: dict[str, PendingRequests] = {}
    for stage, work_of in work_by_stage.items():
        if not isinstance(stage, Responses | Scores):
            continue
        pending = by_benchmark.setdefault(
            stage.benchmark.name, PendingRequests(benchmark=stage.benchmark)
        )
        for state, work in work_of.items():
            partition = state.partition
            if work is Work.REPORT:
                continue
            if isinstance(partition, VideoVariant):
                pending.videos.setdefault(partition.variant, []).append(partition.video)
            elif isinstance(partition, VariantPartition):
                pending.scores.append(partition.variant)
    return [part for part in by_benchmark.values() if part.videos or part.scores]


def _measured_costs(history: History, stage: AnyStage) -> dict[str | None, list[Cost]]:
    """The costs of the newest measured partitions, by variant."""
    measured: dict[str | None, list[Cost]] = defaultdict(list)
    if history is None:
        return measured
    cursor: str | None = None
    while not measured:  # events of partitions that were only reported have no cost
        page = history.fetch_materializations(stage.asset_key, limit=_NEWEST_EVENTS, cursor=cursor)
        for record in page.records:
            event = record.asset_materialization
            if event is None or BUILD_SECONDS not in event.metadata:
                continue
            seconds, size = (event.metadata[name].value for name in (BUILD_SECONDS, FILE_BYTES))
            partition = stage.parse_partition(event.partition) if event.partition else WHOLE
            measured[partition.variant].append((float(str(seconds)), float(str(size))))
        if not page.has_more:
            break
        cursor = page.cursor
    return measured


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
    asset = stage.label
    if any(state.is_whole_stage for state in work_of):
        return RefreshEstimate(asset=asset)
    to_build = [state for state, work in work_of.items() if work is not Work.REPORT]
    counts = Counter(state.partition.variant for state in to_build)
    measured = _measured_costs(history, stage) if counts else {}
    means = [(_mean_cost(stage, variant, measured), count) for variant, count in counts.items()]
    is_measured = all(mean for mean, _ in means)
    return RefreshEstimate(
        asset=asset,
        partitions=len(to_build),
        is_upper_bound=Work.UNKNOWN in work_of.values(),
        already_stored=len(work_of) - len(to_build),
        seconds=sum(mean[0] * count for mean, count in means if mean) if is_measured else None,
        bytes=sum(mean[1] * count for mean, count in means if mean) if is_measured else None,
    )


def _mean_cost(
    stage: AnyStage, variant: str | None, measured: Mapping[str | None, Sequence[Cost]]
) -> Cost | None:
    """The mean cost of the same variant, else of comparable variants, else None."""
    costs = measured.get(variant) or [
        cost
        for other, others in measured.items()
        if stage.is_comparable(variant, other)
        for cost in others
    ]
    if not costs:
        return None
    seconds, sizes = zip(*costs, strict=True)
    return fmean(seconds), fmean(sizes)
