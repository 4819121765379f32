"""Dagster's partitions of a benchmark's stages, and the parents of each partition.

Videos are a dynamic dimension, because the annotations list them. Samplings, tracks and
evaluations are static dimensions, because the configuration files list them. Only static dimensions
can be mapped onto each other exactly. A partition of an evaluation that uses no frames or no
subtitles has no parent in that stage.
"""

from collections import defaultdict
from dataclasses import dataclass

import dagster as dg

from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, variant_in
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage


@dataclass(frozen=True)
class Partitions:
    """The partition definitions of one benchmark."""

    benchmark: BenchmarkState
    prefix: str = ""

    @property
    def videos_name(self) -> str:
        """Dagster's name of the dynamic partitions of this benchmark's videos."""
        return f"{self.prefix}{self.benchmark.name}_videos"

    def definition(self, dimensions: frozenset[Dimension]) -> dg.PartitionsDefinition[str] | None:
        """The definition over `dimensions`, or None if there are none."""
        parts: dict[str, dg.PartitionsDefinition[str]] = {
            dimension.value: self._single(dimension) for dimension in sorted(dimensions)
        }
        if len(parts) > 1:
            return dg.MultiPartitionsDefinition(parts)
        return next(iter(parts.values()), None)

    def mapping(
        self, upstream: frozenset[Dimension], downstream: frozenset[Dimension]
    ) -> dg.PartitionMapping | None:
        """The upstream partitions that a downstream partition is built from.

        None if Dagster's default (identity, or all partitions) is right.
        """
        if not upstream or not downstream or upstream == downstream:
            return None
        if upstream < downstream or downstream < upstream:
            shared = next(iter(upstream & downstream))
            return dg.MultiToSingleDimensionPartitionMapping(shared.value)
        (parents,) = upstream - {Dimension.VIDEO}
        (children,) = downstream - {Dimension.VIDEO}
        return dg.MultiPartitionMapping(
            {
                "video": dg.DimensionPartitionMapping("video", dg.IdentityPartitionMapping()),
                parents.value: dg.DimensionPartitionMapping(
                    children.value, dg.StaticPartitionMapping(self._children(parents, children))
                ),
            },
        )

    def _single(self, dimension: Dimension) -> dg.PartitionsDefinition[str]:
        if dimension is Dimension.VIDEO:
            return dg.DynamicPartitionsDefinition(name=self.videos_name)
        return dg.StaticPartitionsDefinition(list(self.benchmark.variants(dimension)))

    def _children(self, upstream: Dimension, downstream: Dimension) -> dict[str, set[str]]:
        """The variants of `downstream` that are built from each variant of `upstream`."""
        children: dict[str, set[str]] = defaultdict(set)
        for evaluation in self.benchmark.evaluations.values():
            parent, child = variant_in(evaluation, upstream), variant_in(evaluation, downstream)
            if parent and child:
                children[parent].add(child)
        return dict(children)


def partitions_of(stage: BenchmarkStage) -> Partitions:
    """The partition definitions of the benchmark of a stage."""
    return Partitions(stage.benchmark, stage.project.runs.prefix)


def update_video_partitions(stage: AnyStage, instance: dg.DagsterInstance) -> None:
    """Add a partition per new video, and delete those of videos without questions.

    Does nothing for another stage than the questions.
    """
    if not isinstance(stage, BenchmarkStage) or stage.stage.dimensions:
        return
    name = partitions_of(stage).videos_name
    try:
        videos = list(stage.benchmark.snapshot.questions)
    except NotReadyError:
        return
    defined = set(instance.get_dynamic_partitions(name))
    instance.add_dynamic_partitions(name, [video for video in videos if video not in defined])
    for video in defined.difference(videos):
        instance.delete_dynamic_partition(name, video)
