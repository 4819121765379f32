"""Work of a refresh, before it starts: the partitions to build and the requests to send."""

from collections.abc import Iterable

from videomme_pipeline.project.answers.costs import PendingRequests
from videomme_pipeline.project.state.partitions import VariantPartition, VideoVariant
from videomme_pipeline.stages.plan import Freshness, PartitionState
from videomme_pipeline.stages.stage import BenchmarkStage


def estimate(states: Iterable[PartitionState]) -> dict[str, int | None]:
    """The number of partitions to build of each asset; None before the questions are fetched.

    Assets without anything to build are left out. The others are in the order of the plan.
    """
    counts: dict[str, int | None] = {}
    for state in states:
        if state.freshness is not Freshness.FRESH:
            count = None if state.is_whole_stage else (counts.get(state.stage.label) or 0) + 1
            counts[state.stage.label] = count
    return counts


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
