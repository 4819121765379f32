"""Work of a refresh, before it starts: the partitions to build and the requests to send."""

from collections.abc import Iterable
from dataclasses import dataclass

from videomme_pipeline.project.answers.costs import PendingRequests
from videomme_pipeline.project.state.partitions import VariantPartition, VideoVariant
from videomme_pipeline.stages.plan import Freshness, PartitionState
from videomme_pipeline.stages.stage import BenchmarkStage


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEstimate:
    """The work of a refresh on one asset.

    `partitions` is the number of partitions to build, or None before the questions are fetched.
    """

    asset: str
    partitions: int | None = None


def estimate(states: Iterable[PartitionState]) -> list[RefreshEstimate]:
    """One estimate per asset that has something to build, in the order of the plan."""
    by_asset: dict[str, list[PartitionState]] = {}
    for state in states:
        if state.freshness is not Freshness.FRESH:
            by_asset.setdefault(state.stage.label, []).append(state)
    return [
        RefreshEstimate(
            asset=asset,
            partitions=None if any(state.is_whole_stage for state in own) else len(own),
        )
        for asset, own in by_asset.items()
    ]


def pending_requests(states: Iterable[PartitionState]) -> list[PendingRequests]:
    """The requests that a refresh would send to models, for `estimate_costs`."""
    by_benchmark: dict[str, PendingRequests] = {}
    for state in states:
        stage, partition = state.stage, state.partition
        if state.freshness is Freshness.FRESH or not isinstance(stage, BenchmarkStage):
            continue
        if not stage.asks_models:
            continue
        pending = by_benchmark.setdefault(
            stage.benchmark.name, PendingRequests(benchmark=stage.benchmark)
        )
        if isinstance(partition, VideoVariant):
            pending.videos.setdefault(partition.variant, []).append(partition.video)
        elif isinstance(partition, VariantPartition):
            pending.scores.append(partition.variant)
    return [part for part in by_benchmark.values() if part.videos or part.scores]
