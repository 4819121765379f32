"""Work of a refresh, before it starts: the partitions to build and the requests to send."""

from collections import defaultdict
from collections.abc import Iterable

from videomme_pipeline.project.answers.costs import estimate_judge, estimate_responses
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import VariantPartition, VideoVariant
from videomme_pipeline.responses.estimate import CostEstimate
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


def estimate_costs(states: Iterable[PartitionState]) -> list[CostEstimate]:
    """One estimate per evaluation with requests to an endpoint, then one per judge.

    An evaluation is left out if its questions have not been fetched yet.
    """
    videos: dict[tuple[BenchmarkState, str], list[str]] = defaultdict(list)
    scores: list[tuple[BenchmarkState, str]] = []
    for state in states:
        stage, partition = state.stage, state.partition
        if state.freshness is Freshness.FRESH or not stage.asks_models:
            continue
        assert isinstance(stage, BenchmarkStage)
        if isinstance(partition, VideoVariant):
            videos[stage.benchmark, partition.variant].append(partition.video)
        elif isinstance(partition, VariantPartition):
            scores.append((stage.benchmark, partition.variant))
    estimates = [
        *(estimate_responses(*evaluation, video_ids) for evaluation, video_ids in videos.items()),
        *(estimate_judge(*evaluation) for evaluation in scores),
    ]
    return [estimate for estimate in estimates if estimate is not None]
