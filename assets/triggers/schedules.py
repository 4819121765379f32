"""What happens by the clock: the nightly run, and the removal of runs that nobody needs.

What a night is belongs to `nightly`; here stands only when.
"""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,
)

from assets.stages.nightly import nightly_key
from assets.triggers.retention import retention_job
from videomme_pipeline.project.nightly import NightlySpec, TrackedEvaluation, nightly_date

NIGHTLY_JOB = "nightly"

Job = dg.JobDefinition | UnresolvedAssetJobDefinition


def nightly_job(tracked: Sequence[TrackedEvaluation]) -> list[Job]:
    """The job that asks one night of every tracked evaluation; none where nothing is tracked."""
    if not tracked:
        return []
    return [
        dg.define_asset_job(
            NIGHTLY_JOB,
            selection=dg.AssetSelection.assets(
                *(nightly_key(evaluation) for evaluation in tracked)
            ),
            description="Ask the tracked evaluations again and hold them against their baselines.",
        )
    ]


def schedules(nightly: NightlySpec, jobs: Sequence[Job]) -> list[dg.ScheduleDefinition]:
    """The nightly schedule, which runs where something is tracked, and the weekly clearing."""
    weekly = dg.ScheduleDefinition(
        name="weekly_retention",
        job=retention_job,
        cron_schedule="30 4 * * 0",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    return [weekly, *(_nightly_schedule(nightly, job) for job in jobs)]


def leaderboard_freshness(nightly: NightlySpec) -> dg.FreshnessPolicy | None:
    """That the results hold last night's answers; no policy where nothing is tracked."""
    if not nightly.evaluations:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=nightly.fresh_within_hours))


def _nightly_schedule(nightly: NightlySpec, job: Job) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=NIGHTLY_JOB,
        job=job,
        cron_schedule=nightly.cron,
        execution_timezone=nightly.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Every night, as nightly.yaml says.",
    )
    def ask_tonight(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        night = nightly_date(context.scheduled_execution_time, nightly.timezone)
        return dg.RunRequest(run_key=night, partition_key=night)

    return ask_tonight
