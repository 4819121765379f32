"""Runs that the UI launches keep the cost limit, and ask nothing twice."""

from pathlib import Path

import dagster as dg
import pytest
import yaml

from tests.support.commands import write_served_project
from tests.support.dagster_ui import running_ui, wait_until
from tests.support.model_server import ModelServer
from tests.support.projects import VIDEOS, needs_postgres
from videomme_pipeline.assets.instance import open_instance
from videomme_pipeline.assets.step import SPENT_TAG
from videomme_pipeline.project.project import HOME_VARIABLE
from videomme_pipeline.storage.postgres import POSTGRES_VARIABLE

LIMIT = 1.7
"""Dollars. A question with four frames of 85 tokens costs about 0.40."""


@pytest.mark.slow
@needs_postgres
def test_runs_of_the_ui_keep_the_cost_limit_and_ask_nothing_twice(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, postgres_url)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    with ModelServer() as server:
        write_served_project(tmp_path, server)
        folder = tmp_path / "configuration"
        models = yaml.safe_load((folder / "models.yaml").read_text())
        models["served"] |= {"prices": {"input": 1_000.0, "output": 0.0}, "tokens_per_frame": 85}
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        request = {"evaluations": ["served"]}
        with running_ui(tmp_path) as ui:
            stopped = ended(ui.launch_run("refresh_stale", {**request, "max_cost_dollars": LIMIT}))
            asked = server.request_count
            assert 1 <= asked < 9
            assert 0 < float(stopped.tags[SPENT_TAG]) <= LIMIT
            finished = ended(ui.launch_run("refresh_stale", request))
            assert (stopped.status.value, finished.status.value) == ("SUCCESS", "SUCCESS")
            assert server.request_count == len(server.request_counts) == 9
            backfill = ui.launch_backfill(
                [["videomme", "responses"]], [f"served|{video}" for video in VIDEOS[:2]]
            )
            wait_until(lambda: ui.backfill_status(backfill) != "REQUESTED", 900.0)
            with open_instance() as instance:
                runs = instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill}))
            assert [run.status.value for run in runs] == ["SUCCESS"]
    assert server.request_count == 9


def ended(run_id: str) -> dg.DagsterRun:
    """A run of the UI after its end."""
    with open_instance() as instance:
        wait_until(lambda: instance.get_runs(dg.RunsFilter([run_id]))[0].is_finished, 900.0)
        (run,) = instance.get_runs(dg.RunsFilter([run_id]))
        return run
