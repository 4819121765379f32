"""The sensor that reacts to failed runs."""

import dagster as dg
import pytest

from videomme_pipeline.assets.triggers.sensors import failure_alert
from videomme_pipeline.errors import AlertError
from videomme_pipeline.project.nightly.alerts import URLS_VARIABLE, Alert, send


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
    context = dg.build_run_status_sensor_context(
        sensor_name="run_failures",
        dagster_event=failure,
        dagster_instance=instance,
        dagster_run=run,
    ).for_run_failure()
    return failure_alert(context, prefix)


def test_an_alert_that_cannot_be_delivered_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URLS_VARIABLE, "json://127.0.0.1:1/secret  nonsense")
    with pytest.raises(AlertError, match=r"number 1 \(json://…\), number 2") as raised:
        send(Alert(title="t", body="b"))
    assert "secret" not in str(raised.value)
    monkeypatch.delenv(URLS_VARIABLE)
    send(Alert(title="t", body="b"))
