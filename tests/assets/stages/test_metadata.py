"""Metadata of each asset in the Dagster UI, after a real run."""

import base64
import json
import re
from types import SimpleNamespace

import dagster as dg
import pytest

from tests.support.projects import stage
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.runner import DATA_VERSION_TAG, materialization
from videomme_pipeline.assets.stages.metadata import MAX_PICTURE_BYTES, TABLES, metadata_of
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.project.project import PAGE_VARIABLE, Project
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.reports.terminal.tables import interval, percent
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import breakdown
from videomme_pipeline.stages.facts import Picture, chart_picture, fenced
from videomme_pipeline.stages.frames import FILE_BYTES
from videomme_pipeline.stages.refresh import refresh
from videomme_pipeline.stages.stage import Target
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse.database import connect

MAX_METADATA_BYTES = 100_000


def events(instance: dg.DagsterInstance, asset: str) -> dict[str, dg.AssetMaterialization]:
    """The newest materialization of each partition of an asset."""
    records = instance.fetch_materializations(dg.AssetKey(asset.split("/")), limit=100).records
    by_partition = {}
    for record in reversed(records):
        assert record.asset_materialization is not None
        by_partition[record.partition_key or ""] = record.asset_materialization
    return by_partition


def table(event: dg.AssetMaterialization, name: str) -> list[dict[str, object]]:
    value = event.metadata[name]
    assert isinstance(value, dg.TableMetadataValue)
    return [dict(record.data) for record in value.records]


def svg(event: dg.AssetMaterialization, name: str) -> str:
    match = re.fullmatch(
        r"!\[[^\]]*\]\(data:image/svg\+xml;base64,([\w+/=]+)\)", str(event.metadata[name].value)
    )
    assert match is not None
    return base64.b64decode(match[1]).decode()


def test_scores_show_every_breakdown_with_its_interval_and_a_chart(
    project: Project, instance: dg.DagsterInstance
) -> None:
    event = events(instance, "videomme/scores")["few"]
    rows = read_rows(stored_file(project.store, "scores", "videomme", "few"), ScoredQuestion)
    assert next(iter(event.metadata)) == "accuracy_percent"
    shown = table(event, "breakdowns")
    assert {row["by"] for row in shown} == {
        facet.column for facet in find_benchmark("videomme").facets
    }
    duration = find_benchmark("videomme").facet("duration")
    (short,) = breakdown([row for row in rows if row.facets["duration"] == "short"], [duration])
    assert next(row for row in shown if row["value"] == "short") == {
        "by": "duration",
        "value": "short",
        "score": percent(short.accuracy),
        "interval": interval(short.accuracy_low, short.accuracy_high),
        "n": short.responses,
    }
    assert f"short  (n {short.responses})" in svg(event, "chart").replace("\u00a0", " ")


def test_tables_have_their_number_of_rows_and_the_columns_that_they_are_computed_from(
    project: Project, instance: dg.DagsterInstance
) -> None:
    scores = events(instance, "videomme/scores")["few"].metadata
    rows = read_rows(stored_file(project.store, "scores", "videomme", "few"), ScoredQuestion)
    assert scores["dagster/partition_row_count"].value == len(rows)
    questions = project.benchmarks["videomme"].snapshot.questions.values()
    shown = events(instance, "videomme/questions")[""].metadata["dagster/row_count"].value
    assert shown == sum(map(len, questions))
    graph = build_definitions(project).resolve_asset_graph()
    lineages = [events(instance, "videomme/scores")["few"], events(instance, "warehouse")[""]]
    with connect(project.store) as connection:
        tables = {name: set(connection.table(name).columns) for name in TABLES.values()}
    for event in lineages:
        lineage = event.metadata["dagster/column_lineage"].value
        assert isinstance(lineage, dg.TableColumnLineage)
        assert set(lineage.deps_by_column) <= tables[TABLES[event.asset_key.path[-1]]]
        for source in [s for sources in lineage.deps_by_column.values() for s in sources]:
            metadata = graph.get(source.asset_key).metadata
            schema = metadata.get("dagster/column_schema") or metadata["columns"]
            assert source.column_name in {column.name for column in schema.columns}
    assert graph.get(dg.AssetKey("warehouse")).metadata["dagster/table_name"] == "leaderboard"


