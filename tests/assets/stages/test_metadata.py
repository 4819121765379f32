"""Metadata of each asset in the Dagster UI, after a real run."""

import base64
import json
import re
from pathlib import Path

import dagster as dg
import pytest

from tests.support.projects import stage
from videomme_pipeline.assets.stages.metadata import (
    MAX_PICTURE_BYTES,
    chart_picture,
    fenced,
    picture,
)
from videomme_pipeline.assets.stages.refresh import BUILD_SECONDS, FILE_BYTES, refresh
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.progress import StageProgress
from videomme_pipeline.project.state.versions import CODE_VERSIONS
from videomme_pipeline.reports.terminal.tables import interval, percent
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import breakdown
from videomme_pipeline.storage.tables import read_rows, stored_settings

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
    rows = read_rows(project.store.scores("videomme", "few"), ScoredQuestion)
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


def test_subtitles_show_their_coverage_by_duration(
    project: Project, instance: dg.DagsterInstance
) -> None:
    by_partition = events(instance, "videomme/subtitles")
    covered = [e for e in by_partition.values() if "coverage_by_duration" in e.metadata]
    assert len(covered) == 1
    rows = table(covered[0], "coverage_by_duration")
    facts = [
        stored_settings(project.store.subtitles("videomme", "uniform_n-4.window-500", video))
        for video in project.benchmarks["videomme"].snapshot.questions
    ]
    assert sum(int(str(row["videos"])) for row in rows) == len(facts)
    for name, key in (("with_subtitles", "has_subtitles"), ("frames", "frames")):
        assert sum(int(str(row[name])) for row in rows) == sum(fact[key] for fact in facts)
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
        assert float(str(event.metadata["frames_per_cpu_second"].value)) > 0
        assert int(str(event.metadata[FILE_BYTES].value)) > 0


MEASURED = {BUILD_SECONDS, FILE_BYTES, "decode_cpu_seconds", "frames_per_cpu_second", "evaluation"}
"""Metadata of a run. Files do not contain it, except for the size of frames."""


@pytest.mark.parametrize("name", CODE_VERSIONS)
def test_a_reported_partition_shows_the_same_as_when_it_was_built(
    project: Project, instance: dg.DagsterInstance, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress: list[StageProgress] = []
    monkeypatch.setattr(project, "on_progress", progress.append)
    reported = stage(project, name)
    built = events(instance, f"videomme/{name}")
    again = list(refresh(reported, reported.partitions(), {}, None, report_fresh=True))
    registered = [p for p in progress if p.what == f"videomme: {name} already stored"]
    assert [p.done for p in registered] == list(range(1, len(again) + 1))
    assert {p.total for p in registered} == {len(again)}
    assert {event.partition or "" for event in again} == built.keys()
    for event in again:
        shown = dict(event.metadata)
        assert shown.pop("already_stored").value is True
        expected = built[event.partition or ""].metadata
        assert shown.keys() - MEASURED == expected.keys() - MEASURED
        assert shown == {key: expected[key] for key in shown}


def test_a_file_that_is_damaged_when_it_is_reported_is_rebuilt(project: Project) -> None:
    prompts = stage(project, "prompts")
    partition = prompts.partitions()[0]
    path = Path(str(prompts.target(partition).path))
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes(100) + data[150:])
    (event,) = refresh(prompts, [partition], {}, None, report_fresh=True)
    assert "already_stored" not in event.metadata
    assert path.read_bytes() == data


def test_the_report_page_can_be_opened_from_its_asset(
    project: Project, instance: dg.DagsterInstance
) -> None:
    (event,) = events(instance, "report_page").values()
    page = project.store.local("reports", "index.html").resolve()
    assert page.name == str(event.metadata["path"].value).rsplit("/", maxsplit=1)[-1]
    assert str(event.metadata["page"].value).startswith("file:///")


def test_metadata_of_every_event_is_small(project: Project, instance: dg.DagsterInstance) -> None:
    for stage_name in ("videos", "frames", "subtitles", "prompts", "responses", "scores"):
        assert stage(project, stage_name)
        for event in events(instance, f"videomme/{stage_name}").values():
            size = len(json.dumps(str(event.metadata)))
            assert size <= MAX_METADATA_BYTES, (stage_name, event.partition, size)


def test_a_picture_that_is_too_large_is_replaced_by_a_note() -> None:
    small = picture(b"<svg/>", "image/svg+xml", "chart")
    assert str(small.value).startswith("![chart](data:image/svg+xml;base64,")
    large = picture(b"x" * (MAX_PICTURE_BYTES + 1), "image/jpeg", "frames")
    assert str(large.value) == "frames: 60,001 bytes, too large to show here"


def test_a_chart_that_cannot_be_drawn_is_replaced_by_a_note() -> None:
    note = str(chart_picture(lambda: "not a chart", "by duration").value)
    assert note.startswith("by duration: the chart cannot be drawn (ValueError: ")


def test_a_fence_is_longer_than_any_fence_in_its_text() -> None:
    text = "```\n# not a heading\n````"
    assert str(fenced(text).value) == f"`````text\n{text}\n`````"
