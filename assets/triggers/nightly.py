"""The job and the schedule of nightly runs."""

from collections.abc import Sequence

import dagster as dg

from videomme_pipeline.assets.dagster_internals.runs import Job
from videomme_pipeline.assets.processes import EVALUATIONS_TAG
from videomme_pipeline.assets.stages.nightly import NIGHTLY_JOB, nightly_key
from videomme_pipeline.assets.triggers.jobs import QUIET
from videomme_pipeline.project.nightly.tracked import NightlySpec, TrackedEvaluation, nightly_date


def nightly_job(tracked: Sequence[TrackedEvaluation]) -> Job:
    """The job of a nightly run of all tracked evaluations."""
    return dg.define_asset_job(
        NIGHTLY_JOB,
        selection=dg.AssetSelection.assets(*map(nightly_key, tracked)),
        description="Ask the tracked evaluations again and compare them with their references.",
        config={"loggers": QUIET},
    )


def nightly_schedule(
    nightly: NightlySpec, job: Job, tracked: Sequence[TrackedEvaluation]
) -> dg.ScheduleDefinition:
    """The start of the nightly run at the time in `nightly.yaml`."""

    @dg.schedule(
        name=NIGHTLY_JOB,
        job=job,
        cron_schedule=nightly.cron,
        execution_timezone=nightly.timezone,
        default_status=(
            dg.DefaultScheduleStatus.RUNNING
            if nightly.schedule
            else dg.DefaultScheduleStatus.STOPPED
        ),
        description="Start a nightly run at the time in nightly.yaml.",
    )
    def start_nightly_run(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        date = nightly_date(context.scheduled_execution_time, nightly.timezone)
        missing = [evaluation for evaluation in tracked if not evaluation.is_complete(date)]
        if not missing:
            return dg.SkipReason(f"the nightly run of {date} is stored")
        return dg.RunRequest(
            run_key=date,
            partition_key=date,
            asset_selection=[nightly_key(evaluation) for evaluation in missing],
            tags={EVALUATIONS_TAG: ", ".join(entry.evaluation.name for entry in missing)},
        )

    return start_nightly_run
