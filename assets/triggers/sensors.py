"""What happens when something changes: files, configuration, model servers, failed runs.

A sensor looks cheaply whether anything may have changed and asks for a run of `refresh_stale`,
whose planner alone decides what is stale. The first look only remembers. Sensors live long, so
each look opens the project anew.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from assets.stages.nightly import ui_address
from assets.triggers.jobs import REFRESH_JOB, run_config
from assets.triggers.schedules import Job
from videomme_pipeline.alerts import Alert, alert_urls, run_failure_alert, send
from videomme_pipeline.benchmarks.locate import index_media
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.evaluation import read_configuration
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.models.pricing import OPENAI_URL
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.project.nightly import NightlySpec
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state import BenchmarkState

Tell = Callable[[Alert], None]


def tell(alert: Alert) -> None:
    """Send an alert to where the environment says."""
    send(alert, alert_urls(os.environ))


def sensors(project: Project, tell: Tell = tell) -> list[dg.SensorDefinition]:
    """The sensors of a project; each is turned on in the UI, but for alerts, which are on."""
    return [
        media_sensor(project),
        configuration_sensor(project),
        server_sensor(project, tell),
        run_failure_alerts(tell),
    ]


def media_sensor(project: Project) -> dg.SensorDefinition:
    """Video and subtitle files that came, changed or went."""

    @dg.sensor(
        name="media_files",
        job_name=REFRESH_JOB,
        minimum_interval_seconds=60,
        description="Refresh when video or subtitle files change and then stay as they are.",
    )
    def media_files(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        benchmarks = _reopened(project).benchmarks
        now = {name: media_fingerprint(benchmark) for name, benchmark in benchmarks.items()}
        seen = _cursor(context)
        settled: dict[str, str] = seen.get("settled", now)
        # A file that is still being copied changes from look to look.
        resting = {name for name in now if seen.get("seen", now).get(name) == now[name]}
        changed = sorted(name for name in resting if settled.get(name) != now[name])
        cursor = {"seen": now, "settled": settled | {name: now[name] for name in resting}}
        if not changed:
            context.update_cursor(json.dumps(cursor))
            return dg.SkipReason("no file changed")
        evaluations = [name for b in changed for name in benchmarks[b].evaluations]
        return _refresh(evaluations, cursor, f"files of {', '.join(changed)}")

    return media_files


def configuration_sensor(project: Project) -> dg.SensorDefinition:
    """Evaluations that are new or no longer what they were, also through models.yaml."""

    @dg.sensor(
        name="configuration_files",
        job_name=REFRESH_JOB,
        minimum_interval_seconds=60,
        description="Refresh evaluations whose files or models were edited.",
    )
    def configuration_files(
        context: dg.SensorEvaluationContext,
    ) -> dg.SensorResult | dg.SkipReason:
        configuration = _reopened(project).configuration
        now = {name: e.fingerprint for name, e in configuration.evaluations.items()}
        seen = _cursor(context) or now
        changed = sorted(name for name in now if seen.get(name) != now[name])
        # A file with a mistake is left out: it counts as what it was until it can be read.
        cursor = {name: seen[name] for name in configuration.problems if name in seen} | now
        if not changed:
            context.update_cursor(json.dumps(cursor))
            problems = "; ".join(map(str, configuration.problems.values()))
            return dg.SkipReason(problems or "no evaluation changed")
        return _refresh(changed, cursor, f"evaluations {', '.join(changed)}")

    return configuration_files


def server_sensor(project: Project, tell: Tell) -> dg.SensorDefinition:
    """Model servers that come up, or serve another model than before."""

    @dg.sensor(
        name="model_servers",
        job_name=REFRESH_JOB,
        minimum_interval_seconds=120,
        description="Refresh when a model server comes up; tell when it serves something else.",
    )
    def model_servers(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        configuration = _reopened(project).configuration
        asked = [
            e
            for e in configuration.evaluations.values()
            if e.model.is_remote and e.model.endpoint != OPENAI_URL
        ]
        models = {e.model.name: e.model for e in asked}
        now = {name: served_models(model) for name, model in models.items()}
        seen = _cursor(context)
        known = {**seen.get("served", {}), **{name: held for name, held in now.items() if held}}
        cursor = {"served": known, "up": [name for name, held in now.items() if held]}
        for name, held in now.items():
            before = seen.get("served", {}).get(name)
            if held and before and held != before:
                _try_to_tell(context, tell, _other_model(models[name], before, held))
        up = [name for name in cursor["up"] if seen and name not in seen["up"]]
        if not up:
            context.update_cursor(json.dumps(cursor))
            return dg.SkipReason("no model server came up")
        evaluations = [e.name for e in asked if e.model.name in up]
        return _refresh(evaluations, cursor, f"servers of {', '.join(up)}")

    return model_servers


def results_after_nights(
    nightly: NightlySpec, jobs: Sequence[Job], refresh_stale: dg.JobDefinition
) -> list[dg.SensorDefinition]:
    """After a night the warehouse and the report are made anew, by the planner as always."""
    if not jobs:
        return []

    @dg.run_status_sensor(
        name="results_after_nights",
        run_status=dg.DagsterRunStatus.SUCCESS,
        monitored_jobs=list(jobs),
        request_job=refresh_stale,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Bring the results up to date when a night has ended.",
    )
    def after_a_night(context: dg.RunStatusSensorContext) -> dg.RunRequest:
        return dg.RunRequest(
            run_key=context.dagster_run.run_id, run_config=run_config(list(nightly.evaluations))
        )

    return [after_a_night]


def run_failure_alerts(tell: Tell) -> dg.SensorDefinition:
    """Runs that fail are told to people."""

    @dg.run_failure_sensor(
        name="run_failures",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tell where VIDEOMME_ALERT_URLS says that a run failed.",
    )
    def run_failures(context: dg.RunFailureSensorContext) -> None:
        run = context.dagster_run
        link = f"{ui_address()}/runs/{run.run_id}"
        tell(run_failure_alert(run.job_name, run.run_id, context.failure_event.message or "", link))

    return run_failures


def media_fingerprint(benchmark: BenchmarkState) -> str:
    """Stands for the names, sizes and times of a benchmark's media files; none is opened."""
    index = index_media(benchmark.snapshot.media.roots())
    files = sorted([*index.videos.values(), *index.subtitles.values()])
    return fingerprint(
        [
            (path.name, status.st_size, status.st_mtime_ns)
            for path in files
            for status in [path.stat()]
        ]
    )


