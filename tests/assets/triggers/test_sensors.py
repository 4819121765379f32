"""Sensors react once to each change. The ticks, files and servers are real."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.projects import Copy, WriteProject
from tests.support.stored_events import materializations
from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.processes import PROCESS_TAG, RunProcess
from videomme_pipeline.assets.run import refresh_project
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB
from videomme_pipeline.assets.triggers.sensors import dead_runs_sensor, run_failure_alerts, sensors
from videomme_pipeline.errors import AlertError
from videomme_pipeline.project.nightly.alerts import URLS_VARIABLE, Alert, send
from videomme_pipeline.project.project import Project, open_project


class Ticks:
    """Repeated evaluations of a sensor, with the cursor that the daemon would store."""

    def __init__(
        self, project: Project, instance: dg.DagsterInstance, name: str, **options: Any
    ) -> None:
        repository = build_definitions(project).get_repository_def()
        (self._sensor,) = [s for s in sensors(project, **options) if s.name == name]
        self._repository, self._instance = repository, instance
        self._cursor: str | None = None

    def tick(self) -> list[dg.RunRequest]:
        context = dg.build_sensor_context(
            instance=self._instance, cursor=self._cursor, repository_def=self._repository
        )
        evaluated = self._sensor.evaluate_tick(context)
        self._cursor = evaluated.cursor
        return list(evaluated.run_requests or [])


def evaluations_of(request: dg.RunRequest) -> list[str]:
    names: list[str] = request.run_config["evaluations"]
    return names


@pytest.fixture
def project(write_project: WriteProject, instance: dg.DagsterInstance) -> Project:
    project = write_project({"few": {"benchmark": "videomme", "model": "constant-A"}})
    assert refresh_project(project, instance, ["few"]).not_fresh == []
    return project


def test_a_changed_file_is_refreshed_once_it_is_completely_written(
    project: Project, copy: Copy, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(project, instance, "media_files")
    assert [ticks.tick(), ticks.tick()] == [[], []], "the first evaluation only records the state"
    copy.subtitle("004").write_text("1\n00:00:00,000 --> 00:00:01,000\nnew\n")
    assert ticks.tick() == [], "the file may still be incomplete"
    copy.subtitle("004").write_text("1\n00:00:00,000 --> 00:00:01,000\nnewer\n")
    assert ticks.tick() == []
    (request,) = ticks.tick()
    assert evaluations_of(request) == ["few"]
    assert ticks.tick() == []
    job = build_definitions(project).resolve_job_def(REFRESH_JOB)
    result = job.execute_in_process(instance=instance, run_config=request.run_config)
    events = [entry.asset_materialization for entry in materializations(instance, result.run_id)]
    keys = {event.asset_key.to_user_string() for event in events if event}
    assert keys == {"videomme/videos"}, "a blind evaluation reads no subtitles"


def test_files_of_a_benchmark_are_watched_once_its_license_is_accepted(
    write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    few = {"few": {"benchmark": "videomme", "model": "constant-A"}}
    ticks = Ticks(write_project(few, accept_license=False), instance, "media_files")
    assert [ticks.tick(), ticks.tick()] == [[], []]
    write_project(few)
    assert ticks.tick() == []
    (request,) = ticks.tick()
    assert evaluations_of(request) == ["few"]


def test_only_evaluations_that_changed_are_refreshed(
    project: Project, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(project, instance, "configuration_files")
    assert ticks.tick() == []
    few = {"benchmark": "videomme", "model": "constant-A"}
    write_project({"few": few, "another": {"benchmark": "videomme", "model": "random"}})
    (request,) = ticks.tick()
    assert evaluations_of(request) == ["another"]
    write_project({"few": few | {"prompt": "lmms_eval"}, "another": {"benchmark": "videomme"}})
    (request,) = ticks.tick()
    assert evaluations_of(request) == ["few"], "a file with a mistake changes nothing"
    write_project({"few": few | {"prompt": "lmms_eval"}, "another": {**few, "model": "random"}})
    assert ticks.tick() == [], "a fixed file counts as unchanged"


class ModelList:
    """The models that a server lists; None means that the server is down."""

    def __init__(self) -> None:
        self.models: list[str] | None = None


@pytest.fixture
def model_list() -> Iterator[tuple[ModelList, str]]:
    served = ModelList()

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = (
                '{"data": [' + ", ".join(f'{{"id": "{m}"}}' for m in served.models or []) + "]}"
            ).encode()
            self.send_response(503 if served.models is None else 200)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served, f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_comes_up_starts_a_refresh_and_another_model_causes_an_alert(
    write_project: WriteProject,
    tmp_path: Path,
    model_list: tuple[ModelList, str],
    instance: dg.DagsterInstance,
) -> None:
    served, url = model_list
    project = write_project({"few": {"benchmark": "videomme", "model": "constant-A"}})
    folder = project.configuration.folder
    (folder / "models.yaml").write_text(yaml.safe_dump({"mine": {"base_url": url}}))
    (folder / "evaluations" / "asked.yaml").write_text("{benchmark: videomme, model: mine}")
    alerts: list[Alert] = []
    project = open_project(folder, str(tmp_path))
    ticks = Ticks(project, instance, "model_servers", send_alert=alerts.append)
    assert [ticks.tick(), ticks.tick()] == [[], []]
    served.models = ["big-model"]
    (request,) = ticks.tick()
    assert evaluations_of(request) == ["asked"]
    assert ticks.tick() == []
    served.models = None
    assert ticks.tick() == []
    served.models = ["small-model"]
    (request,) = ticks.tick()
    (alert,) = alerts
    assert "served big-model and now serves small-model" in alert.body


def test_a_failed_run_causes_an_alert(instance: dg.DagsterInstance) -> None:
    @dg.op
    def fail() -> None:
        raise RuntimeError("the disk is full")

    @dg.job
    def broken() -> None:
        fail()

    result = broken.execute_in_process(instance=instance, raise_on_error=False)
    alert = alert_about(result, instance)
    assert alert.title == "broken failed"
    assert "Step fail: " in alert.body
    assert "the disk is full" in alert.body
    assert "Launch it again" in alert.body
    assert f"/runs/{result.run_id}" in alert.body


def test_the_alert_about_assets_that_a_user_materialized_names_them(
    instance: dg.DagsterInstance,
) -> None:
    @dg.asset(
        key=["lab_a", "smoke", "videos"], partitions_def=dg.StaticPartitionsDefinition(["001"])
    )
    def videos() -> None:
        raise RuntimeError("the disk is full")

    job = dg.Definitions([videos]).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance, asset_selection=[videos.key], partition_key="001", raise_on_error=False
    )
    alert = alert_about(result, instance, prefix="lab_a/")
    assert alert.title == "smoke/videos (001) failed"
    assert "the disk is full" in alert.body


def test_the_alert_about_a_killed_run_names_the_step(instance: dg.DagsterInstance) -> None:
    @dg.job
    def idle() -> None:
        """Nothing."""

    run = instance.create_run_for_job(idle)
    began = dg.DagsterEvent(dg.DagsterEventType.STEP_START.value, idle.name, step_key="responses")
    instance.report_dagster_event(began, run.run_id)
    alert = alert_of(run, instance.report_run_failed(run, "the process is gone"), instance)
    assert alert.body.startswith("The run was interrupted in responses.\nthe process is gone\n")


def alert_about(
    result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance, prefix: str = ""
) -> Alert:
    """The alert about a failed run."""
    failure = next(e for e in result.all_events if e.is_failure and not e.is_step_event)
    return alert_of(result.dagster_run, failure, instance, prefix)


def alert_of(
    run: dg.DagsterRun, failure: dg.DagsterEvent, instance: dg.DagsterInstance, prefix: str = ""
) -> Alert:
    """The alert about a run with this event of its failure."""
    alerts: list[Alert] = []
    context = dg.build_run_status_sensor_context(
        sensor_name="run_failures",
        dagster_event=failure,
        dagster_instance=instance,
        dagster_run=run,
    ).for_run_failure()
    run_failure_alerts(alerts.append, prefix)(context)
    (alert,) = alerts
    return alert


def test_a_dead_run_is_ended(instance: dg.DagsterInstance) -> None:
    @dg.job
    def idle() -> None:
        """Nothing."""

    run = instance.create_run_for_job(idle)
    dead = replace(RunProcess.here(run_id=run.run_id), started=1.0)
    instance.add_run_tags(run.run_id, {PROCESS_TAG: dead.as_json()})
    for message in (f"ended {run.run_id}", "no run is dead"):
        skipped = dead_runs_sensor()(dg.build_sensor_context(instance=instance))
        assert isinstance(skipped, dg.SkipReason)
        assert skipped.skip_message == message


def test_an_alert_that_cannot_be_delivered_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URLS_VARIABLE, "json://127.0.0.1:1/secret  nonsense")
    with pytest.raises(AlertError, match=r"number 1 \(json://…\), number 2") as raised:
        send(Alert(title="t", body="b"))
    assert "secret" not in str(raised.value)
    monkeypatch.delenv(URLS_VARIABLE)
    send(Alert(title="t", body="b"))