def test_subtitles_show_their_coverage(project: Project, instance: dg.DagsterInstance) -> None:
    by_partition = events(instance, "videomme/subtitles")
    assert {e.metadata["coverage"].value for e in by_partition.values()} <= {
        0.0,
        0.25,
        0.5,
        0.75,
        1.0,
    }


def test_prompts_and_frames_have_numeric_metadata_for_plots(
    project: Project, instance: dg.DagsterInstance
) -> None:
    for event in events(instance, "videomme/prompts").values():
        characters = event.metadata["characters"].value
        assert event.metadata["text_tokens_about"].value == round(int(str(characters)) / 4)
    for event in events(instance, "videomme/frames").values():
        assert float(str(event.metadata["decode_cpu_seconds"].value)) > 0
        assert int(str(event.metadata[FILE_BYTES].value)) > 0


@pytest.mark.parametrize("name", CODE_VERSIONS)
def test_a_stored_partition_is_reported_with_its_versions_and_only_scores_are_read(
    project: Project, instance: dg.DagsterInstance, name: str
) -> None:
    reported = stage(project, name)
    built = events(instance, f"videomme/{name}")
    stored = list(refresh(reported, reported.partitions()))
    assert all(isinstance(event, Target) for event in stored)
    again = [materialization(reported, event, None) for event in stored]
    assert {event.partition or "" for event in again} == built.keys()
    for event in again:
        earlier = built[event.partition or ""]
        assert event.tags is not None
        assert earlier.tags is not None
        assert event.tags[DATA_VERSION_TAG] == earlier.tags[DATA_VERSION_TAG]
        shown = dict(event.metadata)
        assert shown.pop("already_stored").value is True
        assert shown == (dict(earlier.metadata) if name == "scores" else {})


def test_the_report_page_links_to_the_page_that_the_ui_serves(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PAGE_VARIABLE, "http://127.0.0.1:3001/")
    node = build_definitions(project).resolve_asset_graph().get(dg.AssetKey("report_page"))
    assert node.metadata["page"] == dg.MetadataValue.url("http://127.0.0.1:3001/")


def test_metadata_of_every_event_is_small(project: Project, instance: dg.DagsterInstance) -> None:
    for stage_name in ("videos", "frames", "subtitles", "prompts", "responses", "scores"):
        assert stage(project, stage_name)
        for event in events(instance, f"videomme/{stage_name}").values():
            size = len(json.dumps(str(event.metadata)))
            assert size <= MAX_METADATA_BYTES, (stage_name, event.partition, size)


def test_a_picture_that_is_too_large_is_replaced_by_a_note() -> None:
    shown = metadata_of(
        {
            "small": Picture(b"<svg/>", "image/svg+xml", "chart"),
            "large": Picture(b"x" * (MAX_PICTURE_BYTES + 1), "image/jpeg", "frames"),
            "none": None,
        }
    )
    assert str(shown["small"].value).startswith("![chart](data:image/svg+xml;base64,")
    assert str(shown["large"].value) == "frames: 60,001 bytes, too large to show here"
    assert "none" not in shown


def test_a_chart_that_cannot_be_drawn_is_replaced_by_a_note() -> None:
    damaged = SimpleNamespace(to_json=lambda: "not a chart")
    note = str(chart_picture(lambda _: damaged, "by duration"))
    assert note.startswith("by duration: the chart cannot be drawn (ValueError: ")


def test_a_fence_is_longer_than_any_fence_in_its_text() -> None:
    text = "```\n# not a heading\n````"
    assert fenced(text) == f"`````text\n{text}\n`````"
