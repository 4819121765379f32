"""`<benchmark>/nights/<evaluation>`: a tracked evaluation, asked again every night.

There is one asset per tracked evaluation with one partition per day, so the plots of the Dagster
UI show its accuracy over time and it has checks of its own.
"""

import os
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any

import dagster as dg

from assets.step import within_step
from videomme_pipeline.alerts import Alert, alert_urls, nightly_alert, send
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.project.nightly import NightlySpec, TrackedEvaluation
from videomme_pipeline.scoring.nightly.assess import (
    Assessment,
    NightlyFinding,
    detectable_drop,
)
from videomme_pipeline.scoring.nightly.findings import write_findings
from videomme_pipeline.scoring.nightly.observation import ObservedQuestion
from videomme_pipeline.scoring.nightly.policy import Severity
from videomme_pipeline.scoring.scored_question import Outcome

UI_VARIABLE = "VIDEOMME_UI"
_DEFAULT_UI = "http://localhost:3000"
_LISTED_QUESTIONS = 50
_SEVERITIES = {
    Severity.ERROR: dg.AssetCheckSeverity.ERROR,
    Severity.WARN: dg.AssetCheckSeverity.WARN,
}


def nightly_key(tracked: TrackedEvaluation) -> dg.AssetKey:
    """The asset key of a tracked evaluation's nightly runs."""
    return dg.AssetKey([tracked.benchmark.name, "nights", tracked.evaluation.name])


def nightly_partitions(nightly: NightlySpec) -> dg.DailyPartitionsDefinition:
    """One partition per day, from `since` to today."""
    assert nightly.since is not None, "something is tracked, so there is a first night"
    return dg.DailyPartitionsDefinition(
        start_date=nightly.since.isoformat(), timezone=nightly.timezone, end_offset=1
    )


def night_asset(
    tracked: TrackedEvaluation,
    tell: Callable[[Alert], None] = lambda alert: send(alert, alert_urls(os.environ)),
) -> dg.AssetsDefinition:
    """The asset of a tracked evaluation, with one check per decision rule."""
    key, evaluation = nightly_key(tracked), tracked.evaluation
    scores = dg.AssetKey([tracked.benchmark.name, "scores"])
    severity = tracked.nightly.alarm.severity

    @dg.asset(
        key=key,
        description=f"{evaluation.name} asked again, one partition per night.",
        group_name=tracked.benchmark.name,
        kinds={"parquet"},
        partitions_def=nightly_partitions(tracked.nightly),
        deps=[
            dg.AssetDep(
                scores,
                partition_mapping=dg.SpecificPartitionsPartitionMapping([evaluation.name]),
            )
        ],
        check_specs=[
            dg.AssetCheckSpec(check.value, asset=key, blocking=False)
            for check, strictness in severity.items()
            if strictness is not Severity.OFF
        ],
    )
    def nights(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]
        tracked.benchmark.invalidate()
        night = context.partition_key
        tracked.baseline()  # raises before anything is asked
        with within_step(tracked.project, context, takes_machine=False):
            rows = tracked.observe(night)
        report = tracked.assess(night)
        version = fingerprint(evaluation.fingerprint, night, len(rows))
        write_findings(tracked.project.store, tracked.benchmark.name, report, version)
        alert = nightly_alert(report, _link(key, night))
        if alert is not None:
            try:
                tell(alert)
            except VideoMMEError as error:
                context.log.warning(str(error))
        found = {finding.check: finding for finding in report.findings}
        return dg.MaterializeResult(
            asset_key=key,
            metadata=_metadata(rows, report),
            data_version=dg.DataVersion(version),
            check_results=[
                _check_result(key, check.value, found.get(check))
                for check, strictness in severity.items()
                if strictness is not Severity.OFF
            ],
        )

    return nights


def _check_result(
    key: dg.AssetKey, name: str, finding: NightlyFinding | None
) -> dg.AssetCheckResult:
    if finding is None:
        return dg.AssetCheckResult(
            passed=True,
            asset_key=key,
            check_name=name,
            description="does not apply to this benchmark",
        )
    return dg.AssetCheckResult(
        passed=finding.passed,
        asset_key=key,
        check_name=name,
        severity=_SEVERITIES[finding.severity],
        description=finding.summary,
        metadata=dict(finding.measures),
    )


def _metadata(rows: Sequence[ObservedQuestion], report: Assessment) -> dict[str, Any]:
    """The numbers of a nightly run, which the UI plots over time."""
    outcomes = [row.outcome for row in rows]
    metadata: dict[str, Any] = {
        "questions": len(rows),
        "videos": len({row.video_id for row in rows}),
        "accuracy": fmean(row.is_correct for row in rows),
        "unreadable": outcomes.count(Outcome.UNREADABLE),
        "failed": outcomes.count(Outcome.FAILED),
        "findings": dg.MetadataValue.md(
            "\n".join(
                f"- **{finding.check.value}** {'holds' if finding.passed else 'FAILED'}: "
                f"{finding.summary}"
                for finding in report.findings
            )
        ),
    }
    drop = detectable_drop(rows) if report.detectable_drop is None else report.detectable_drop
    compared = report.against_baseline
    known: dict[str, Any] = {
        "detectable_drop": drop,
        "difference_to_baseline": compared and compared.accuracy.difference.mean,
        "flip_rate": compared and compared.flip_rate.mean,
        "group_score_difference": compared
        and compared.group_score
        and compared.group_score.difference.mean,
        "difference_to_last_night": report.against_last_night
        and report.against_last_night.accuracy.difference.mean,
        "latency_seconds": _over(rows, "latency_seconds", median),
        "cost_dollars": _over(rows, "cost_dollars", sum),
        "lost": compared and ", ".join(compared.lost[:_LISTED_QUESTIONS]),
    }
    return metadata | {name: value for name, value in known.items() if value is not None}


def _over(
    rows: Sequence[ObservedQuestion], column: str, of: Callable[[Sequence[float]], float]
) -> float | None:
    values = [value for row in rows if (value := getattr(row.served, column)) is not None]
    return of(values) if values else None


def ui_address() -> str:
    """URL of the Dagster UI, for links: VIDEOMME_UI, or this machine."""
    return os.environ.get(UI_VARIABLE, _DEFAULT_UI).rstrip("/")


def _link(key: dg.AssetKey, night: str) -> str:
    return f"{ui_address()}/assets/{'/'.join(key.path)}?partition={night}"
