"""The job and the schedule of nightly runs, and the check `recent` of their age.

The check passes if the newest complete run is not too old, by the tick of its date, or if the
schedule is off. A backfill of an old date is a new materialization, so Dagster's freshness policies
would pass.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import dagster as dg

from videomme_pipeline.assets.dagster_internals.checks import (
    evaluation_of_newest,
    newest_evaluation,
)
from videomme_pipeline.assets.dagster_internals.runs import Job
from videomme_pipeline.assets.processes import EVALUATIONS_TAG
from videomme_pipeline.assets.stages.nightly import nightly_key
from videomme_pipeline.assets.triggers.jobs import QUIET
from videomme_pipeline.project.nightly.tracked import NightlySpec, TrackedEvaluation, nightly_date
from videomme_pipeline.storage.names import is_part, record_of

NIGHTLY_JOB = "nightly"
RECENT = "recent"


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
    def start_nightly_run(
        context: dg.ScheduleEvaluationContext,
    ) -> dg.RunRequest | dg.SkipReason:
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


def recent_check(tracked: Sequence[TrackedEvaluation]) -> dg.AssetChecksDefinition:
    """The check of every tracked evaluation, in one step."""
    by_key = {nightly_key(evaluation): evaluation for evaluation in tracked}

    @dg.multi_asset_check(
        name=RECENT,
        specs=[
            dg.AssetCheckSpec(
                RECENT,
                asset=key,
                description="The schedule is off, or started the newest complete nightly run at "
                f"most {evaluation.nightly.fresh_within_hours:g} hours ago.",
            )
            for key, evaluation in by_key.items()
        ],
        can_subset=True,
    )
    def recent(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        for check in context.selected_asset_check_keys:
            yield assess_age(by_key[check.asset_key], context.instance, datetime.now(UTC))

    return recent


def recent_sensor(tracked: Sequence[TrackedEvaluation]) -> dg.SensorDefinition:
    """Reports the results of the check that have changed."""

    @dg.sensor(
        name=RECENT,
        minimum_interval_seconds=600,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Show in the check `recent` which nightly runs are overdue.",
    )
    def report_age(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        now = datetime.now(UTC)
        results = [assess_age(evaluation, context.instance, now) for evaluation in tracked]
        changed = [result for result in results if not _is_shown(context.instance, result)]
        if not changed:
            return dg.SkipReason("every check shows the newest nightly run")
        return dg.SensorResult(
            asset_events=[evaluation_of_newest(r, context.instance) for r in changed]
        )

    return report_age


def assess_age(
    tracked: TrackedEvaluation, instance: dg.DagsterInstance, now: datetime
) -> dg.AssetCheckResult:
    """The result of the check at `now`. Before the first run, `since` counts as its date."""
    nightly = tracked.nightly
    stored = tracked.project.store.observation_files(
        tracked.benchmark.name, tracked.evaluation.name
    )
    dates = (record_of(file) for file in reversed(stored) if not is_part(file))
    newest = next(dates, None)
    day = nightly.since if newest is None else date.fromisoformat(newest)
    assert day is not None, "`since` is required if anything is tracked"
    is_on = _is_on(instance, tracked.project.runs.code_location, default=nightly.schedule)
    is_recent = now - _tick_of(day, nightly) <= timedelta(hours=nightly.fresh_within_hours)
    state = "" if is_on else f"The schedule `{NIGHTLY_JOB}` is off. "
    return dg.AssetCheckResult(
        passed=is_recent or not is_on,
        asset_key=nightly_key(tracked),
        check_name=RECENT,
        description=f"{state}The newest complete nightly run is {newest or 'not there yet'}.",
    )


def _tick_of(day: date, nightly: NightlySpec) -> datetime:
    """The first tick of the schedule on a day, or after it if there is none on this day."""
    begin = datetime.combine(day, time(), ZoneInfo(nightly.timezone))
    ticks = dg.TimeWindowPartitionsDefinition(
        start=begin, cron_schedule=nightly.cron, timezone=nightly.timezone, fmt="%Y-%m-%d %H:%M"
    )
    window = ticks.get_next_partition_window(begin, respect_bounds=False)
    return begin if window is None else window.start


def _is_on(instance: dg.DagsterInstance, location: str, *, default: bool) -> bool:
    """True if the schedule of a code location is on: as a user set it in the UI, or by default."""
    for state in instance.all_instigator_state():
        origin = state.origin.repository_origin.code_location_origin
        names = state.instigator_name, state.instigator_type.value, origin.location_name
        if (
            names == (NIGHTLY_JOB, "SCHEDULE", location)
            and state.status.value != "DECLARED_IN_CODE"
        ):
            return state.is_running
    return default


def _is_shown(instance: dg.DagsterInstance, result: dg.AssetCheckResult) -> bool:
    """True if the newest stored result of the check is the same, about the same materialization."""
    assert result.asset_key is not None
    shown = newest_evaluation(dg.AssetCheckKey(result.asset_key, RECENT), instance)
    if shown is None:
        return False
    return (shown.passed, shown.description) == (result.passed, result.description)
