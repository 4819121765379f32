"""Sensors that react to failed runs and new results. They are on by default."""

import dagster as dg

from videomme_pipeline.assets.processes import EVALUATIONS_TAG, PARTITION_TAG
from videomme_pipeline.assets.stages.nightly import ALERT_SENT
from videomme_pipeline.errors import listed
from videomme_pipeline.project.nightly.alerts import Alert, send, ui_address

_IMPLICIT_JOB = "__ASSET_JOB"
"""Dagster's name of the job that materializes assets that a user chose."""
_LISTED_ASSETS = 3
_ADVICE = "Everything that the run stored is kept. Launch it again to build what is missing."


def run_failures_sensor(prefix: str) -> dg.SensorDefinition:
    """Send an alert when a run fails. `prefix` is the start of the project's asset keys."""

    @dg.run_failure_sensor(
        name="run_failures",
        minimum_interval_seconds=120,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Send an alert to VIDEOMME_ALERT_URLS when a run fails.",
    )
    def run_failures(context: dg.RunFailureSensorContext) -> None:
        failures = context.get_step_failure_events()
        if not failures or not all(map(_is_alert_sent, failures)):
            send(failure_alert(context, prefix), prefix)

    return run_failures


def failure_alert(context: dg.RunFailureSensorContext, prefix: str) -> Alert:
    """The alert about a failed run: the reason of each failed step, and a link."""
    run = context.dagster_run
    failures = context.get_step_failure_events()
    steps = [f"Step {failure.step_key}: {_reason(failure)}" for failure in failures]
    reasons = "\n".join(steps) or _interruption(context)
    body = f"{reasons}\n\n{_ADVICE}\n{ui_address()}/runs/{run.run_id}"
    return Alert(title=f"{_work_of(run, prefix)} failed", body=body)


def _is_alert_sent(failure: dg.DagsterEvent) -> bool:
    data = failure.step_failure_data.user_failure_data
    return data is not None and ALERT_SENT in data.metadata


def _work_of(run: dg.DagsterRun, prefix: str) -> str:
    """The job of a run or the assets that a user materialized, with evaluations or a partition."""
    keys = run.asset_selection or ()
    assets = sorted(key.to_user_string().removeprefix(prefix) for key in keys)
    is_implicit = run.job_name.startswith(_IMPLICIT_JOB)
    name = listed(assets, _LISTED_ASSETS) if is_implicit else run.job_name
    part = run.tags.get(EVALUATIONS_TAG) or run.tags.get(PARTITION_TAG)
    return f"{name} ({part})" if part else name


def _interruption(context: dg.RunFailureSensorContext) -> str:
    """The message of a run that ended without a failed step, and the steps that it interrupted."""
    stats = context.instance.get_run_step_stats(context.dagster_run.run_id)
    steps = [step.step_key for step in stats if step.start_time and not step.end_time]
    interrupted = [f"The run was interrupted in {listed(steps)}."] if steps else []
    return "\n".join([*interrupted, context.failure_event.message or ""])


def _reason(event: dg.DagsterEvent) -> str:
    """The reason of a failed step: its own description, or its first error."""
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error
    while error and error.cause:
        error = error.cause
    return error.message.strip() if error else "no reason is stored"


def when_results_changed() -> dg.AutomationCondition[dg.AssetKey]:
    """True if scores or nightly runs have a new data version, even if others are missing.

    `AutomationCondition.eager` is also true if a parent ran and its data did not change.
    """
    condition = dg.AutomationCondition
    return (
        condition.eager()
        .without(~condition.any_deps_missing())
        .with_label("scores or nightly runs changed")
        .replace("newly_updated", condition.data_version_changed())
    )


def results_sensor() -> dg.AutomationConditionSensorDefinition:
    """The automation of the results, which cost nothing and are always brought up to date."""
    selection = dg.AssetSelection
    return dg.AutomationConditionSensorDefinition(
        "results",
        target=selection.tag("stage", "warehouse") | selection.tag("stage", "report_page"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=120,
        description="Rebuild the warehouse and the report when scores or nightly runs change.",
    )
