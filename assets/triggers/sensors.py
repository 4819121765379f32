"""Sensors that react to changed files, changed configuration, model servers and failed runs.

A sensor checks cheaply whether anything may have changed, and requests a run of `refresh_stale`,
which decides what is stale. The first evaluation of a sensor only records the state. Each
evaluation reads the configuration again, because the process of a sensor runs for a long time.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from videomme_pipeline.assets.processes import EVALUATIONS_TAG, PARTITION_TAG, end_dead_runs
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB, run_config
from videomme_pipeline.benchmarks.locate import index_media, state_of
from videomme_pipeline.errors import ConfigurationError, VideoMMEError, listed
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.models.endpoint.remote import RemoteSpec
from videomme_pipeline.models.pricing import OPENAI_URL
from videomme_pipeline.project.nightly.alerts import Alert, AlertType, send, ui_address
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state.benchmark import BenchmarkState

SendAlert = Callable[[Alert], None]
_IMPLICIT_JOB = "__ASSET_JOB"
"""Dagster's name of the job that materializes assets that a user chose."""
_LISTED_ASSETS = 3
_ADVICE = "Everything that the run stored is kept. Launch it again to build what is missing."


def sensors(project: Project, send_alert: SendAlert | None = None) -> list[dg.SensorDefinition]:
    """The sensors of a project. Those about failed and dead runs are on by default."""
    send_alert = send_alert or partial(send, prefix=project.runs.prefix)
    return [
        media_sensor(project),
        configuration_sensor(project),
        server_sensor(project, send_alert),
        run_failure_alerts(send_alert, project.runs.prefix),
        dead_runs_sensor(),
    ]


