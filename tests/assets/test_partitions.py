"""Partitions: every edge of the graph maps to exactly the parents that a partition is made from."""

import dagster as dg
from dagster._core.definitions.partitions.context import partition_loading_context

from assets.definitions import build_definitions, chain
from assets.planning.freshness import parents
from videomme_pipeline.project.project import Project


def test_dagster_and_the_planner_name_the_same_parents(
    project: Project, instance: dg.DagsterInstance
) -> None:
    graph = build_definitions(project).resolve_asset_graph()
    stages = {stage.asset_key: stage for stage in chain(project, "videomme")}
    compared = 0
    for stage in stages.values():
        if not stage.dimensions:
            continue
        for partition in stage.partitions():
            key = stage.key_of_partition(partition)
            for above in (stages[dep.asset_key] for dep in stage.deps()):
                if not above.dimensions:
                    continue
                with partition_loading_context(dynamic_partitions_store=instance):
                    found = graph.get_parent_partition_keys_for_child(
                        key, above.asset_key, stage.asset_key
                    )
                wanted = {
                    above.key_of_partition(parent) for parent in parents(stage, partition, above)
                }
                assert set(found.partitions_subset.get_partition_keys()) == wanted, (key, above)
                compared += 1
    assert compared > 40
