"""The cost of a run is estimated before it and limited during it; a later run resumes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.builders import write_video
from tests.support.cli import videomme
from tests.support.commands import QuickCommand, write_served_project
from tests.support.model_server import ModelServer
from tests.support.projects import SERVED, Copy, WriteServed, expected_costs
from tests.support.published_data import parquet_bytes, v1_rows
from tests.support.stored_files import shown_responses, stored_file
from videomme_pipeline.assets.run import refresh_project, refresh_stale
from videomme_pipeline.models.video_llm import FailureKind
from videomme_pipeline.project.project import Project
from videomme_pipeline.responses.response import AttemptRow, Response
from videomme_pipeline.stages.plan import Freshness
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE
from videomme_pipeline.storage.tables import read_rows

PRICES = {"input": 1000.0, "output": 0.0}
"""Dollars per million tokens: four frames at 85 tokens and some text are about 0.40."""
ONE_QUESTION = 0.40
PRICED: Mapping[str, Any] = {
    "videos": ["002", "003"],
    "prices": PRICES,
    "tokens_per_frame": 85,
    "limits": {"concurrency": 1},
}


def responses(project: Project) -> list[Response]:
    return shown_responses(project.store, "served")


@pytest.mark.slow
def test_a_run_stops_at_its_budget_and_the_next_asks_only_the_rest(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer() as server:
        project = write_served(server.base_url, **PRICED)
        stopped = refresh_stale(project, instance, ["served"], 2.5 * ONE_QUESTION)
        assert server.request_count == 2
        assert stopped.stopped_by is not None
        assert "run again to ask the rest" in stopped.stopped_by
        assert not [s for s in stopped.not_fresh if s.freshness is Freshness.FAILED]
        rows = responses(project)
        assert len(rows) == 6
        assert [r.failure for r in rows if r.raw_output is None] == [FailureKind.NOT_ASKED] * 4
        assert all(r.error and r.error.startswith("not asked") for r in rows if not r.raw_output)

        (left,) = expected_costs(project, ["served"])
        assert (left.questions, left.requests) == (6, 4)

        finished = refresh_stale(project, instance, ["served"], 100.0)
        assert finished.stopped_by is None
        assert finished.not_fresh == []
    assert server.request_count == 6
    assert set(server.request_counts.values()) == {1}
    costs = [row.served.cost_dollars for row in responses(project)]
    assert costs == [pytest.approx(ONE_QUESTION, rel=0.1)] * 6
    attempts = read_rows(
        stored_file(project.store, "attempts", "videomme", "served", "002"), AttemptRow
    )
    assert [(attempt.status, attempt.failure) for attempt in attempts] == [(200, None)] * 3


@pytest.mark.slow
def test_runs_on_one_machine_spend_one_cost_limit_and_end_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    with ModelServer(delay_seconds=0.1) as server:
        write_served_project(tmp_path, server)
        file = tmp_path / "configuration" / "models.yaml"
        models = yaml.safe_load(file.read_text())
        models["served"]["limits"] |= {"max_cost_dollars": 0.055, "concurrent_runs": 3}
        models["served"]["prices"] = {"input": 0, "output": 10_000 / 3}  # one cent per answer
        file.write_text(yaml.safe_dump(models))
        commands = [QuickCommand(tmp_path, "run", "served") for _ in range(3)]
        ended = [command.finish() for command in commands]
    assert server.request_count == 5
    assert [run.status for run in ended] == [1, 1, 1], [run.err for run in ended]
    assert all("Stopped served: stopped at $0.05" in run.err for run in ended)
    assert all("counts the requests of this machine only" in run.err for run in ended)
    assert not any("Left to another run" in run.err for run in ended)


@pytest.mark.slow
def test_questions_that_cannot_fit_into_the_context_are_not_sent_and_listed(
    write_served: WriteServed, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(root / "home"))
    with ModelServer(max_model_len=200) as server:
        entry = {"profile": "vllm", "videos": ["002"], "tokens_per_frame": 85}
        project = write_served(server.base_url, **entry)
        monkeypatch.setenv("VIDEOMME_CONFIGURATION", str(project.configuration.folder))
        monkeypatch.setenv("VIDEOMME_DATA", str(root / "data"))
        failed = videomme("run", "served")
        dry = videomme("run", "served", "--dry-run")
        assert server.request_count == 0
    assert "at most 1 frames of this size fit" in failed.err
    assert "3 of 3 requests cannot be answered" in dry.out
    assert {row.failure for row in responses(project)} == {FailureKind.TOO_LARGE}


@pytest.mark.slow
def test_a_dry_run_counts_the_requests_with_more_pixels_than_vllm_accepts(
    write_served: WriteServed, instance: dg.DagsterInstance, copy: Copy
) -> None:
    write_video(copy.video("002"), frames=87, width=1920, height=1080)
    evaluations = {"served": SERVED, "sharp": {**SERVED, "sampling": "uniform_n-87.native"}}
    with ModelServer() as server:
        for version, too_large in (("0.32.1", 0), ("0.33.0", 3)):
            server.reports["/version"] = {"version": version}
            project = write_served(server.base_url, evaluations, profile="vllm")
            refresh_project(project, instance, ["served"])
            (cost,) = expected_costs(project, ["sharp"])
            assert (cost.requests, cost.too_large) == (3, too_large)


@pytest.mark.slow
def test_the_cost_is_estimated_before_a_run_and_the_estimate_is_right(
    write_served: WriteServed, instance: dg.DagsterInstance
) -> None:
    with ModelServer() as server:
        project = write_served(server.base_url, **PRICED, count_texts=True)
        (unknown,) = expected_costs(project, ["served"])
        assert (unknown.requests, unknown.dollars_low) == (6, None), "no frames are stored yet"
        assert unknown.seconds is None
        refresh_stale(project, instance, ["served"], ONE_QUESTION / 2)
        (before,) = expected_costs(project, ["served"])
        (first,) = [row for row in responses(project) if row.raw_output is not None]
        assert before.prompt_tokens == 5 * (first.usage.prompt_tokens or 0)
        assert before.seconds is not None
        assert first.served.latency_seconds is not None
        assert before.seconds == pytest.approx(5 * first.served.latency_seconds)
        refresh_project(project, instance, ["served"])
    assert before.dollars_low == pytest.approx(5 * ONE_QUESTION, rel=0.2)
    assert before.dollars_high == before.dollars_low, "nothing is cached, and output is free"
    (materialization,) = instance.fetch_materializations(
        dg.AssetKey(["videomme", "responses"]), limit=1
    ).records
    assert materialization.asset_materialization is not None
    metadata = materialization.asset_materialization.metadata
    assert metadata["cost_dollars"].value
    assert "latency_p50_seconds" in str(metadata["evaluation"].value)


@pytest.mark.slow
def test_a_dry_run_counts_only_the_questions_that_the_journal_cannot_answer(
    write_served: WriteServed, instance: dg.DagsterInstance, copy: Copy
) -> None:
    with ModelServer() as server:
        project = write_served(server.base_url, **PRICED)
        refresh_project(project, instance, ["served"])
        asked = server.request_count
        rows = v1_rows()
        row = next(row for row in rows if row["videoID"] == copy.youtube_id("003"))
        row["question"] = "What else is there?"
        copy.annotations.write_bytes(parquet_bytes(rows))
        (announced,) = expected_costs(project, ["served"])
        assert (announced.questions, announced.requests_low, announced.requests) == (3, 1, 1)
        refresh_project(project, instance, ["served"])
        assert server.request_count == asked + 1


@pytest.mark.slow
def test_the_command_line_estimates_the_cost_stops_at_the_budget_and_resumes(
    write_served: WriteServed, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(root / "home"))
    with ModelServer() as server:
        project = write_served(server.base_url, **PRICED)
        monkeypatch.setenv("VIDEOMME_CONFIGURATION", str(project.configuration.folder))
        monkeypatch.setenv("VIDEOMME_DATA", str(root / "data"))
        nothing = videomme("run", "served", "--max-cost", "0")
        assert (nothing.status, server.request_count) == (1, 0)
        assert "Stopped served: stopped at $0.00" in nothing.err
        stopped = videomme("run", "served", "--max-cost", "1.0")
        assert stopped.status == 1
        assert "Stopped served: stopped at $0.80" in stopped.err
        assert "Failed" not in stopped.err
        dry = videomme("run", "served", "--dry-run")
        assert "served\tserved\t6\t4\t" in dry.out
        assert server.request_count == 2
        assert videomme("run", "served").status == 0
        usage = videomme("sql", "select * from usage", "--json").json
    assert server.request_count == 6
    assert usage[0]["cost_dollars"] == pytest.approx(6 * ONE_QUESTION, rel=0.1)
    assert (usage[0]["succeeded"], usage[0]["attempts"]) == (6, 6)
