"""A part of the videos of evaluations, which one process builds without talking to any other.

An array of jobs or a loop starts the processes. Files appear whole and are named by their content,
so the processes need no lock and no database, and the next ordinary run finds everything stored.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from videomme_pipeline.errors import ConfigurationError, NotReadyError, VideoMissingError, listed
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.stages.chain import chain
from videomme_pipeline.stages.refresh import refresh
from videomme_pipeline.stages.stage import BenchmarkStage, BuildResult
from videomme_pipeline.videos.files import size_of

SHARDED = ("videos", "frames")
"""The stages that can be built in shards: one process alone needs nothing else for them."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count` parts, from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard of a text such as "3/16". Raises ConfigurationError for another text."""
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ConfigurationError(
                f"--shard {text}: expected part/parts, from 1/1, such as 3/16 for the third of 16"
            )
        return cls(int(number), int(count))

    def part_of(self, sizes: dict[str, int]) -> set[str]:
        """The videos of this shard, if `sizes` has the bytes of all videos of the evaluation.

        The largest video that is left goes to the shard with the fewest bytes, so every process
        with the same files splits them alike.
        """
        loads = [(0, number) for number in range(1, self.count + 1)]
        chosen = set()
        for video_id in sorted(sizes, key=lambda video_id: (-sizes[video_id], video_id)):
            load, number = loads[0]
            heapq.heapreplace(loads, (load + max(sizes[video_id], 1), number))
            if number == self.number:
                chosen.add(video_id)
        return chosen


@dataclass(slots=True)
class ShardResult:
    """Built and formerly stored partitions of a shard by asset, and the reasons of failures."""

    videos: int = 0
    built: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)


def build_shard(
    project: Project, evaluations: Sequence[str], stages: Sequence[str], shard: Shard
) -> ShardResult:
    """Build `stages` for the videos of one shard of `evaluations`, on the cores of this machine.

    Neither Dagster nor the journal is opened. Raises ConfigurationError if there are several shards
    and videos of the evaluations are missing, because every process would fetch or draw them.
    """
    project = replace(project, cluster=None, is_shard=True)
    result = ShardResult()
    for benchmark in project.benchmarks:
        by_name = {stage.name: stage for stage in chain(project, benchmark)}
        _build(by_name["questions"], by_name["questions"].partitions(evaluations), result)
        try:
            partitions = by_name["videos"].partitions(evaluations)
        except NotReadyError:  # the reason is a failure of the questions
            continue
        own = _own_videos(by_name["videos"], partitions, shard)
        result.videos += len(own)
        for name in SHARDED:
            if name in stages and name in by_name:
                stage = by_name[name]
                chosen = [p for p in stage.partitions(evaluations) if p.video in own]
                _build(stage, chosen, result)
    return result


def _own_videos(stage: BenchmarkStage, partitions: Sequence[Partition], shard: Shard) -> set[str]:
    ids = [str(partition.video) for partition in partitions]
    if shard.count == 1:
        return set(ids)
    snapshot = stage.benchmark.snapshot
    sizes, missing = {}, []
    for video_id in ids:
        try:
            sizes[video_id] = size_of(snapshot.video_file(video_id))
        except VideoMissingError:
            missing.append(video_id)
    if missing:
        raise ConfigurationError(
            f"{stage.benchmark.name}: {len(missing):,} of {len(ids):,} videos are missing "
            f"({listed(missing)}); get them first, with `videomme run --only videos` in one process"
        )
    return shard.part_of(sizes)


def _build(stage: BenchmarkStage, requested: Sequence[Partition], result: ShardResult) -> None:
    if not requested:
        return
    for event in refresh(stage, requested):
        counted = result.built if isinstance(event, BuildResult) else result.stored
        counted[stage.label] += 1
    failed = stage.failures.reasons()
    for partition in filter(failed.get, requested):
        parts = (stage.label, partition.variant, partition.video)
        result.failures[" ".join(part for part in parts if part)] = failed[partition]
