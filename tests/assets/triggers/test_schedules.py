"""Schedules of nightly runs, the freshness policy of results, and the removal of old runs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml

from tests.support.projects import WriteProject
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.triggers.retention import remove_old_runs
from videomme_pipeline.assets.triggers.schedules import NIGHTLY_JOB
from videomme_pipeline.project.nightly.tracked import nightly_date
from videomme_pipeline.project.project import Project, open_project


@pytest.fixture
def tracking(write_project: WriteProject, tmp_path: Path) -> Project:
    untracked = write_project({"few": {"benchmark": "videomme", "model": "constant-A"}})
    nightly = {
        "since": "2026-11-01",
        "cron": "0 3 * * *",
        "timezone": "Asia/Tokyo",
        "evaluations": {"few": {}},
    }
    path = untracked.configuration.folder / "nightly.yaml"
    path.write_text(yaml.safe_dump(nightly))
    return open_project(untracked.configuration.folder, str(tmp_path / "data"))


def test_a_tick_requests_the_date_in_the_time_zone_of_the_schedule(
    tracking: Project, instance: dg.DagsterInstance
) -> None:
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
    ("timezone", "date"), [("UTC", "2026-11-20"), ("America/New_York", "2026-11-19")]
)
def test_the_date_of_a_nightly_run_depends_on_the_time_zone(timezone: str, date: str) -> None:
    assert nightly_date(datetime(2026, 11, 20, 2, 0, tzinfo=UTC), timezone) == date


def test_without_tracked_evaluations_there_is_no_nightly_schedule(
    write_project: WriteProject,
) -> None:
    definitions = build_definitions(write_project())
    names = {schedule.name for schedule in definitions.get_repository_def().schedule_defs}
    assert names == {"weekly_retention"}


def test_results_have_a_maximum_age_only_if_evaluations_are_tracked(
    tracking: Project, write_project: WriteProject
) -> None:
    graph = build_definitions(tracking).resolve_asset_graph()
    policy = graph.get(dg.AssetKey("warehouse")).freshness_policy
    assert policy == dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36))
    assert graph.get(dg.AssetKey(["videomme", "scores"])).freshness_policy is None


def test_old_runs_are_removed_unless_partitions_need_them(
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
    assert refresh_project(tracking, instance, ["few"]).run_id is None, "everything is still fresh"
