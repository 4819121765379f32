"""Partition mappings of every edge in the graph return the parents that the planner uses."""

import dagster as dg
from dagster._core.definitions.partitions.context import partition_loading_context

from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.keys import asset_key, partition_key
from videomme_pipeline.project.project import Project
from videomme_pipeline.stages.chain import chain
from videomme_pipeline.stages.plan import parents


def test_dagster_and_the_planner_find_the_same_parents(
    project: Project, instance: dg.DagsterInstance
) -> None:
    graph = build_definitions(project).resolve_asset_graph()
    stages = {stage.label: stage for stage in chain(project, "videomme")}
    compared = 0
    for stage in stages.values():
        if not stage.stage.dimensions:
            continue
        for partition in stage.partitions():
            key = partition_key(stage, partition)
            for upstream in (stages[label] for label in stage.upstream):
                if not upstream.stage.dimensions:
                    continue
                with partition_loading_context(dynamic_partitions_store=instance):
                    mapped = graph.get_parent_partition_keys_for_child(
                        key, asset_key(upstream), asset_key(stage)
                    )
                expected = {
                    partition_key(upstream, parent)
                    for parent in parents(stage, partition, upstream)
                }
                assert set(mapped.partitions_subset.get_partition_keys()) == expected, (
                    key,
                    upstream,
                )
                compared += 1
    assert compared > 40
