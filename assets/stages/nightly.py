"""`<benchmark>/nightly_runs/<evaluation>`: the nightly runs of a tracked evaluation.

Each tracked evaluation has its own asset with one partition per day and its own checks. The plots
of the Dagster UI show its accuracy over time. The asset graph shows only the last part of a key, so
a group of their own names these assets.

Dagster shows a check with partitions as failed while any partition is, and a stored nightly run is
never repeated. So only the check `newest`, which has no partitions, is an error: it passes again
after a good run. The checks with partitions are warnings.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Any

import dagster as dg

from videomme_pipeline.assets.keys import OWNERS, group_name, key_in, partition_url
from videomme_pipeline.assets.stages.metadata import column_schema, metadata_of, rounded
from videomme_pipeline.assets.step import SERVERS, within_step
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.nightly.alerts import nightly_alert, send
from videomme_pipeline.project.nightly.tracked import NightlySpec, TrackedEvaluation
from videomme_pipeline.reports.markdown import in_markdown
from videomme_pipeline.scoring.nightly.assess import Assessment, NightlyFinding, write_findings
from videomme_pipeline.scoring.nightly.observation import ObservedQuestion
from videomme_pipeline.scoring.nightly.policy import RULE_VERSION, NightlyCheck, Severity
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.stages.facts import Markdown
from videomme_pipeline.storage.tables import read_rows

_LISTED_QUESTIONS = 50
_NEWEST = "newest"
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
    severities = tracked.nightly.alarm.severity.items()
    grouped = find_benchmark(tracked.benchmark.name).grouping is not None
    checks = [
        check
        for check, severity in severities
        if severity is not Severity.OFF and (grouped or check is not NightlyCheck.GROUP_SCORE)
    ]
    partitions = nightly_partitions(tracked.nightly)
    # Nightly runs that are backfilled together run in order, because each is compared with the
    # ones before.
    previous_run = dg.TimeWindowPartitionMapping(
        start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True
    )

    @dg.asset(
        key=key,
        description=f"Nightly runs of {evaluation.name}, one partition per day.",
        group_name=group_name(f"{tracked.project.runs.prefix}{tracked.benchmark.name}_nightly"),
        kinds={"parquet"},
        tags={"stage": "nightly_runs", "benchmark": group_name(tracked.benchmark.name)},
        owners=list(OWNERS),
        code_version=str(RULE_VERSION),
        partitions_def=partitions,
        required_resource_keys={SERVERS},
        metadata={"dagster/column_schema": column_schema(ObservedQuestion)},
        deps=[
            dg.AssetDep(key, partition_mapping=previous_run),
            dg.AssetDep(
                scores,
                partition_mapping=dg.SpecificPartitionsPartitionMapping([evaluation.name]),
            ),
        ],
        check_specs=[
            dg.AssetCheckSpec(
                check.value,
                asset=key,
                description=_DESCRIPTIONS[check],
                blocking=False,
                partitions_def=partitions,
            )
            for check in checks
        ]
        + [
            dg.AssetCheckSpec(
                _NEWEST, asset=key, description="The newest nightly run passed every check."
            )
        ],
    )
    def nightly_run(
        context: dg.AssetExecutionContext,
    ) -> Iterator[dg.MaterializeResult[Any]]:
        tracked.benchmark.invalidate()
        date = context.partition_key
        tracked.reference()  # raises an error before any request is sent
        with within_step(tracked.project, context, needs_machine=False):
            tracked.repeat_reference(date)
            rows = tracked.observe(date)
        assessment = tracked.assess(date)
        version = fingerprint(evaluation.fingerprint, date, len(rows))
        write_findings(tracked.project.store, tracked.benchmark.name, assessment, version)
        alert = nightly_alert(assessment, partition_url(key, date))
        if alert is not None:
            try:
                send(alert, tracked.project.runs.prefix)
            except VideoMMEError as error:
                context.log.warning(str(error))
        findings = {finding.check: finding for finding in assessment.findings}
        failed = findings.get(NightlyCheck.FAILED)
        if failed and not failed.passed:
            context.log.warning(failed.summary)
        yield dg.MaterializeResult(
            asset_key=key,
            metadata=_metadata(rows, assessment),
            data_version=dg.DataVersion(version),
            check_results=[
                *(_check_result(key, date, check, findings.get(check)) for check in checks),
                _newest_result(key, tracked),
            ],
        )
        if all(row.outcome is Outcome.FAILED for row in rows):
            raise dg.Failure(f"{evaluation.name}: {rows[0].error}", allow_retries=False)

    return nightly_run


def _check_result(
    key: dg.AssetKey, date: str, check: NightlyCheck, finding: NightlyFinding | None
) -> dg.AssetCheckResult:
    summary = finding.summary if finding else "does not apply to this benchmark"
    measures = rounded(finding.measures) | {"rule_version": RULE_VERSION} if finding else {}
    return dg.AssetCheckResult(
        passed=finding is None or finding.passed,
        asset_key=key,
        check_name=check.value,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{date}: {summary}",
        metadata=measures,
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


def _metadata(rows: Sequence[ObservedQuestion], assessment: Assessment) -> dict[str, Any]:
    """The numbers of a nightly run, which the UI plots over time."""
    outcomes = [row.outcome for row in rows]
    findings = (
        f"- **{finding.check.value}** {'passed' if finding.passed else 'FAILED'}: "
        f"{in_markdown(finding.summary)}"
        for finding in assessment.findings
    )
    compared, previous = assessment.against_reference, assessment.against_previous_run
    failed_checks = [finding.check.value for finding in assessment.findings if not finding.passed]
    answered = outcomes.count(Outcome.FAILED) < len(rows)
    metadata: dict[str, Any] = {
        "failed_checks": ", ".join(failed_checks) or "none",
        "alarms": len(failed_checks),
        "questions": len(rows),
        "videos": len({row.video_id for row in rows}),
        "unreadable": outcomes.count(Outcome.UNREADABLE),
        "failed": outcomes.count(Outcome.FAILED),
        "findings": Markdown("\n".join(findings)),
        "accuracy": fmean(row.is_correct for row in rows) if answered else None,
        "detectable_drop": assessment.detectable_drop,
        "difference_to_previous_run": previous and previous.accuracy.difference.mean,
        "latency_seconds": _aggregate(rows, "latency_seconds", median),
        "cost_dollars": _aggregate(rows, "cost_dollars", sum),
    }
    if compared:
        group_score = compared.group_score
        metadata |= {
            "difference_to_reference": compared.accuracy.difference.mean,
            "flip_rate": compared.flip_rate.mean,
            "group_score_difference": group_score and group_score.difference.mean,
            "lost": ", ".join(compared.lost[:_LISTED_QUESTIONS]) or None,
        }
    return metadata_of(rounded(metadata))


def _aggregate(
    rows: Sequence[ObservedQuestion], column: str, function: Callable[[Sequence[float]], float]
) -> float | None:
    """`function` of the reported values of a column, or None if there are none."""
    values = [value for row in rows if (value := getattr(row.served, column)) is not None]
    return function(values) if values else None