def served_models(model: ModelSpec) -> list[str]:
    """Sorted names of the models that the endpoint of `model` serves; empty if it is down."""
    try:
        return model.served_models() or []
    except VideoMMEError:
        return []


def _other_model(model: ModelSpec, before: list[str], now: list[str]) -> Alert:
    return Alert(
        title=f"{model.name}: another model is served",
        body=(
            f"{model.endpoint} served {', '.join(before)} and now serves {', '.join(now)}. "
            "Scores from before and after do not belong together: if this was meant, give the "
            "model a new `revision` in models.yaml."
        ),
    )


def _try_to_tell(context: dg.SensorEvaluationContext, tell: Tell, alert: Alert) -> None:
    try:
        tell(alert)
    except VideoMMEError as error:
        context.log.warning(str(error))


def _refresh(evaluations: list[str], cursor: Mapping[str, Any], why: str) -> dg.SensorResult:
    """A run for these evaluations; the same change asks for it once."""
    text = json.dumps(cursor, sort_keys=True)
    request = dg.RunRequest(
        run_key=fingerprint(why, text),
        run_config=run_config(evaluations),
        tags={"videomme/because": why[:63]},
    )
    return dg.SensorResult(run_requests=[request] if evaluations else [], cursor=text)


def _cursor(context: dg.SensorEvaluationContext) -> dict[str, Any]:
    return dict(json.loads(context.cursor)) if context.cursor else {}


def _reopened(project: Project) -> Project:
    """The project as its files say now."""
    return replace(project, configuration=read_configuration(project.configuration.folder))
