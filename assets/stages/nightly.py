"""`<benchmark>/nights/<evaluation>`: a tracked evaluation, asked again night by night.

One asset a tracked evaluation with one partition a day, so that the plots of the Dagster UI show
its accuracy by night and its checks are its own. Each night is kept as a file of its own and
never asked twice. What a night means is decided in `scoring.nightly`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from statistics import fmean, median
from typing import Any, Self

import dagster as dg
from pydantic import Field, model_validator
from upath import UPath

from assets.errors import NotReadyError
from assets.resources import Benchmark, Project
from assets.stages.base import INCOMPLETE
from assets.stages.responses import ask, open_journal, requests_of
from videomme_pipeline.alerts import Alert, alert_urls, nightly_alert, send
from videomme_pipeline.benchmarks.subset import stratified_videos
from videomme_pipeline.configuration import parse_spec, read_yaml
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.evaluation import Configuration, Evaluation
from videomme_pipeline.fingerprint import Spec, fingerprint
from videomme_pipeline.responses.requests import VideoRequests
from videomme_pipeline.responses.response import Response, never_answered
from videomme_pipeline.scoring.nightly.assess import (
    Assessment,
    NightlyFinding,
    assess,
    detectable_drop,
)
from videomme_pipeline.scoring.nightly.findings import write_findings
from videomme_pipeline.scoring.nightly.observation import Observation, ObservedQuestion
from videomme_pipeline.scoring.nightly.policy import AlarmSpec, Severity
from videomme_pipeline.scoring.readers.judge import without_judge
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.store import read_rows, stored_fingerprint, write_rows

NIGHTLY_FILE = "nightly.yaml"
UI_VARIABLE = "VIDEOMME_UI"
_DEFAULT_UI = "http://localhost:3000"
_LISTED_QUESTIONS = 50
_SEVERITIES = {
    Severity.ERROR: dg.AssetCheckSeverity.ERROR,
    Severity.WARN: dg.AssetCheckSeverity.WARN,
}


class Tracked(Spec):
    """How one evaluation is followed."""

    videos: int | None = Field(default=None, ge=2)
    """Only so many videos, every stratum by its share and always the same; None: all."""
    baseline: date | None = None
    """The night that others are held against; None: the evaluation's ordinary scores."""


class NightlySpec(Spec):
    """What `nightly.yaml` says; without the file nothing is tracked."""

    cron: str = "0 2 * * *"
    timezone: str = "UTC"
    since: date | None = None
    """The first night there can be."""
    fresh_within_hours: float = Field(default=36.0, gt=0)
    """The leaderboard counts as old when it has not been made for so long."""
    evaluations: dict[str, Tracked] = Field(default_factory=dict)
    alarm: AlarmSpec = Field(default_factory=AlarmSpec)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        evaluations = given.get("evaluations")
        if not isinstance(evaluations, Mapping):
            return given
        return {**given, "evaluations": {name: held or {} for name, held in evaluations.items()}}

    @model_validator(mode="after")
    def _has_a_start(self) -> Self:
        if self.evaluations and self.since is None:
            raise ValueError("`since` is missing: the date of the first night")
        return self


def read_nightly(configuration: Configuration) -> NightlySpec:
    """What is tracked.

    Raises:
        ConfigurationError: when the file has mistakes or tracks an evaluation that is not there.
    """
    path = configuration.folder / NIGHTLY_FILE
    if not path.exists():
        return NightlySpec()
    spec = parse_spec(read_yaml(path), NightlySpec, str(path))
    for name in spec.evaluations:
        configuration.evaluation(name)
    return spec


