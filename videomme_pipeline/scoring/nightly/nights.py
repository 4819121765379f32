"""One night of a tracked evaluation: what is checked, how strictly, and what is said about it.

The statistics are those of `alarm` and `compare`; here they become findings that a person can
act on. Who asks the questions and where findings go is not known here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from statistics import fmean, median
from typing import Any

from pydantic import Field, field_validator

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.scoring.nightly.alarm import (
    Cell,
    Counts,
    Held,
    History,
    Measure,
    Night,
    history_of,
    threshold_for,
    watch,
    worse_cells,
)
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.compare import Comparison, compare
from videomme_pipeline.scoring.statistics.estimates import (
    PairedDifference,
    minimal_detectable_effect,
)


class NightCheck(StrEnum):
    """What is looked at every night."""

    ACCURACY = "accuracy"
    GROUP_SCORE = "group_score"
    """v2 alone."""
    MARGINALS = "marginals"
    """Every cell of every breakdown, by Benjamini–Hochberg."""
    FLIPS = "flips"
    """Answers that are not the usual ones, right or wrong: another model behind the name."""
    UNREADABLE = "unreadable"
    FAILED = "failed"
    LATENCY = "latency"
    COST = "cost"


class Severity(StrEnum):
    """What a check that does not hold means."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


SHARING_THE_BUDGET = (
    NightCheck.ACCURACY,
    NightCheck.GROUP_SCORE,
    NightCheck.MARGINALS,
    NightCheck.FLIPS,
    NightCheck.UNREADABLE,
)
"""The tests. The other checks are plain limits: they have no chance of their own."""

_SEVERITY = dict.fromkeys(NightCheck, Severity.ERROR) | dict.fromkeys(
    (NightCheck.FLIPS, NightCheck.LATENCY, NightCheck.COST), Severity.WARN
)

_NOT_KNOWN_DISCORDANCE = 0.25
_NAMED_CELLS = 5


