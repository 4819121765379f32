"""Dagster's names of assets and groups, and the partitions of each stage with their parents."""

import re
from collections import defaultdict
from functools import cache
from urllib.parse import quote

import dagster as dg

from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.project.nightly.alerts import ui_address
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Dimension, Partition, variant_in
from videomme_pipeline.stages.stage import AnyStage, BenchmarkStage


def key_in(project: Project, label: str) -> dg.AssetKey:
    """Dagster's key of an asset of `project`, such as "smoke/frames"."""
    return _asset_key(project.runs.prefix, label)


@cache
def _asset_key(prefix: str, label: str) -> dg.AssetKey:
    return dg.AssetKey(f"{prefix}{label}".split("/"))


def asset_key(stage: AnyStage) -> dg.AssetKey:
    """Dagster's key of the asset of a stage."""
    return key_in(stage.project, stage.label)


def partition_url(key: dg.AssetKey, partition: str) -> str:
    """The page of a partition in the UI."""
    asset = "/".join(key.path)
    return f"{ui_address()}/assets/{asset}?view=partitions&partition={quote(partition)}"


def group_name(benchmark: str) -> str:
    """`benchmark` as the name of an asset group, which has only letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", benchmark)


def partition_key(stage: AnyStage, partition: Partition) -> str | None:
    """Dagster's key of a partition, or None for an asset without partitions."""
    video, variant, dimension = partition.video, partition.variant, stage.variant_dimension
    if video is None or variant is None or dimension is None:
        return video or variant
    return dg.MultiPartitionKey({"video": video, dimension.value: variant})


def partitions_of(stage: BenchmarkStage) -> dg.PartitionsDefinition[str] | None:
    """The partitions of a stage, or None for a stage of the whole benchmark.

    Videos are a dynamic dimension, because the annotations list them. The others are static ones,
    which the configuration files list, since only these can be mapped onto each other exactly.
    """
    parts: dict[str, dg.PartitionsDefinition[str]] = {
        dimension.value: _single(stage, dimension) for dimension in sorted(stage.stage.dimensions)
    }
    if len(parts) > 1:
        return dg.MultiPartitionsDefinition(parts)
    return next(iter(parts.values()), None)


def parents_of(stage: BenchmarkStage, upstream_stage: BenchmarkStage) -> dg.PartitionMapping | None:
    """The parents of a partition in an upstream stage, or None if Dagster's default is right.

    A partition of an evaluation that uses no frames or no subtitles has no parent in that stage.
    """
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