@dataclass(frozen=True)
class TrackedEvaluation:
    """One tracked evaluation: asks its nights, and says what they mean."""

    benchmark: Benchmark
    evaluation: Evaluation
    nightly: NightlySpec

    @property
    def tracked(self) -> Tracked:
        return self.nightly.evaluations[self.evaluation.name]

    @property
    def asset_key(self) -> dg.AssetKey:
        return dg.AssetKey([self.benchmark.name, "nights", self.evaluation.name])

    @property
    def partitions_def(self) -> dg.DailyPartitionsDefinition:
        return nights_of(self.nightly)

    @cached_property
    def videos(self) -> tuple[str, ...]:
        """The videos that are asked about, the same every night."""
        questions = self.benchmark.questions
        if self.tracked.videos is None:
            return tuple(questions)
        return stratified_videos(questions, self.tracked.videos)

    def path(self, night: str) -> UPath:
        folder = self.benchmark.store.observations(self.benchmark.name, self.evaluation.name)
        return folder / f"{night}.parquet"

    def observe(self, night: str) -> list[ObservedQuestion]:
        """The rows of a night: stored ones, else asked now.

        Where questions failed, a second call asks those alone; answers are never replaced.
        """
        path = self.path(night)
        stored = stored_fingerprint(path)
        if stored is not None and not stored.endswith(INCOMPLETE):
            return read_rows(path, ObservedQuestion)
        rows = [ObservedQuestion.of(self._scored(response), night) for response in self._ask(night)]
        incomplete = any(row.outcome is Outcome.FAILED for row in rows)
        write_rows(
            path,
            rows,
            ObservedQuestion,
            fingerprint=fingerprint("night", self.evaluation.fingerprint, night, self.videos)
            + (INCOMPLETE if incomplete else ""),
            recipe=self.evaluation.specification,
        )
        return rows

    def assess(self, night: str) -> Assessment:
        """What a stored night means beside the baseline and the nights between.

        Raises:
            NotReadyError: when there is no baseline that was asked as the evaluation is now.
            ScoringError: when nothing can be compared.
        """
        rows = read_rows(self.path(night), ObservedQuestion)
        baseline = self.baseline()
        nights = [
            Observation(name=name, rows=held)
            for name in self._nights_before(night)
            if (held := read_rows(self.path(name), ObservedQuestion))
            and held[0].evaluation_fingerprint == rows[0].evaluation_fingerprint
        ]
        return assess(
            [baseline, *nights, Observation(name=night, rows=rows)],
            self.nightly.alarm,
            tracked=len(self.nightly.evaluations),
        )

    def baseline(self) -> Observation:
        """What nights are held against: the ordinary scores, or the night that is pinned.

        No judge is asked at night, so its letters do not count in the ordinary scores either.
        """
        name, evaluation = self.benchmark.name, self.evaluation
        pinned = self.tracked.baseline
        path = (
            self.benchmark.store.scores(name, evaluation.name)
            if pinned is None
            else self.path(pinned.isoformat())
        )
        try:
            held = read_rows(path, ScoredQuestion)
        except FileNotFoundError:
            raise NotReadyError(
                f"{evaluation.name}: its baseline is not there ({path}); "
                f"run it once: videomme run {evaluation.name}"
            ) from None
        rows = [without_judge(row) for row in held if row.video_id in set(self.videos)]
        if not rows or rows[0].evaluation_fingerprint != evaluation.fingerprint:
            raise NotReadyError(
                f"{evaluation.name}: its baseline was asked with other settings than it has now; "
                f"run it again (videomme run {evaluation.name}), or pin a night as `baseline`"
            )
        return Observation(name="baseline" if pinned is None else pinned.isoformat(), rows=rows)

    def _nights_before(self, night: str) -> list[str]:
        pinned = self.tracked.baseline
        first = "" if pinned is None else pinned.isoformat()
        folder = self.path(night).parent
        return sorted(path.stem for path in folder.glob("*.parquet") if first < path.stem < night)

    def _ask(self, night: str) -> Iterator[Response]:
        """One response to every question and sample; those without an answer say why."""
        evaluation, held = self.evaluation, dict[tuple[str, int], Response]()
        requests, reasons = self._requests()
        default = "never asked"
        try:
            with open_journal(self.benchmark, evaluation) as journal:
                for response in ask(self.benchmark, evaluation, requests, journal, night):
                    held[response.question_id, response.sample] = response
        except VideoMMEError as error:
            default = str(error)
        for video_id in self.videos:
            for question in self.benchmark.questions[video_id]:
                for sample in range(evaluation.samples):
                    yield held.get((question.question_id, sample)) or never_answered(
                        question,
                        evaluation=evaluation.name,
                        model=evaluation.model.name,
                        sample=sample,
                        error=reasons.get(video_id, default),
                    )

    def _requests(self) -> tuple[list[VideoRequests], dict[str, str]]:
        """What is asked, and why a video cannot be."""
        requests, reasons = [], {}
        for video_id in self.videos:
            try:
                requests.append(requests_of(self.benchmark, self.evaluation, video_id))
            except VideoMMEError as error:
                reasons[video_id] = str(error)
        return requests, reasons

    def _scored(self, response: Response) -> ScoredQuestion:
        questions = self.benchmark.questions[response.video_id]
        (question,) = (q for q in questions if q.question_id == response.question_id)
        return score_question(
            question,
            response,
            self.evaluation.reader,
            evaluation_fingerprint=self.evaluation.fingerprint,
            sampling=self.evaluation.sampling_name,
            track=self.evaluation.track,
        )


def nights_of(nightly: NightlySpec) -> dg.DailyPartitionsDefinition:
    """A partition a day from the first night up to today."""
    assert nightly.since is not None
    return dg.DailyPartitionsDefinition(
        start_date=nightly.since.isoformat(), timezone=nightly.timezone, end_offset=1
    )


def tracked_evaluations(project: Project) -> list[TrackedEvaluation]:
    """The evaluations that `nightly.yaml` names."""
    nightly = read_nightly(project.configuration)
    evaluations = [project.configuration.evaluation(name) for name in nightly.evaluations]
    return [
        TrackedEvaluation(
            benchmark=project.benchmarks[evaluation.benchmark],
            evaluation=evaluation,
            nightly=nightly,
        )
        for evaluation in evaluations
    ]


def night_asset(
    tracked: TrackedEvaluation,
    tell: Callable[[Alert], None] = lambda alert: send(alert, alert_urls(os.environ)),
) -> dg.AssetsDefinition:
    """The asset of a tracked evaluation, with a check for everything that is looked at."""
    key, evaluation = tracked.asset_key, tracked.evaluation
    scores = dg.AssetKey([tracked.benchmark.name, "scores"])
    severity = tracked.nightly.alarm.severity

    @dg.asset(
        key=key,
        description=f"{evaluation.name} asked again, one partition a night.",
        group_name=tracked.benchmark.name,
        kinds={"parquet"},
        partitions_def=tracked.partitions_def,
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
        tracked.benchmark.look_again()
        night = context.partition_key
        tracked.baseline()
        with tracked.benchmark.project.within(context, takes_machine=False):
            rows = tracked.observe(night)
        report = tracked.assess(night)
        version = fingerprint(evaluation.fingerprint, night, len(rows))
        write_findings(tracked.benchmark.store, tracked.benchmark.name, report, version)
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
    """The numbers of a night; numbers become plots over the nights in the UI."""
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
    values = [value for row in rows if (value := getattr(row, column)) is not None]
    return of(values) if values else None


def ui_address() -> str:
    """Where the Dagster UI is, for links: VIDEOMME_UI, else this machine."""
    return os.environ.get(UI_VARIABLE, _DEFAULT_UI).rstrip("/")


def _link(key: dg.AssetKey, night: str) -> str:
    return f"{ui_address()}/assets/{'/'.join(key.path)}?partition={night}"
