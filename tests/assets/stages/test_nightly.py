"""Nightly runs with a real server: stored rows, assessments, checks and alerts."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.support.builders import write_video
from tests.support.model_server import Fault, ModelServer, always, no_faults
from tests.support.projects import Copy, WriteProject
from tests.support.stored_files import stored_file
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.stages.nightly import NIGHTLY_JOB, RECENT
from videomme_pipeline.assets.triggers.sensors import run_failures_sensor
from videomme_pipeline.cli.commands import app
from videomme_pipeline.errors import ConfigurationError
from videomme_pipeline.project.nightly.alerts import URLS_VARIABLE
from videomme_pipeline.project.nightly.tracked import read_nightly, tracked_evaluations
from videomme_pipeline.project.project import Project, open_project
from videomme_pipeline.scoring.scored_question import ObservedQuestion, Outcome
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse.database import connect, query

TRACKED_VIDEOS = tuple(f"{number:03d}" for number in range(2, 8))
KEY = dg.AssetKey(["videomme", "nightly_runs", "asked"])
ONLY_ACCURACY = {"group_score": "off", "marginals": "off", "flips": "off", "unreadable": "off"}


class BreakableModel:
    """Answers every question correctly, or every question wrong if `broken` is set."""

    broken = False

    def __call__(self, prompt: str) -> str:
        match = re.search(r"in (\d{3})-(\d)\?", prompt)
        assert match
        right = int(match[1]) + int(match[2])
        return "ABCD"[(right + self.broken) % 4]


@pytest.fixture
def model() -> BreakableModel:
    return BreakableModel()


@pytest.fixture
def server(model: BreakableModel) -> Iterator[ModelServer]:
    with ModelServer(answer=model) as server:
        yield server


@pytest.fixture
def project(
    copy: Copy, write_project: WriteProject, server: ModelServer, tmp_path: Path
) -> Callable[..., Project]:
    """The tracked project; `nightly` replaces parts of nightly.yaml."""
    for video_id in TRACKED_VIDEOS:
        write_video(copy.video(video_id), frames=10, width=64, height=48)
    folder = tmp_path / "configuration"
    folder.mkdir()
    limits = {"max_attempts": 1, "concurrency": 4}
    entry = {"base_url": server.base_url, "profile": "generic", "limits": limits}
    (folder / "models.yaml").write_text(yaml.safe_dump({"served": entry}))
    write_project(
        {"asked": {"benchmark": "videomme", "model": "served"}}, videos=list(TRACKED_VIDEOS)
    )

    def write(**nightly: Any) -> Project:
        spec = {
            "since": "2026-11-01",
            "evaluations": {"asked": {}},
            "alarm": {"severity": ONLY_ACCURACY},
        } | nightly
        (folder / "nightly.yaml").write_text(yaml.safe_dump(spec))
        return open_project(folder, str(tmp_path / "data"))

    return write


def run_nightly(
    project: Project, instance: dg.DagsterInstance, date: str, *, answered: bool = True
) -> dict[str, dg.AssetCheckEvaluation]:
    """Run the nightly job for one date, which fails unless `answered`; return its checks.

    The check `recent` is left out, because the dates of these tests are not recent.
    """
    job = build_definitions(project).resolve_job_def(NIGHTLY_JOB)
    result = job.execute_in_process(instance=instance, partition_key=date, raise_on_error=False)
    assert result.success is answered
    return {
        check.check_name: check
        for check in result.get_asset_check_evaluations()
        if check.asset_key == KEY and check.check_name != RECENT
    }


def requested(project: Project, instance: dg.DagsterInstance, date: str) -> list[dg.AssetKey]:
    """The assets that the schedule requests on a date."""
    repository = build_definitions(project).get_repository_def()
    context = dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime.fromisoformat(f"{date}T02:00+00:00"),
        repository_def=repository,
    )
    ticked = repository.get_schedule_def(NIGHTLY_JOB).evaluate_tick(context)
    return [key for request in ticked.run_requests or [] for key in request.asset_selection or []]


def newest_result(instance: dg.DagsterInstance) -> tuple[bool, str]:
    """The result of the check `newest`, which colors the graph, and the date in its text."""
    (record,) = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(KEY, "newest"), limit=1
    )
    result = record.evaluation
    assert isinstance(result, dg.AssetCheckEvaluation)
    assert result.partition is None
    return result.passed, str(result.description).partition(":")[0]


def alarms(instance: dg.DagsterInstance, date: str) -> Any:
    """The number of failed checks in the metadata of a nightly run."""
    partition = dg.AssetRecordsFilter(KEY, asset_partitions=[date])
    event = instance.fetch_materializations(partition, limit=1).records[0].asset_materialization
    assert event is not None
    return event.metadata["alarms"].value


def stored(project: Project, date: str) -> list[ObservedQuestion]:
    (tracked,) = tracked_evaluations(project)
    return read_rows(tracked.path(date), ObservedQuestion)


@pytest.mark.slow
def test_a_regression_fails_the_check_and_sends_one_alert(
    project: Callable[..., Project],
    model: BreakableModel,
    server: ModelServer,
    instance: dg.DagsterInstance,
    sink: tuple[str, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, alerts = sink
    monkeypatch.setenv(URLS_VARIABLE, url)
    opened = project()
    refresh_project(opened, instance, ["asked"])
    asked_once = server.request_count
    assert asked_once == 3 * len(TRACKED_VIDEOS)

    quiet = [run_nightly(opened, instance, f"2026-11-{day:02d}") for day in (2, 3)]
    assert server.request_count == 3 * asked_once, "every nightly run asks again"
    assert all(check.passed for checks in quiet for check in checks.values())
    assert alerts == []
    (run,) = instance.get_runs(limit=1)
    logged = [entry.user_message for entry in instance.all_logs(run.run_id)]
    assert "asked: responses: 18 of 18" in logged

    model.broken = True
    assert requested(opened, instance, "2026-11-04") == [KEY]
    checks = run_nightly(opened, instance, "2026-11-04")
    assert requested(opened, instance, "2026-11-04") == [], "it is stored"
    assert checks["accuracy"].partition == "2026-11-04"
    assert not checks["accuracy"].passed
    assert checks["accuracy"].severity is dg.AssetCheckSeverity.WARN
    assert str(checks["accuracy"].description).startswith("2026-11-04: ")
    assert not checks["newest"].passed
    assert checks["newest"].severity is dg.AssetCheckSeverity.ERROR
    assert checks["failed"].passed
    assert len(alerts) == 1
    assert alerts[0]["title"] == "asked, 2026-11-04: accuracy"
    assert alerts[0]["type"] == "failure"
    assert "points against the reference" in alerts[0]["message"]
    assert "This is a real change since 2026-11-04" in alerts[0]["message"]
    assert (
        "/assets/videomme/nightly_runs/asked?view=partitions&partition=2026-11-04"
        in alerts[0]["message"]
    )

    assert not run_nightly(opened, instance, "2026-11-05")["accuracy"].passed
    assert len(alerts) == 1, "one alert per regression"

    requests = server.request_count
    assert run_nightly(opened, instance, "2026-11-03")["accuracy"].passed
    assert server.request_count == requests, "a stored nightly run is not asked again"
    assert newest_result(instance) == (False, "2026-11-05"), "not the state of an older run"
    assert {row.observation for row in stored(opened, "2026-11-03")} == {"2026-11-03"}

    model.broken = False
    assert run_nightly(opened, instance, "2026-11-06")["accuracy"].passed
    assert newest_result(instance) == (True, "2026-11-06")
    assert [alarms(instance, f"2026-11-0{day}") for day in range(2, 7)] == [0, 0, 1, 1, 0]

    with connect(opened.store) as connection:
        by_date = query(
            connection,
            "select observation, accuracy from accuracy_by_nightly_run order by observation",
        )
    assert [row["observation"] for row in by_date] == [f"2026-11-{d:02d}" for d in range(2, 7)]
    assert by_date[2]["accuracy"] < by_date[1]["accuracy"]


@pytest.mark.slow
def test_an_endpoint_that_is_down_is_no_regression_and_is_asked_again(
    project: Callable[..., Project], server: ModelServer, instance: dg.DagsterInstance
) -> None:
    opened = project()
    refresh_project(opened, instance, ["asked"])
    server.faults = always(Fault.SERVER_ERROR)
    checks = run_nightly(opened, instance, "2026-11-02", answered=False)
    assert not checks["failed"].passed
    assert "HTTP 500: something broke" in str(checks["failed"].description)
    assert not checks["accuracy"].passed
    assert checks["accuracy"].description == "2026-11-02: no question was answered"
    assert not checks["newest"].passed
    assert {row.outcome for row in stored(opened, "2026-11-02")} == {Outcome.FAILED}
    server.faults = no_faults
    assert all(check.passed for check in run_nightly(opened, instance, "2026-11-02").values())
    assert Outcome.FAILED not in {row.outcome for row in stored(opened, "2026-11-02")}


@pytest.mark.slow
def test_an_alert_names_one_of_several_projects(
    project: Callable[..., Project],
    server: ModelServer,
    instance: dg.DagsterInstance,
    sink: tuple[str, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
) -> None:
    url, alerts = sink
    monkeypatch.setenv(URLS_VARIABLE, url)
    (root / "configuration" / "runs.yaml").write_text("code_location: lab_a\n")
    opened = project()
    refresh_project(opened, instance, ["asked"])
    server.faults = always(Fault.SERVER_ERROR)
    run_nightly(opened, instance, "2026-11-02", answered=False)
    (run,) = instance.get_runs(limit=1)
    (failure,) = instance.fetch_run_status_changes(dg.DagsterEventType.RUN_FAILURE, limit=1).records
    context = dg.build_run_status_sensor_context(
        sensor_name="run_failures",
        dagster_event=failure.event_log_entry.get_dagster_event(),
        dagster_instance=instance,
        dagster_run=run,
    )
    run_failures_sensor("lab_a/")(context.for_run_failure())
    (alert,) = alerts
    assert alert["title"] == "lab_a/asked, 2026-11-02: failed"
    assert "HTTP 500: something broke" in alert["message"]
    assert "/assets/lab_a/videomme/nightly_runs/asked?" in alert["message"]


@pytest.mark.slow
def test_without_a_reference_no_request_is_sent(
    project: Callable[..., Project], server: ModelServer, instance: dg.DagsterInstance
) -> None:
    opened = project()
    refresh_project(opened, instance, ["asked"])
    before = server.request_count
    (tracked,) = tracked_evaluations(opened)
    stored_file(opened.store, "scores", "videomme", "asked").unlink()
    job = build_definitions(opened).resolve_job_def(NIGHTLY_JOB)
    result = job.execute_in_process(
        instance=instance, partition_key="2026-11-02", raise_on_error=False
    )
    assert not result.success
    assert server.request_count == before
    assert not tracked.path("2026-11-02").exists()


@pytest.mark.slow
def test_a_subset_is_the_same_in_every_run_and_in_a_reference(
    project: Callable[..., Project], instance: dg.DagsterInstance
) -> None:
    opened = project(evaluations={"asked": {"videos": 4}})
    refresh_project(opened, instance, ["asked"])
    for date in ("2026-11-02", "2026-11-03"):
        run_nightly(opened, instance, date)
    videos = [
        {row.video_id for row in stored(opened, date)} for date in ("2026-11-02", "2026-11-03")
    ]
    assert len(videos[0]) == 4
    assert videos[0] == videos[1]
    pinned = project(evaluations={"asked": {"videos": 4, "reference": "2026-11-02"}})
    (tracked,) = tracked_evaluations(pinned)
    assert tracked.reference().name == "2026-11-02"
    report = tracked.assess("2026-11-03")
    assert report.against_reference is not None
    assert report.against_reference.accuracy.difference.mean == 0
    assert report.detectable_drop is None, "4 videos cannot make a difference significant"


@pytest.mark.slow
def test_the_reference_is_asked_again_before_the_first_nightly_run_only(
    project: Callable[..., Project], server: ModelServer, instance: dg.DagsterInstance
) -> None:
    opened = project(evaluations={"asked": {"reference_repeats": 3}})
    refresh_project(opened, instance, ["asked"])
    asked_once = server.request_count
    run_nightly(opened, instance, "2026-11-02")
    assert server.request_count == 4 * asked_once, "two repeats and the nightly run"
    run_nightly(opened, instance, "2026-11-03")
    assert server.request_count == 5 * asked_once
    (tracked,) = tracked_evaluations(opened)
    files = opened.store.variant_files("references", "videomme", "asked")
    assert [len(read_rows(file, ObservedQuestion)) for file in files] == [asked_once] * 2
    first, second = tracked.assess("2026-11-02"), tracked.assess("2026-11-03")
    assert first.against_previous_run is None
    assert second.against_previous_run is not None
    with connect(opened.store) as connection:
        dates = query(connection, "select observation from accuracy_by_nightly_run order by all")
    assert [row["observation"] for row in dates] == ["2026-11-02", "2026-11-03"]
    more = project(evaluations={"asked": {"reference_repeats": 5}})
    run_nightly(more, instance, "2026-11-04")
    assert server.request_count == 6 * asked_once, "later answers are no reference"


def test_mistakes_in_nightly_yaml_have_messages(project: Callable[..., Project]) -> None:
    with pytest.raises(ConfigurationError, match="no evaluation `askd`"):
        read_nightly(project(evaluations={"askd": {}}).configuration)
    with pytest.raises(ConfigurationError, match="did you mean `videos`"):
        read_nightly(project(evaluations={"asked": {"video": 4}}).configuration)
    with pytest.raises(ConfigurationError, match="`since` is missing"):
        read_nightly(project(since=None).configuration)


@pytest.mark.slow
def test_the_command_line_runs_a_nightly_run(
    project: Callable[..., Project],
    model: BreakableModel,
    instance: dg.DagsterInstance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = project()
    refresh_project(opened, instance, ["asked"])
    monkeypatch.setenv("VIDEOMME_CONFIGURATION", str(opened.configuration.folder))
    monkeypatch.setenv("VIDEOMME_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["nightly", *arguments])

    quiet = call("asked", "--date", "2026-11-02")
    assert quiet.exit_code == 0, quiet.output
    assert "accuracy: 100.0%, in earlier runs 100.0%" in quiet.output
    model.broken = True
    assert call("--date", "2026-11-03").exit_code == 0, "one bad run of 6 videos may be chance"
    assert call("--date", "2026-11-04", "--json").exit_code == 1
    assert isinstance(call("asked", "--date", "2026-10-03").exception, ConfigurationError)
    assert isinstance(call("another").exception, ConfigurationError)
