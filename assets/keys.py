"""Dagster's names of assets, groups and partitions."""

import re
from functools import cache
from urllib.parse import quote

import dagster as dg

from videomme_pipeline.project.nightly.alerts import ui_address
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.partitions import Partition
from videomme_pipeline.stages.stage import AnyStage


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
