"""The assessment of a nightly run: the result of every applicable check, with a summary.

The statistics are in `alarm`, `marginals` and `compare`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from videomme_pipeline.errors import ScoringError, listed
from videomme_pipeline.rows import JsonMapping
from videomme_pipeline.scoring.nightly.alarm import (
    AlarmState,
    Counts,
    Mask,
    RunCounts,
    exchangeability_test,
    watch,
)
from videomme_pipeline.scoring.nightly.history import History, Observation, history_of
from videomme_pipeline.scoring.nightly.policy import (
    BUDGET_SHARES,
    RULE_VERSION,
    AlarmSpec,
    NightlyCheck,
    Severity,
)
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.scoring.statistics.compare import Comparison, compare
from videomme_pipeline.scoring.statistics.estimates import adjusted_p_values, p_value_text
from videomme_pipeline.scoring.statistics.power import detectable_difference
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows, write_rows

_NO_MEASURES = JsonMapping()


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyFinding:
    """The stored result of one check of one nightly run, with its numbers.

    `is_new` is True for a failure that the previous run did not have. `rule_version` is the version
    of the rules that decided it. Findings of older versions have no `measures`.
    """

    check: NightlyCheck
    severity: Severity
    passed: bool
    is_new: bool
    summary: str
    rule_version: int = RULE_VERSION
    measures: JsonMapping = _NO_MEASURES


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The results of all checks of one nightly run.

    The comparisons are this run minus the other one, or None if no question was answered in
    both. `detectable_drop` is the `detectable_difference` of such a run and the reference, at a
    level of 5%, which is less strict than that of an alarm.
    """

    evaluation: str
    date: str
    findings: tuple[NightlyFinding, ...]
    against_reference: Comparison | None
    against_previous_run: Comparison | None
    detectable_drop: float | None

    @property
    def new_findings(self) -> list[NightlyFinding]:
        return [finding for finding in self.findings if finding.is_new]


def write_findings(store: Store, benchmark: str, assessment: Assessment, fingerprint: str) -> None:
    """Store the findings of a nightly run under the fingerprint of its scores, or StorageError."""
    path = store.findings(benchmark, assessment.evaluation, assessment.date)
    write_rows(path, assessment.findings, NightlyFinding, fingerprint=fingerprint)


def read_findings(
    store: Store, benchmark: str, evaluation: str, date: str
) -> list[NightlyFinding] | None:
    """The stored findings of a nightly run, or None if the run was never assessed."""
    path = store.findings(benchmark, evaluation, date)
    return read_rows(path, NightlyFinding) if path.exists() else None


def assess(
    observations: Sequence[Observation], spec: AlarmSpec, *, tracked: int = 1, references: int = 1
) -> Assessment:
    """The assessment of the last of `observations`. The first `references` runs are references.

    All runs are compared with each other. "The reference" in a comparison is the first run.
    `tracked` is the number of evaluations that share the budget of false alarms. ScoringError if
    there is no reference with rows, or no nightly run.
    """
    history = history_of([observation.rows for observation in observations])
    reference, previous, current = observations[0], observations[-2], observations[-1]
    has_previous_run = len(observations) > references + 1
    against_reference = _compared(current, reference)
    budgets = runs_per_false_alarm(spec, history, tracked)
    dates = [observation.name for observation in observations]
    accuracy_states = watch_check(NightlyCheck.ACCURACY, history, budgets, references)
    findings: list[NightlyFinding] = []
    for check in NightlyCheck:
        if not _applies(check, spec, history):
            continue
        severity = spec.severity[check]
        if check is NightlyCheck.FAILED:
            result = _failed_requests(observations, spec.max_failed_rate)
        elif check is NightlyCheck.MARGINALS:
            result = _marginals(history, accuracy_states, budgets[check])
        else:
            states = accuracy_states
            if check is not NightlyCheck.ACCURACY:
                states = watch_check(check, history, budgets, references)
            state = states[-1]
            difference = _difference_text(check, against_reference)
            decision = f"{difference}. {_decision(check, history, state, dates, budgets[check])}"
            result = _test(check, history, state, decision)
        findings.append(NightlyFinding(check=check, severity=severity, **result._asdict()))
    return Assessment(
        evaluation=current.rows[0].evaluation if current.rows else reference.rows[0].evaluation,
        date=current.name,
        findings=tuple(findings),
        against_reference=against_reference,
        against_previous_run=_compared(current, previous) if has_previous_run else None,
        detectable_drop=detectable_difference(current.rows, reference.rows),
    )


