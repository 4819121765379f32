"""The asset graph of this repository's own configuration, compared with a snapshot.

The snapshot contains what users and other tools depend on: keys, edges, partitions, groups, kinds,
checks, jobs, schedules and sensors. Code versions and descriptions are not part of it. After an
intended change, update it with

    python -m tests.assets.test_graph

and review the difference before the commit.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
import pytest

from tests.support.paths import ROOT
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.project.project import open_project
from videomme_pipeline.rows import arrow_schema, describe_columns
from videomme_pipeline.scoring.verdicts import Checkpoint

SNAPSHOT = ROOT / "tests" / "golden" / "graph.json"


def own_definitions(data: Path) -> dg.Definitions:
    """The definitions over the configuration in `assets/` and an empty data folder."""
    return build_definitions(open_project(ROOT / "assets", str(data)))


def partition_names(definition: dg.PartitionsDefinition[str] | None) -> list[str]:
    """The dimensions of an asset, or the name of its dynamic partitions."""
    match definition:
        case dg.MultiPartitionsDefinition():
            return sorted(definition.partition_dimension_names)
        case dg.DynamicPartitionsDefinition(name=str(name)):
            return [name]
        case None:
            return []
        case _:
            return [type(definition).__name__]


def columns_of(metadata: Mapping[str, object]) -> object:
    """The columns above the metadata in the UI, or those inside of it, below the accuracy."""
    return metadata.get("dagster/column_schema") or metadata.get("columns")


def snapshot(definitions: dg.Definitions) -> dict[str, Any]:
    """The parts of the graph that must not change by accident."""
    graph, repository = definitions.resolve_asset_graph(), definitions.get_repository_def()
    nodes = sorted((graph.get(key) for key in graph.get_all_asset_keys()), key=lambda n: n.key)
    return {
        "assets": {
            node.key.to_user_string(): {
                "made_from": sorted(key.to_user_string() for key in node.parent_keys),
                "partitions": partition_names(node.partitions_def),
                "group": node.group_name,
                "kinds": sorted(node.kinds),
                "has_description": bool(node.description),
                "has_column_schema": columns_of(node.metadata) is not None,
                "checks": sorted(key.name for key in node.check_keys),
            }
            for node in nodes
        },
        "jobs": sorted(job.name for job in repository.get_all_jobs()),
        "schedules": sorted(schedule.name for schedule in repository.schedule_defs),
        "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
    }


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    return own_definitions(tmp_path_factory.mktemp("data"))


def test_the_definitions_can_be_loaded(definitions: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(definitions)


def test_the_graph_equals_the_snapshot(definitions: dg.Definitions) -> None:
    assert snapshot(definitions) == json.loads(SNAPSHOT.read_text()), (
        "if the change is intended, run: python -m tests.assets.test_graph"
    )


def test_every_asset_has_a_description_kinds_and_a_group(
    definitions: dg.Definitions,
) -> None:
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.description, key
        assert node.description.endswith("."), key
        assert node.kinds, key
        benchmark = key.path[0]
        assert node.group_name in {benchmark, f"{benchmark}_nightly", "results"}, key


def test_every_table_of_rows_has_a_column_schema_with_descriptions(
    definitions: dg.Definitions,
) -> None:
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        metadata = graph.get(key).metadata
        is_below = key.path[-1] == "scores" or "nightly_runs" in key.path
        assert ("columns" in metadata) == is_below, key
        schema = columns_of(metadata)
        if key.path in (["warehouse"], ["report_page"]):
            assert schema is None, f"{key} is no table of rows"
            continue
        assert isinstance(schema, dg.TableSchema), key
        assert schema.columns, key
        assert [column.name for column in schema.columns if not column.description] == []
    described = describe_columns(Checkpoint)  # the asset exists only with training runs
    assert set(arrow_schema(Checkpoint).names) == {n for n, text in described.items() if text}


def test_every_job_schedule_sensor_and_check_has_a_description(
    definitions: dg.Definitions,
) -> None:
    repository, graph = definitions.get_repository_def(), definitions.resolve_asset_graph()
    described = {job.name: job.description for job in repository.get_all_jobs()}
    described |= {schedule.name: schedule.description for schedule in repository.schedule_defs}
    described |= {sensor.name: sensor.description for sensor in repository.sensor_defs}
    described |= {str(key): graph.get_check_spec(key).description for key in graph.asset_check_keys}
    del described["__ASSET_JOB"]  # Dagster's own
    assert [name for name, text in described.items() if not (text or "").endswith(".")] == []


def test_only_questions_have_no_parents(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    roots = {key.to_user_string() for key in graph.root_materializable_asset_keys}
    assert roots == {"smoke/questions", "smoke_v2/questions"}
    assert graph.external_asset_keys == set()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        current = snapshot(own_definitions(Path(folder)))
    SNAPSHOT.write_text(json.dumps(current, indent=2) + "\n")
