"""Schedules: a night has the date of its own time zone, and old runs go when nobody needs them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.definitions import build_definitions
from assets.run import refresh_project
from assets.triggers.retention import remove_old_runs
from assets.triggers.schedules import NIGHTLY_JOB
from tests.support.projects import WriteProject
from videomme_pipeline.project.nightly import nightly_date
from videomme_pipeline.project.project import Project, open_project


@pytest.fixture
def tracking(write_project: WriteProject, tmp_path: Path) -> Project:
    folder = write_project({"few": {"benchmark": "videomme", "model": "constant-A"}})
    nightly = {
        "since": "2026-11-01",
        "cron": "0 3 * * *",
        "timezone": "Asia/Tokyo",
        "evaluations": {"few": {}},
    }
    path = folder.configuration.folder / "nightly.yaml"
    path.write_text(yaml.safe_dump(nightly))
    return open_project(folder.configuration.folder, str(tmp_path / "data"))


def test_a_tick_asks_for_tonight(tracking: Project, instance: dg.DagsterInstance) -> None:
    repository = build_definitions(tracking).get_repository_def()
    schedule = repository.get_schedule_def(NIGHTLY_JOB)
    assert schedule.cron_schedule == "0 3 * * *"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    context = dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime(2026, 11, 20, 18, 0, tzinfo=UTC),
        repository_def=repository,
    )
    (request,) = schedule.evaluate_tick(context).run_requests or []
    assert request.partition_key == "2026-11-21", "it is the 21st in Tokyo"


@pytest.mark.parametrize(
    ("timezone", "night"), [("UTC", "2026-11-20"), ("America/New_York", "2026-11-19")]
)
def test_the_date_of_a_night_is_that_of_its_time_zone(timezone: str, night: str) -> None:
    assert nightly_date(datetime(2026, 11, 20, 2, 0, tzinfo=UTC), timezone) == night


def test_only_a_tracked_project_has_nights(write_project: WriteProject) -> None:
    definitions = build_definitions(write_project())
    names = {schedule.name for schedule in definitions.get_repository_def().schedule_defs}
    assert names == {"weekly_retention"}


def test_the_leaderboard_is_to_be_fresh_where_nights_are_asked(
    tracking: Project, write_project: WriteProject
) -> None:
    graph = build_definitions(tracking).resolve_asset_graph()
    policy = graph.get(dg.AssetKey("warehouse")).freshness_policy
    assert policy == dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36))
    assert graph.get(dg.AssetKey(["videomme", "scores"])).freshness_policy is None


def test_old_runs_go_but_for_those_that_partitions_stand_on(
    tracking: Project, instance: dg.DagsterInstance
) -> None:
    @dg.job
    def nothing_to_keep() -> None:
        """A run without a materialization."""

    refreshed = refresh_project(tracking, instance, ["few"])
    idle = nothing_to_keep.execute_in_process(instance=instance).run_id
    long_ago = datetime.now(UTC) - timedelta(days=1)
    assert remove_old_runs(instance, long_ago) == []
    assert remove_old_runs(instance, datetime.now(UTC) + timedelta(days=1)) == [idle]
    assert refreshed.run_id is not None
    assert instance.get_run_by_id(refreshed.run_id) is not None
    assert refresh_project(tracking, instance, ["few"]).run_id is None, "all is still fresh"
