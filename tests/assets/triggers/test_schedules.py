"""The schedule of nightly runs, and the check of their age."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
import yaml
from dagster._core.definitions import freshness_evaluator
from dagster._core.loader import LoadingContextForTest

from tests.support.projects import WriteProject
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.stages.nightly import (
    NIGHTLY_JOB,
    RECENT,
    assess_age,
    nightly_asset,
    nightly_key,
)
from videomme_pipeline.project.nightly.tracked import nightly_date, tracked_evaluations
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.scoring.scored_question import ObservedQuestion
from videomme_pipeline.storage.names import part_id
from videomme_pipeline.storage.tables import write_rows


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


def test_dagster_shows_a_scheduled_evaluation_without_a_new_run_as_overdue(
    tracking: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tracked,) = tracked_evaluations(tracking)
    key = nightly_key(tracked)
    node = build_definitions(tracking).get_repository_def().asset_graph.get(key)

    def state() -> str:
        evaluator = freshness_evaluator.TimeWindowFreshnessPolicyEvaluator()
        context = LoadingContextForTest(instance)
        return asyncio.run(evaluator.evaluate_freshness(context, node)).value

    states = [state()]
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition="2026-11-01"))
    states.append(state())
    later = (datetime.now(UTC) + timedelta(hours=37)).timestamp()
    monkeypatch.setattr(freshness_evaluator, "get_current_timestamp", lambda: later)
    states.append(state())
    assert states == ["UNKNOWN", "PASS", "FAIL"]

    nightly = tracked.nightly.model_copy(update={"schedule": False})
    (spec,) = nightly_asset(replace(tracked, nightly=nightly)).specs
    assert spec.freshness_policy is None


def test_without_tracked_evaluations_there_is_no_nightly_schedule(
    write_project: WriteProject,
) -> None:
    definitions = build_definitions(write_project())
    assert definitions.get_repository_def().schedule_defs == []


def store_run(tracking: Project, date: str, part: str = "") -> None:
    path = tracking.store.observation("videomme", "few", date, part)
    write_rows(path, [], ObservedQuestion, fingerprint="f")


def test_nightly_runs_are_overdue_some_hours_after_the_tick_of_the_newest_one(
    tracking: Project, instance: dg.DagsterInstance
) -> None:
    (tracked,) = tracked_evaluations(tracking)
    limit = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)  # 36 hours after 3 a.m. of the 19th in Tokyo

    def is_recent(now: datetime) -> bool:
        return bool(assess_age(tracked, instance, now).passed)

    assert is_recent(datetime(2026, 11, 2, 2, 0, tzinfo=UTC)), "the first run is not due yet"
    assert not is_recent(limit)
    store_run(tracking, "2026-11-05")
    store_run(tracking, "2026-11-20", part_id(0, []))
    assert not is_recent(limit), "an old date, and a run without all answers"
    store_run(tracking, "2026-11-19")
    assert is_recent(limit)
    assert not is_recent(limit + timedelta(minutes=1))


def test_a_nightly_run_in_the_evening_is_not_overdue_before_the_next_one(
    tracking: Project, instance: dg.DagsterInstance
) -> None:
    (tracked,) = tracked_evaluations(tracking)
    evening = tracked.nightly.model_copy(update={"cron": "2 22 * * *"})
    store_run(tracking, "2026-11-25")
    now = datetime(2026, 11, 26, 21, 55, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert assess_age(replace(tracked, nightly=evening), instance, now).passed


def test_a_schedule_that_is_off_makes_no_nightly_run_overdue(
    tracking: Project, instance: dg.DagsterInstance
) -> None:
    (tracked,) = tracked_evaluations(tracking)
    off = tracked.nightly.model_copy(update={"schedule": False})
    result = assess_age(replace(tracked, nightly=off), instance, datetime.now(UTC))
    assert result.passed
    assert result.description == (
        "The schedule `nightly` is off. The newest complete nightly run is not there yet."
    )


def test_the_age_of_nightly_runs_is_shown_once(
    tracking: Project, instance: dg.DagsterInstance
) -> None:
    repository = build_definitions(tracking).get_repository_def()
    sensor = repository.get_sensor_def("upkeep_checks")

    def reported() -> list[bool]:
        context = dg.build_sensor_context(instance=instance, repository_def=repository)
        events = sensor.evaluate_tick(context).asset_events
        checks = [
            event
            for event in events
            if isinstance(event, dg.AssetCheckEvaluation) and event.check_name == RECENT
        ]
        for check in checks:
            instance.report_runless_asset_event(check)
        return [check.passed for check in checks]

    assert [reported(), reported()] == [[False], []]
    store_run(tracking, datetime.now(ZoneInfo("Asia/Tokyo")).date().isoformat())
    assert [reported(), reported()] == [[True], []]