def runs_per_false_alarm(
    spec: AlarmSpec, history: History, tracked: int = 1
) -> dict[NightlyCheck, float]:
    """The runs per false alarm allowed to each test so that all tests stay within the budget.

    Tests that do not apply or are `off` have no share. The accuracy test always has a threshold,
    because marginals use its pool.
    """
    applied = [check for check in BUDGET_SHARES if _applies(check, spec, history)]
    shares = sum(BUDGET_SHARES[check] for check in applied)
    return {
        check: spec.runs_per_false_alarm * tracked * max(1.0, shares / BUDGET_SHARES[check])
        for check in BUDGET_SHARES
    }


def watch_check(
    check: NightlyCheck,
    history: History,
    budgets: Mapping[NightlyCheck, float],
    references: int = 1,
) -> list[AlarmState]:
    """Alarm state of `check` after each nightly run. The reference has none.

    `budgets[check]` is the mean number of runs per false alarm.
    """
    return watch(*_measure(check, history), budgets[check], references=references)


def _applies(check: NightlyCheck, spec: AlarmSpec, history: History) -> bool:
    has_data = history.has_groups or check is not NightlyCheck.GROUP_SCORE
    return has_data and spec.severity[check] is not Severity.OFF


def _measure(check: NightlyCheck, history: History) -> tuple[RunCounts, Mask]:
    measures: dict[NightlyCheck, RunCounts] = {
        NightlyCheck.ACCURACY: history.wrong,
        NightlyCheck.GROUP_SCORE: history.missed_points,
        NightlyCheck.FLIPS: history.unusual,
        NightlyCheck.UNREADABLE: history.unreadable,
    }
    is_group_score = check is NightlyCheck.GROUP_SCORE
    return measures[check], history.whole_groups if is_group_score else history.complete


class _Result(NamedTuple):
    """The fields of a `NightlyFinding` that its check decides."""

    passed: bool
    is_new: bool
    summary: str
    measures: JsonMapping


def _test(check: NightlyCheck, history: History, state: AlarmState, decision: str) -> _Result:
    rates = _rates(check, history, [*state.pool, history.last_run])
    measures = {"p_value": state.p_value, "evidence": state.evidence, "alarm_at": state.alarm_at}
    summary = "no video was answered completely, so there is nothing to compare"
    if rates is not None:
        current, before = rates
        measures = {"current": current, "before": before} | measures
        measured = "unusual answers " if check is NightlyCheck.FLIPS else ""
        summary = f"{measured}{current:.1%}, in earlier runs {before:.1%}{decision}"
    return _Result(not state.in_alarm, state.is_new, summary, JsonMapping(measures))


def _decision(
    check: NightlyCheck, history: History, state: AlarmState, dates: Sequence[str], budget: float
) -> str:
    if state.since is None:
        return f"Within the noise (p {p_value_text(state.p_value)})"
    if not state.is_new:
        rates = _rates(check, history, [state.since, history.last_run])
        # Answers are unusual in comparison with the other runs of a pool.
        then = f" ({rates[1]:.1%} then)" if rates and check is not NightlyCheck.FLIPS else ""
        return f"The alarm since {dates[state.since]}{then} goes on until a run is as before"
    return (
        f"This is a real change since {dates[state.since]}: noise alone raises this alarm once in "
        f"{budget:,.0f} runs"
    )


def _difference_text(check: NightlyCheck, compared: Comparison | None) -> str:
    """The difference to the reference, for the checks of scores."""
    is_accuracy = check is NightlyCheck.ACCURACY
    if compared is None or not (is_accuracy or check is NightlyCheck.GROUP_SCORE):
        return ""
    paired, points = (compared.accuracy, 100) if is_accuracy else (compared.group_score, 1)
    estimate = paired.difference if paired else None
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return (
        f"; {estimate.mean * points:+.1f} points against the reference (95% CI "
        f"{estimate.low * points:+.1f} to {estimate.high * points:+.1f}, clustered by video)"
    )


def _marginals(history: History, accuracy_states: Sequence[AlarmState], budget: float) -> _Result:
    worse, is_new = worse_marginals(history, accuracy_states, history.last_run, budget)
    summary = "no part of the benchmark is worse beyond the noise"
    if worse:
        cells = [f"{t.column} {t.value} ({t.before:.1%} to {t.current:.1%})" for t in worse]
        summary = (
            f"worse in {listed(cells)}. This is a real change: noise alone causes this once in "
            f"{budget:,.0f} runs (Benjamini–Hochberg over all facets)"
        )
    return _Result(not worse, is_new, summary, JsonMapping({"worse_cells": float(len(worse))}))