def media_sensor(project: Project) -> dg.SensorDefinition:
    """Refresh when video or subtitle files were added, changed or removed."""

    @dg.sensor(
        name="media_files",
        job_name=REFRESH_JOB,
        minimum_interval_seconds=60,
        description="Refresh when video or subtitle files change and are completely written.",
    )
    def media_files(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        current = project.reopened()
        benchmarks = current.benchmarks
        now = {name: media_fingerprint(benchmark) for name, benchmark in benchmarks.items()}
        seen = _cursor(context)
        settled: dict[str, str] = seen.get("settled", now)
        # A file that is still being copied changes between two evaluations.
        unchanged = {name for name in now if seen.get("seen", now).get(name) == now[name]}
        changed = sorted(name for name in unchanged if settled.get(name) != now[name])
        cursor = {"seen": now, "settled": settled | {name: now[name] for name in unchanged}}
        if not changed:
            return _skip(cursor, "no file changed")
        evaluations = [n for n, e in current.configuration.files.items() if e.benchmark in changed]
        return _refresh(evaluations, cursor, f"files of {', '.join(changed)}")

    return media_files


def configuration_sensor(project: Project) -> dg.SensorDefinition:
    """Refresh evaluations that are new, or whose file or models.yaml entry changed."""

    @dg.sensor(
        name="configuration_files",
        job_name=REFRESH_JOB,
        minimum_interval_seconds=60,
        description="Refresh evaluations whose files or models were edited.",
    )
    def configuration_files(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        configuration = project.reopened().configuration
        now = {name: e.fingerprint for name, e in configuration.files.items()}
        seen = _cursor(context) or now
        changed = sorted(name for name in now if seen.get(name) != now[name])
        # A file with a mistake counts as unchanged until it is fixed.
        cursor = {name: seen[name] for name in configuration.problems if name in seen} | now
        if not changed:
            problems = "; ".join(map(str, configuration.problems.values()))
            return _skip(cursor, problems or "no evaluation changed")
        return _refresh(changed, cursor, f"evaluations {', '.join(changed)}")

    return configuration_files


def server_sensor(project: Project, send_alert: SendAlert) -> dg.SensorDefinition:
    """Refresh when a model server comes up, and send an alert when it serves another model."""

    @dg.sensor(
        name="model_servers",
        job_name=REFRESH_JOB,
        minimum_interval_seconds=120,
        description="Refresh when a model server comes up. Alert when it serves another model.",
    )
    def model_servers(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        configuration = project.reopened().configuration
        evaluations = configuration.files.values()
        models = {
            e.model.name: e.model
            for e in evaluations
            if isinstance(e.model, RemoteSpec) and e.model.endpoint != OPENAI_URL
        }
        now = {name: served_models(model) for name, model in models.items()}
        seen = _cursor(context)
        last_served = {
            **seen.get("served", {}),
            **{name: served for name, served in now.items() if served},
        }
        cursor = {"served": last_served, "up": [name for name, served in now.items() if served]}
        for name, served in now.items():
            before = seen.get("served", {}).get(name)
            if served and before and served != before:
                _try_to_send(context, send_alert, _other_model(models[name], before, served))
        up = [name for name in cursor["up"] if seen and name not in seen["up"]]
        if not up:
            return _skip(cursor, "no model server came up")
        of_servers = [e.name for e in evaluations if e.model.name in up]
        return _refresh(of_servers, cursor, f"servers of {', '.join(up)}")

    return model_servers


def run_failure_alerts(send_alert: SendAlert, prefix: str = "") -> dg.SensorDefinition:
    """Send an alert when a run fails. `prefix` is the start of the project's asset keys."""

    @dg.run_failure_sensor(
        name="run_failures",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Send an alert to VIDEOMME_ALERT_URLS when a run fails.",
    )
    def run_failures(context: dg.RunFailureSensorContext) -> None:
        run = context.dagster_run
        failures = context.get_step_failure_events()
        steps = [f"Step {failure.step_key}: {_reason(failure)}" for failure in failures]
        reasons = "\n".join(steps) or _interruption(context)
        body = f"{reasons}\n\n{_ADVICE}\n{ui_address()}/runs/{run.run_id}"
        send_alert(Alert(title=f"{_work_of(run, prefix)} failed", body=body))

    return run_failures


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


def dead_runs_sensor() -> dg.SensorDefinition:
    """End runs whose process died, which would count against the limit of concurrent runs."""

    @dg.sensor(
        name="dead_runs",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="End runs whose process died.",
    )
    def dead_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        ended = end_dead_runs(context.instance, datetime.now(UTC))
        return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "no run is dead")

    return dead_runs


def media_fingerprint(benchmark: BenchmarkState) -> str:
    """Fingerprint of the names, sizes and times of a benchmark's media files. Opens no file."""
    try:
        index = index_media(benchmark.snapshot.source.roots())
    except ConfigurationError:  # its license is not accepted, or its folder does not exist
        return fingerprint([])
    files = sorted([*index.videos.values(), *index.subtitles.values()], key=str)
    return fingerprint([(file.name, state_of(file)) for file in files])


def served_models(model: RemoteSpec) -> list[str]:
    """Sorted names of the models that the endpoint of `model` serves. Empty without a reply."""
    try:
        return model.served_models() or []
    except VideoMMEError:
        return []


def _other_model(model: RemoteSpec, before: list[str], now: list[str]) -> Alert:
    return Alert(
        title=f"{model.name}: another model is served",
        body=(
            f"{model.endpoint} served {', '.join(before)} and now serves {', '.join(now)}. "
            "Scores from before and after are not comparable. If the change was intended, give "
            "the model a new `revision` in models.yaml."
        ),
        type=AlertType.WARNING,
    )


def _try_to_send(context: dg.SensorEvaluationContext, send_alert: SendAlert, alert: Alert) -> None:
    try:
        send_alert(alert)
    except VideoMMEError as error:
        context.log.warning(str(error))


def _refresh(evaluations: list[str], cursor: Mapping[str, Any], why: str) -> dg.SensorResult:
    """Request a run for these evaluations, with a run key that allows one run per change."""
    text = json.dumps(cursor, sort_keys=True)
    request = dg.RunRequest(
        run_key=fingerprint(why, text),
        run_config=run_config(evaluations),
        tags={"videomme/because": why[:63]},
    )
    return dg.SensorResult(run_requests=[request] if evaluations else [], cursor=text)


def _skip(cursor: Mapping[str, Any], reason: str) -> dg.SensorResult:
    return dg.SensorResult(skip_reason=reason, cursor=json.dumps(cursor))


def _cursor(context: dg.SensorEvaluationContext) -> dict[str, Any]:
    return dict(json.loads(context.cursor)) if context.cursor else {}
