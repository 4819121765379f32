"""Dagster's partitions of a benchmark's stages, and the parents of each partition.

Videos are a dynamic dimension, because the annotations list them. The others are static ones, which
the configuration files list, since only these can be mapped onto each other exactly. A partition of
an evaluation that uses no frames or no subtitles has no parent in that stage.
"""

from collections import defaultdict

import dagster as dg

from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.project.state.partitions import Dimension, variant_in
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage


def partitions_of(stage: BenchmarkStage) -> dg.PartitionsDefinition[str] | None:
    """The partitions of a stage, or None for a stage of the whole benchmark."""
    parts: dict[str, dg.PartitionsDefinition[str]] = {
        dimension.value: _single(stage, dimension) for dimension in sorted(stage.stage.dimensions)
    }
    if len(parts) > 1:
        return dg.MultiPartitionsDefinition(parts)
    return next(iter(parts.values()), None)


def parents_of(stage: BenchmarkStage, upstream_stage: BenchmarkStage) -> dg.PartitionMapping | None:
    """The parents of a partition in an upstream stage, or None if Dagster's default is right."""
    upstream, downstream = upstream_stage.stage.dimensions, stage.stage.dimensions
    if not upstream or not downstream or upstream == downstream:
        return None
    if upstream < downstream or downstream < upstream:
        shared = next(iter(upstream & downstream))
        return dg.MultiToSingleDimensionPartitionMapping(shared.value)
    (parents,) = upstream - {Dimension.VIDEO}
    (children,) = downstream - {Dimension.VIDEO}
    children_of: dict[str, set[str]] = defaultdict(set)
    for evaluation in stage.benchmark.evaluations.values():
        parent, child = variant_in(evaluation, parents), variant_in(evaluation, children)
        if parent and child:
            children_of[parent].add(child)
    return dg.MultiPartitionMapping(
        {
            "video": dg.DimensionPartitionMapping("video", dg.IdentityPartitionMapping()),
            parents.value: dg.DimensionPartitionMapping(
                children.value, dg.StaticPartitionMapping(dict(children_of))
            ),
        }
    )


def _single(stage: BenchmarkStage, dimension: Dimension) -> dg.PartitionsDefinition[str]:
    if dimension is Dimension.VIDEO:
        return dg.DynamicPartitionsDefinition(name=_videos_name(stage))
    return dg.StaticPartitionsDefinition(list(stage.benchmark.variants(dimension)))


def _videos_name(stage: BenchmarkStage) -> str:
    """Dagster's name of the dynamic partitions of a benchmark's videos."""
    return f"{stage.project.runs.prefix}{stage.benchmark.name}_videos"


def update_video_partitions(stage: AnyStage, instance: dg.DagsterInstance) -> None:
    """After the questions: add partitions of new videos, and delete those without questions."""
    if not isinstance(stage, BenchmarkStage) or stage.stage.dimensions:
        return
    name = _videos_name(stage)
    try:
        videos = list(stage.benchmark.snapshot.questions)
    except NotReadyError:
        return
    defined = set(instance.get_dynamic_partitions(name))
    instance.add_dynamic_partitions(name, [video for video in videos if video not in defined])
    for video in defined.difference(videos):
        instance.delete_dynamic_partition(name, video)
