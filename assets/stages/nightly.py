"""`<benchmark>/nightly_runs/<evaluation>`: the nightly runs of a tracked evaluation.

Each tracked evaluation has its own asset with one partition per day and its own checks. The plots
of the Dagster UI show its accuracy over time. The asset graph shows only the last part of a key, so
a group of their own names these assets.

Dagster shows a check with partitions as failed while any partition is, and a stored nightly run is
never repeated. So only the check `newest`, which has no partitions, is an error: it passes again
after a good run. The checks with partitions are warnings.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from statistics import fmean
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import dagster as dg

from videomme_pipeline.assets.keys import group_name, key_in, partition_url
from videomme_pipeline.assets.processes import EVALUATIONS_TAG, QUIET
from videomme_pipeline.assets.stages.metadata import column_schema, metadata_of, rounded
from videomme_pipeline.assets.step import SERVERS, within_step
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.nightly.alerts import nightly_alert, send
from videomme_pipeline.project.nightly.tracked import NightlySpec, TrackedEvaluation, nightly_date
from videomme_pipeline.project.project import PAGE_VARIABLE
from videomme_pipeline.reports.markdown import in_markdown
from videomme_pipeline.scoring.nightly.assess import Assessment, NightlyFinding, write_findings
from videomme_pipeline.scoring.nightly.policy import RULE_VERSION, NightlyCheck, Severity
from videomme_pipeline.scoring.scored_question import ObservedQuestion, Outcome, ScoredQuestion
from videomme_pipeline.stages.facts import Markdown
from videomme_pipeline.storage.names import is_part, record_of
from videomme_pipeline.storage.tables import read_rows

NIGHTLY_JOB = "nightly"
RECENT = "recent"
_NEWEST = "newest"
ALERT_SENT = "alert_sent"
"""Metadata key of the failure of a nightly run about which an alert was sent."""
_LISTED_QUESTIONS = 50
_SHARES = ("current", "before", "limit")
"""Measures of a finding that its summary has in percent."""
_EVIDENCE = "The test raises an alarm when `evidence` reaches `alarm_at`."
_DESCRIPTIONS = {
    NightlyCheck.ACCURACY: f"The accuracy is not lower than before. {_EVIDENCE}",
    NightlyCheck.GROUP_SCORE: f"The group score is not lower than before. {_EVIDENCE}",
    NightlyCheck.MARGINALS: "No value of a facet has a lower accuracy than before.",
    NightlyCheck.FLIPS: f"No more answers than usual differ from the usual ones. {_EVIDENCE}",
    NightlyCheck.UNREADABLE: f"No more answers than usual have no letter. {_EVIDENCE}",
    NightlyCheck.FAILED: "Almost all questions got an answer.",
}
"""The statement that is true if a check passes."""


def nightly_key(tracked: TrackedEvaluation) -> dg.AssetKey:
    """The asset key of a tracked evaluation's nightly runs."""
    label = f"{tracked.benchmark.name}/nightly_runs/{tracked.evaluation.name}"
    return key_in(tracked.project, label)


def nightly_partitions(nightly: NightlySpec) -> dg.DailyPartitionsDefinition:
    """One partition per day, from `since` to today."""
    assert nightly.since is not None, "`since` is required if anything is tracked"
    return dg.DailyPartitionsDefinition(
        start_date=nightly.since.isoformat(), timezone=nightly.timezone, end_offset=1
    )


