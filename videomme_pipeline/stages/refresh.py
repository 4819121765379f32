"""Refresh of the stale partitions of a stage, and its work and costs before it starts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.project.answers.costs import estimate_judge, estimate_responses
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.failures import Failure
from videomme_pipeline.project.state.partitions import Partition, VariantPartition, VideoVariant
from videomme_pipeline.responses.estimate import CostEstimate
from videomme_pipeline.stages import stage as stages
from videomme_pipeline.stages.plan import Freshness, PartitionState, plan_project
from videomme_pipeline.storage.results import record_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSelected:
    """A partition that is never built, because the evaluation does not select its video."""

    partition: Partition


RefreshEvent: TypeAlias = stages.BuildResult | stages.Target | NotSelected
"""A target without a result was stored before."""


def refresh(
    stage: stages.AnyStage, requested: Sequence[Partition], *, builds: bool = True
) -> Iterator[RefreshEvent]:
    """Build the stale partitions among `requested`, and yield each once it is stored.

    Stored partitions are yielded first. Failed ones are not yielded; `stage.failures` has the
    reasons. Without `builds`, only stored partitions are yielded.
    """
    failures: dict[Partition, Failure] = {}
    for failed in stage.prepare(requested) if builds else ():
        failures[failed.partition] = Failure(failed.reason)
    stale: dict[Partition, stages.Target] = {}
    for partition in requested:
        if partition in failures:
            continue
        if not stage.selects(partition):
            yield NotSelected(partition=partition)
            continue
        try:
            target = stage.target(partition)
        except VideoMMEError as error:
            failures[partition] = Failure(str(error))
            continue
        if stage.has(partition, target.fingerprint):
            yield target
        else:
            stale[partition] = target
    if not builds:
        return
    for result in stage.build(list(stale.values())) if stale else ():
        if isinstance(result, stages.BuildFailure):
            fingerprint = stale[result.partition].fingerprint
            failures[result.partition] = Failure(result.reason, fingerprint)
        else:
            yield result
    stage.failures.update(requested, failures)
    stage.invalidate()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshResult:
    """The result of a refresh: how many partitions of each asset were built, and what is not fresh.

    `registered` counts partitions that were stored before and that Dagster did not show.
    `not_fresh` has failed partitions, and those that no running run will build. `left_to_others`
    has those that another run will build, because that run has changed their inputs meanwhile.
    `run_id` is None if everything was fresh. `stopped_by` is a message that says how to continue if
    the run reached its cost limit, else None.
    """

    run_id: str | None = None
    built: Counter[str] = field(default_factory=Counter)
    registered: Counter[str] = field(default_factory=Counter)
    not_fresh: list[PartitionState] = field(default_factory=list)
    left_to_others: list[PartitionState] = field(default_factory=list)
    stopped_by: str | None = None


def nothing_stale(project: Project, evaluations: Sequence[str]) -> RefreshResult | None:
    """The result of a refresh that has nothing to build, or None if something is stale.

    The scores of the evaluations are then those that readers show. Dagster is not needed.
    """
    states = plan_project(project, evaluations)
    if any(state.freshness is not Freshness.FRESH for state in states):
        return None
    show_scores(project, evaluations)
    return RefreshResult()


def show_scores(project: Project, evaluations: Sequence[str]) -> None:
    """Record that the current scores of these evaluations are shown, if they are stored."""
    for benchmark in project.benchmarks.values():
        planned = benchmark.snapshot.planned.scores
        names = benchmark.snapshot.names("scores")
        for name in evaluations:
            fingerprint = planned.get(name)
            if fingerprint and names.best(name, None, fingerprint):
                specification = benchmark.evaluations[name].specification
                record_shown(project.store, benchmark.name, name, fingerprint, specification)


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
        assert isinstance(stage, stages.BenchmarkStage)
        if isinstance(partition, VideoVariant):
            videos[stage.benchmark, partition.variant].append(partition.video)
        elif isinstance(partition, VariantPartition):
            scores.append((stage.benchmark, partition.variant))
    estimates = [
        *(estimate_responses(*evaluation, video_ids) for evaluation, video_ids in videos.items()),
        *(estimate_judge(*evaluation) for evaluation in scores),
    ]
    return [estimate for estimate in estimates if estimate is not None]