class AlarmSpec(Spec):
    """How strictly nights are judged."""

    nights_per_false_alarm: float = Field(default=60.0, ge=2)
    """The budget of all tests of all tracked evaluations together, which they share evenly."""
    severity: dict[NightCheck, Severity] = Field(default_factory=dict, validate_default=True)
    """By check; a check that is `off` leaves its share of the budget to the others."""
    max_failed_rate: float = Field(default=0.02, ge=0, le=1)
    max_latency_ratio: float = Field(default=2.0, gt=0)
    """Median seconds of a request, as a multiple of the baseline's."""
    max_cost_ratio: float = Field(default=1.5, gt=0)
    """Dollars per question, as a multiple of the baseline's."""

    @field_validator("severity")
    @classmethod
    def _all_named(cls, given: dict[NightCheck, Severity]) -> dict[NightCheck, Severity]:
        return _SEVERITY | given


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedQuestion(ScoredQuestion):
    """A scored question as it came out in one night: `observation` is its date."""

    observation: str

    @classmethod
    def of(cls, row: ScoredQuestion, observation: str) -> "ObservedQuestion":
        # Not `asdict`: a row holds no nested rows, and 2,700 deep copies take seconds.
        held: dict[str, Any] = {
            field.name: getattr(row, field.name) for field in fields(ScoredQuestion)
        }
        return cls(**held, observation=observation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All rows of one asking: the baseline or a night."""

    name: str
    rows: Sequence[ScoredQuestion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check of one night. `is_new` marks the first night of what it found."""

    check: NightCheck
    severity: Severity
    passed: bool
    is_new: bool
    summary: str
    measures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """Everything that is said about one night.

    The comparisons are tonight minus the other; None where no question was answered in both.
    `detectable_drop` is the drop that a comparison of two such nights finds with 80 % power at
    5 %.
    """

    evaluation: str
    date: str
    findings: tuple[Finding, ...]
    against_baseline: Comparison | None
    against_last_night: Comparison | None
    detectable_drop: float | None

    @property
    def news(self) -> list[Finding]:
        """What was found for the first time tonight."""
        return [finding for finding in self.findings if finding.is_new]


def judge(observations: Sequence[Observation], spec: AlarmSpec, *, tracked: int = 1) -> NightReport:
    """What is to be said about the last of `observations`; the first is the baseline.

    `tracked` evaluations share the budget of false alarms.

    Raises:
        ScoringError: when there is no baseline with rows, or no night.
    """
    if len(observations) < 2:
        raise ScoringError("a night needs a baseline before it; run the evaluation first")
    baseline, last, tonight = observations[0], observations[-2], observations[-1]
    history = history_of([observation.rows for observation in observations])
    against_baseline = _compared(tonight, baseline)
    nights = nights_for_each(spec, history, tracked)
    dates = [observation.name for observation in observations]
    by_accuracy = watch_test(NightCheck.ACCURACY, history, nights)
    findings: list[Finding] = []
    for check in NightCheck:
        if not _applies(check, spec, history):
            continue
        if check is NightCheck.MARGINALS:
            findings.append(_of_marginals(history, by_accuracy, nights, spec.severity[check]))
        elif check in SHARING_THE_BUDGET:
            watched = (
                by_accuracy if check is NightCheck.ACCURACY else watch_test(check, history, nights)
            )
            findings.append(
                _of_test(check, history, watched, nights, dates, against_baseline, spec)
            )
        else:
            findings.append(_of_limit(check, observations, spec))
    return NightReport(
        evaluation=tonight.rows[0].evaluation if tonight.rows else baseline.rows[0].evaluation,
        date=tonight.name,
        findings=tuple(findings),
        against_baseline=against_baseline,
        against_last_night=None if len(observations) == 2 else _compared(tonight, last),
        detectable_drop=detectable_drop(tonight.rows, against_baseline),
    )


def detectable_drop(
    rows: Sequence[ScoredQuestion], compared: Comparison | None = None
) -> float | None:
    """The drop that a comparison of two such nights finds; None for a single video.

    How often an answer turns from right to wrong or back is taken from `compared`, else 0.25.
    """
    videos = len({row.video_id for row in rows})
    if videos < 2:
        return None
    discordance = _NOT_KNOWN_DISCORDANCE
    if compared is not None:
        changed = len(compared.won) + len(compared.lost)
        discordance = max(1, changed) / compared.accuracy.difference.values
    return minimal_detectable_effect(questions=len(rows), videos=videos, discordance=discordance)


def nights_for_each(spec: AlarmSpec, history: History, tracked: int = 1) -> float:
    """Every how many nights each test may alarm by chance, for all to keep the budget together."""
    tests = [check for check in SHARING_THE_BUDGET if _applies(check, spec, history)]
    return spec.nights_per_false_alarm * max(1, len(tests)) * tracked


def watch_test(check: NightCheck, history: History, nights: float) -> list[Night]:
    """Every night as one test sees it that may alarm by chance once in so many `nights`."""
    return watch(*_measure(check, history), threshold_for(nights))


def new_worse_cells(
    history: History, by_accuracy: Sequence[Night], row: int, nights: float
) -> tuple[list[Cell], bool]:
    """The marginals that are worse on the night in `row`, most certain first, and whether any
    was not on the night before.

    Cells are held against the reference that accuracy (`by_accuracy`) is held against.
    """
    worse = _worse(history, by_accuracy, row, nights)
    known: set[tuple[str, str]] = set()
    if worse and row > 1:
        known = {(c.column, c.value) for c in _worse(history, by_accuracy, row - 1, nights)}
    return worse, any((cell.column, cell.value) not in known for cell in worse)


def _worse(history: History, by_accuracy: Sequence[Night], row: int, nights: float) -> list[Cell]:
    cells = worse_cells(history, by_accuracy[row - 1].reference, row, 1 / nights)
    return sorted((c for c in cells if c.significant), key=lambda cell: cell.adjusted_p_value)


def _applies(check: NightCheck, spec: AlarmSpec, history: History) -> bool:
    if check is NightCheck.GROUP_SCORE and not history.has_groups:
        return False
    return spec.severity[check] is not Severity.OFF


def _measure(check: NightCheck, history: History) -> tuple[Measure, Held]:
    measures: dict[NightCheck, Measure] = {
        NightCheck.ACCURACY: history.wrong,
        NightCheck.GROUP_SCORE: history.missed_points,
        NightCheck.FLIPS: history.unusual,
        NightCheck.UNREADABLE: history.unreadable,
    }
    held = history.whole if check is NightCheck.GROUP_SCORE else history.held
    return measures[check], held


def _of_test(  # noqa: PLR0913, PLR0917 - what a finding says comes from all of these
    check: NightCheck,
    history: History,
    nights: Sequence[Night],
    budget_nights: float,
    dates: Sequence[str],
    compared: Comparison | None,
    spec: AlarmSpec,
) -> Finding:
    night, row = nights[-1], len(nights)
    measure, held = _measure(check, history)
    rows = [*night.reference, row]
    tonight, before = _rates(measure(rows), held[rows], history, check)
    summary = f"{_TITLES[check]} {tonight:.1%} against {before:.1%} in the observations before"
    difference = _difference(check, compared)
    if difference is not None and difference.difference.low is not None:
        unit = 100 if check is NightCheck.ACCURACY else 1
        estimate = difference.difference
        summary += (
            f"; {estimate.mean * unit:+.1f} points against the baseline (95 % interval "
            f"{estimate.low * unit:+.1f} to {estimate.high * unit:+.1f}, clustered by video)"
            if estimate.low is not None and estimate.high is not None
            else ""
        )
    if night.in_alarm:
        since = dates[night.since] if night.since is not None else dates[row]
        summary += (
            f". This is real, since {since}: noise alone raises this alarm once in "
            f"{budget_nights:,.0f} nights"
        )
    else:
        summary += f". Within the noise (p = {night.p_value:.3f})"
    return Finding(
        check=check,
        severity=spec.severity[check],
        passed=not night.in_alarm,
        is_new=night.is_new,
        summary=summary,
        measures={
            "tonight": tonight,
            "before": before,
            "p_value": night.p_value,
            "evidence": night.evidence,
            "alarm_at": threshold_for(budget_nights),
        },
    )


def _of_marginals(
    history: History, by_accuracy: Sequence[Night], budget_nights: float, severity: Severity
) -> Finding:
    worse, is_new = new_worse_cells(history, by_accuracy, len(by_accuracy), budget_nights)
    named = ", ".join(
        f"{c.column} {c.value} ({c.before:.1%} to {c.tonight:.1%})" for c in worse[:_NAMED_CELLS]
    )
    more = f" and {len(worse) - _NAMED_CELLS} more" if len(worse) > _NAMED_CELLS else ""
    return Finding(
        check=NightCheck.MARGINALS,
        severity=severity,
        passed=not worse,
        is_new=is_new,
        summary=(
            f"worse in {named}{more}. This is real: noise alone names a cell once in "
            f"{budget_nights:,.0f} nights (Benjamini–Hochberg over all cells)"
            if worse
            else "no domain, category, task or duration is worse beyond the noise"
        ),
        measures={"worse_cells": float(len(worse))},
    )


def _of_limit(check: NightCheck, observations: Sequence[Observation], spec: AlarmSpec) -> Finding:
    limits = {
        NightCheck.FAILED: spec.max_failed_rate,
        NightCheck.LATENCY: spec.max_latency_ratio,
        NightCheck.COST: spec.max_cost_ratio,
    }
    limit = limits[check]
    tonight, last = (_limited(check, observations, place) for place in (-1, -2))
    passed = tonight is None or tonight <= limit
    if tonight is None:
        summary = f"{_TITLES[check]} is not known"
    elif check is NightCheck.FAILED:
        summary = f"{tonight:.1%} of the questions got no answer (at most {limit:.1%} may)"
    else:
        summary = f"{_TITLES[check]} is {tonight:.2f} times the baseline's (at most {limit:g})"
    return Finding(
        check=check,
        severity=spec.severity[check],
        passed=passed,
        is_new=not passed and (last is None or last <= limit),
        summary=summary,
        measures={} if tonight is None else {"tonight": tonight, "limit": limit},
    )


def _limited(check: NightCheck, observations: Sequence[Observation], place: int) -> float | None:
    rows, baseline = observations[place].rows, observations[0].rows
    if check is NightCheck.FAILED:
        return fmean(row.outcome is Outcome.FAILED for row in rows) if rows else None
    column = "latency_seconds" if check is NightCheck.LATENCY else "cost_dollars"
    middle = median if check is NightCheck.LATENCY else fmean
    values, usual = (
        [value for row in held if (value := getattr(row, column)) is not None]
        for held in (rows, baseline)
    )
    if not values or not usual or not middle(usual):
        return None
    return middle(values) / middle(usual)


def _rates(counts: Counts, held: Held, history: History, check: NightCheck) -> tuple[float, float]:
    """The rate of tonight and of the observations before, as shares of 1."""
    per_video = history.answers.shape[1] / history.missed.shape[1]
    most = 240.0 if check is NightCheck.GROUP_SCORE else per_video
    tonight, before = (
        float(counts[part][held[part]].mean()) / most if held[part].any() else 0.0
        for part in (slice(-1, None), slice(None, -1))
    )
    if check in (NightCheck.ACCURACY, NightCheck.GROUP_SCORE):
        return 1 - tonight, 1 - before
    return tonight, before


def _difference(check: NightCheck, compared: Comparison | None) -> PairedDifference | None:
    if compared is None:
        return None
    if check is NightCheck.ACCURACY:
        return compared.accuracy
    return compared.group_score if check is NightCheck.GROUP_SCORE else None


def _compared(tonight: Observation, other: Observation) -> Comparison | None:
    try:
        return compare(tonight.rows, other.rows)
    except ScoringError:
        return None


_TITLES: Mapping[NightCheck, str] = {
    NightCheck.ACCURACY: "accuracy",
    NightCheck.GROUP_SCORE: "group score",
    NightCheck.FLIPS: "answers that are not the usual ones:",
    NightCheck.UNREADABLE: "unreadable answers:",
    NightCheck.FAILED: "the share of failed requests",
    NightCheck.LATENCY: "the median latency",
    NightCheck.COST: "the cost of a question",
}