def _failed_requests(observations: Sequence[Observation], limit: float) -> _Result:
    previous, current = (
        fmean(row.outcome is Outcome.FAILED for row in run.rows) if run.rows else None
        for run in observations[-2:]
    )
    passed = current is None or current <= limit
    summary = "the share of failed requests is unknown"
    if current is not None:
        summary = f"{current:.1%} of the questions got no answer (limit {limit:.1%})"
        errors = Counter(row.error for row in observations[-1].rows if row.error)
        if errors and not passed:
            summary += f": {errors.most_common(1)[0][0]}"
    is_new = not passed and (previous is None or previous <= limit)
    measures = {} if current is None else {"current": current, "limit": limit}
    return _Result(passed, is_new, summary, JsonMapping(measures))


def _rates(
    check: NightlyCheck, history: History, runs: Sequence[int]
) -> tuple[float, float] | None:
    """The rates (0 to 1) of the last run and of the earlier runs, or None if one has no videos."""
    measure, is_valid = _measure(check, history)
    per_video = history.answers.shape[1] / history.missed.shape[1]
    most = history.most_missed if check is NightlyCheck.GROUP_SCORE else per_video
    shares = _shares(measure(runs), is_valid[runs], most)
    is_score = check in (NightlyCheck.ACCURACY, NightlyCheck.GROUP_SCORE)
    return (1 - shares[0], 1 - shares[1]) if shares and is_score else shares


def _shares(counts: Counts, valid: Mask, most: float) -> tuple[float, float] | None:
    """The mean shares of `most` in the last row and in the others, or None if one has no video."""
    if not valid[-1].any() or not valid[:-1].any():
        return None
    current, before = counts[-1][valid[-1]], counts[:-1][valid[:-1]]
    return float(current.mean()) / most, float(before.mean()) / most


def _compared(current: Observation, other: Observation) -> Comparison | None:
    try:
        return compare(other.rows, current.rows)
    except ScoringError:
        return None


class MarginalTest(NamedTuple):
    """The test of one value of one facet in one run. The scores are fractions of 1.

    `p_value` has the Benjamini–Hochberg correction over all tests of the run.
    """

    column: str
    value: str
    current: float
    before: float
    p_value: float


def marginal_tests(history: History, pool: Sequence[int], run: int) -> list[MarginalTest]:
    """One test per value of each facet: is `run` worse than the runs of `pool`?

    As in `compare`, groups are compared if there are any, and questions otherwise.
    """
    runs = [*pool, run]
    cells = []
    for column, labels in history.labels.items():
        for value in sorted(set(labels.tolist()) - {""}):
            selected = labels == value
            videos = np.zeros(history.missed.shape[1], dtype=bool)
            videos[history.videos[selected]] = True
            if history.has_groups:
                counts, valid = history.missed_points(runs), history.whole_groups[runs] & videos
                most = float(history.most_missed)
            else:
                counts, valid = history.wrong(runs, selected), history.complete[runs] & videos
                most = float(selected.sum() / videos.sum())
            cells.append((column, value, counts, valid, most))
    p_values = [exchangeability_test(counts, valid).p_value for *_, counts, valid, _ in cells]
    adjusted = adjusted_p_values(p_values)
    return [
        MarginalTest(column, value, 1 - shares[0], 1 - shares[1], float(p_value))
        for (column, value, counts, valid, most), p_value in zip(cells, adjusted, strict=True)
        if (shares := _shares(counts, valid, most))
    ]


def worse_marginals(
    history: History, accuracy_states: Sequence[AlarmState], run: int, budget: float
) -> tuple[list[MarginalTest], bool]:
    """The significant tests of `run` by p-value, and True if one was not significant a run earlier.

    Each run is compared with the pool of the accuracy test (`accuracy_states`). A test is
    significant at a level of 1 / `budget`: noise alone causes one in `budget` runs.
    """

    def significant(run: int) -> list[MarginalTest]:
        tests = marginal_tests(history, accuracy_states[run - 1].pool, run)
        return sorted((t for t in tests if t.p_value <= 1 / budget), key=lambda test: test.p_value)

    worse = significant(run)
    earlier = significant(run - 1) if worse and run > 1 else []
    earlier_cells = {(test.column, test.value) for test in earlier}
    return worse, any((test.column, test.value) not in earlier_cells for test in worse)