def nightly_asset(tracked: TrackedEvaluation) -> dg.AssetsDefinition:
    """The asset of a tracked evaluation, with one check per decision rule."""
    key, evaluation = nightly_key(tracked), tracked.evaluation
    scores = key_in(tracked.project, f"{tracked.benchmark.name}/scores")
    grouped = find_benchmark(tracked.benchmark.name).grouping is not None
    checks = [
        check
        for check, severity in tracked.nightly.alarm.severity.items()
        if severity is not Severity.OFF and (grouped or check is not NightlyCheck.GROUP_SCORE)
    ]
    partitions = nightly_partitions(tracked.nightly)
    overdue = timedelta(hours=tracked.nightly.fresh_within_hours)
    # Nightly runs that are backfilled together run in order, because each is compared with the
    # ones before.
    previous_run = dg.TimeWindowPartitionMapping(
        start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True
    )

    @dg.asset(
        key=key,
        description=f"Nightly runs of {evaluation.name}, one partition per day. A stored run "
        "is never repeated.",
        group_name=group_name(f"{tracked.project.runs.prefix}{tracked.benchmark.name}_nightly"),
        kinds={"parquet"},
        tags={"stage": "nightly_runs", "benchmark": group_name(tracked.benchmark.name)},
        code_version=str(RULE_VERSION),
        partitions_def=partitions,
        required_resource_keys={SERVERS},
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=overdue)
        if tracked.nightly.schedule
        else None,
        metadata={"columns": column_schema(ObservedQuestion)},
        deps=[
            dg.AssetDep(key, partition_mapping=previous_run),
            dg.AssetDep(
                scores, partition_mapping=dg.SpecificPartitionsPartitionMapping([evaluation.name])
            ),
        ],
        check_specs=[
            dg.AssetCheckSpec(
                check.value, asset=key, description=_DESCRIPTIONS[check], partitions_def=partitions
            )
            for check in checks
        ]
        + [
            dg.AssetCheckSpec(
                _NEWEST, asset=key, description="The newest nightly run passed every check."
            ),
            dg.AssetCheckSpec(
                RECENT,
                asset=key,
                description="The schedule is off, or started the newest complete nightly run at "
                f"most {tracked.nightly.fresh_within_hours:g} hours ago.",
            ),
        ],
    )
    def nightly_run(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        tracked.benchmark.invalidate()
        date = context.partition_key
        reference = tracked.reference()  # raises an error before any request is sent
        with within_step(tracked.project, context, needs_machine=False):
            tracked.repeat_reference(date)
            rows = tracked.observe(date)
        assessment = tracked.assess(date)
        version = fingerprint(evaluation.fingerprint, date, len(rows))
        write_findings(tracked.project.store, tracked.benchmark.name, assessment, version)
        sent = {}
        if alert := nightly_alert(assessment, partition_url(key, date)):
            try:
                send(alert, tracked.project.runs.prefix)
                sent = {ALERT_SENT: True}
            except VideoMMEError as error:
                context.log.warning(str(error))
        findings = {finding.check: finding for finding in assessment.findings}
        failed = findings.get(NightlyCheck.FAILED)
        if failed and not failed.passed:
            context.log.warning(failed.summary)
        is_dead = all(row.outcome is Outcome.FAILED for row in rows)
        if is_dead:  # no other check has anything to compare
            findings = {NightlyCheck.FAILED: failed} if failed else {}
        yield dg.MaterializeResult(
            asset_key=key,
            metadata=_metadata(rows, reference.rows, assessment),
            data_version=dg.DataVersion(version),
            check_results=[
                *(
                    _check_result(key, date, check, findings.get(check), is_dead)
                    for check in checks
                ),
                _newest_result(key, tracked),
                assess_age(tracked, context.instance, datetime.now(UTC)),
            ],
        )
        if is_dead:
            reason = f"{evaluation.name}: {rows[0].error}"
            raise dg.Failure(reason, metadata=sent, allow_retries=False)

    return nightly_run


def assess_age(
    tracked: TrackedEvaluation, instance: dg.DagsterInstance, now: datetime
) -> dg.AssetCheckResult:
    """The result of the check `recent` at `now`. Before the first run, `since` counts as its date.

    A backfill of an old date is a new materialization, with which Dagster's policy passes.
    """
    nightly = tracked.nightly
    stored = tracked.project.store.observation_files(
        tracked.benchmark.name, tracked.evaluation.name
    )
    dates = (record_of(file) for file in reversed(stored) if not is_part(file))
    newest = next(dates, None)
    day = nightly.since if newest is None else date.fromisoformat(newest)
    assert day is not None, "`since` is required if anything is tracked"
    started = _started(instance, tracked.project.runs.code_location, default=nightly.schedule)
    state = "" if started else f"The schedule `{NIGHTLY_JOB}` is off. "
    begin = max(started or now, _tick_of(day, nightly))
    return dg.AssetCheckResult(
        passed=now - begin <= timedelta(hours=nightly.fresh_within_hours),
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


def _started(instance: dg.DagsterInstance, location: str, *, default: bool) -> datetime | None:
    """The time when a user turned the schedule of a code location on, or None if it is off.

    A schedule that is on by default started long ago.
    """
    for state in instance.all_instigator_state():
        origin = state.origin.repository_origin.code_location_origin
        is_ours = state.instigator_name == NIGHTLY_JOB and origin.location_name == location
        if is_ours and state.status.value != "DECLARED_IN_CODE":
            started = getattr(state.instigator_data, "start_timestamp", None) or 0.0
            return datetime.fromtimestamp(started, UTC) if state.is_running else None
    return datetime.fromtimestamp(0, UTC) if default else None


def _check_result(
    key: dg.AssetKey, date: str, check: NightlyCheck, finding: NightlyFinding | None, is_dead: bool
) -> dg.AssetCheckResult:
    summary = "no question was answered" if is_dead else "does not apply to this benchmark"
    measures = {n: v for n, v in (finding.measures if finding else {}).items() if n not in _SHARES}
    return dg.AssetCheckResult(
        passed=not is_dead if finding is None else finding.passed,
        asset_key=key,
        check_name=check.value,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{date}: {finding.summary if finding else summary}",
        metadata=rounded(measures) | {"rule_version": RULE_VERSION},
    )


def _newest_result(key: dg.AssetKey, tracked: TrackedEvaluation) -> dg.AssetCheckResult:
    """The state of the newest nightly run, which may be a later one than the run of this step."""
    names = tracked.benchmark.name, tracked.evaluation.name
    newest = tracked.project.store.variant_files("findings", *names)[-1]
    findings = read_rows(newest, NightlyFinding)
    failed = [finding for finding in findings if not finding.passed]
    is_error = any(finding.severity is Severity.ERROR for finding in failed)
    summaries = (f"{finding.check.value}: {finding.summary}" for finding in failed)
    return dg.AssetCheckResult(
        passed=not failed,
        asset_key=key,
        check_name=_NEWEST,
        severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        description=f"{newest.stem}: {'; '.join(summaries) or 'every check passed'}",
    )


def _metadata(
    rows: Sequence[ObservedQuestion], reference: Sequence[ScoredQuestion], assessment: Assessment
) -> dict[str, Any]:
    outcomes = [row.outcome for row in rows]
    compared, previous = assessment.against_reference, assessment.against_previous_run
    failed = [
        f"- **{finding.check.value}**: {in_markdown(finding.summary)}"
        for finding in assessment.findings
        if not finding.passed
    ]
    answered = outcomes.count(Outcome.FAILED) < len(rows)
    metadata: dict[str, Any] = {
        "failed_checks": Markdown("\n".join(failed) or "none"),
        "alarms": len(failed),
        "accuracy_percent": 100 * fmean(row.is_correct for row in rows) if answered else None,
        "questions": len(rows),
        "videos": len({row.video_id for row in rows}),
        "unreadable": outcomes.count(Outcome.UNREADABLE),
        "failed": outcomes.count(Outcome.FAILED),
        "detectable_drop_points": _points(assessment.detectable_drop),
        "difference_to_previous_run_points": _points(
            previous.accuracy.difference.mean if previous else None
        ),
    }
    if compared:
        group_score = compared.group_score
        metadata |= {
            "difference_to_reference_points": _points(compared.accuracy.difference.mean),
            "flip_rate_percent": _points(compared.flip_rate.mean),
            "group_score_difference_points": group_score and group_score.difference.mean,
            "lost": _table_of_lost(compared.lost, rows, reference),
        }
    return metadata_of(rounded(metadata))


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _table_of_lost(
    lost: Sequence[str], rows: Sequence[ScoredQuestion], reference: Sequence[ScoredQuestion]
) -> Markdown | None:
    """The lost questions, linked to the results page, with their letters before and now."""
    page = os.environ.get(PAGE_VARIABLE)
    before = {row.question_id: row.extracted_answer for row in reference if row.is_correct}
    now = {row.question_id: row for row in rows if not row.is_correct}
    lines = ["| question | before | now | correct |", "|---|---|---|---|"]
    for name in lost[:_LISTED_QUESTIONS]:
        link = f"[{in_markdown(name)}]({page}#question?id={quote(name)})" if page else name
        letter, correct = now[name].extracted_answer or "none", now[name].answer
        lines.append(f"| {link} | {before[name]} | {letter} | {correct} |")
    return Markdown("\n".join(lines)) if lost else None


def nightly_definitions(tracked: Sequence[TrackedEvaluation]) -> dg.Definitions:
    """The assets of tracked evaluations, the job of a nightly run of them, and its schedule."""
    nightly = tracked[0].nightly
    job = dg.define_asset_job(
        NIGHTLY_JOB,
        selection=dg.AssetSelection.assets(*map(nightly_key, tracked)),
        description="Ask the tracked evaluations again and compare them with their references.",
        config={"loggers": QUIET},
    )

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

    return dg.Definitions(
        assets=[*map(nightly_asset, tracked)], jobs=[job], schedules=[start_nightly_run]
    )
