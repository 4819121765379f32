"""Nightly runs on the page: scores, findings and changed answers.

The view `accuracy_by_nightly_run` has the accuracies; `scoring.nightly` stored the findings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.reports.comparisons import overall_difference
from videomme_pipeline.reports.document import shorten
from videomme_pipeline.reports.json_values import Json, rounded
from videomme_pipeline.reports.numbers import answer_cells
from videomme_pipeline.reports.stored import ScoredEvaluation
from videomme_pipeline.scoring.nightly.findings import read_findings
from videomme_pipeline.scoring.nightly.policy import NightlyCheck
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import group_breakdowns
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import read_rows


def history(
    store: Store,
    benchmark: str,
    evaluations: Sequence[ScoredEvaluation],
    nightly_runs: Sequence[Mapping[str, Any]],
) -> list[Json]:
    """One entry per row of `nightly_runs` (from `accuracy_by_nightly_run`), oldest first.

    `value` is the group score if there is one, else the accuracy, with failed questions counted
    as wrong as in every other score. `findings` are the failed checks, or None if the nightly run
    was never assessed.
    """
    indexes = {evaluation.name: index for index, evaluation in enumerate(evaluations)}
    return [
        {
            "evaluation": indexes[row["evaluation"]],
            "date": row["observation"],
            "n": row["responses"],
            "unreadable": row["unreadable"],
            "failed": row["failed"],
            "value": rounded(row["accuracy"]),
            "low": rounded(row["accuracy_low"]),
            "high": rounded(row["accuracy_high"]),
        }
        | _group_score(
            store, benchmark, evaluations[indexes[row["evaluation"]]], row["observation"]
        )
        | {"findings": _findings(store, benchmark, row["evaluation"], row["observation"])}
        for row in nightly_runs
    ]


class LastRuns:
    """The last nightly run of each evaluation, compared with the previous run.

    A first nightly run is compared with the scores of the evaluation.
    """

    def __init__(
        self,
        store: Store,
        benchmark: str,
        questions: Sequence[Question],
        evaluations: Sequence[ScoredEvaluation],
    ) -> None:
        self._questions = questions
        self._pairs = [
            pair
            for index, evaluation in enumerate(evaluations)
            if (pair := _last_pair(store, benchmark, index, evaluation)) is not None
        ]

    def numbers(self) -> list[Json]:
        """Dates, paired difference, assessment and outcomes of each question, by evaluation."""
        return [
            {
                "evaluation": pair.evaluation,
                "date": pair.date,
                "before_date": pair.before_date,
                "before": answer_cells(self._questions, pair.before),
                "after": answer_cells(self._questions, pair.after),
                "overall": _difference(pair),
                "assessment": pair.assessment,
            }
            for pair in self._pairs
        ]

    def texts(self, limit: int | None) -> list[dict[str, list[Any]]]:
        """The two responses to each changed question, by evaluation, in the order of `numbers`."""
        return [_changed_texts(pair, limit) for pair in self._pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two sets of scores. `before_date` is None for the scores of the evaluation itself.

    `assessment` is the summary of the nightly check of the score, or None if the run was never
    assessed.
    """

    evaluation: int
    date: str
    before_date: str | None
    before: Sequence[ScoredQuestion]
    after: Sequence[ScoredQuestion]
    assessment: str | None


def _last_pair(
    store: Store, benchmark: str, index: int, evaluation: ScoredEvaluation
) -> _Pair | None:
    files = store.observation_files(benchmark, evaluation.name)
    if not files:
        return None
    before = read_rows(files[-2], ScoredQuestion) if len(files) > 1 else evaluation.rows
    date = files[-1].stem
    findings = read_findings(store, benchmark, evaluation.name, date) or []
    summaries = {finding.check: finding.summary for finding in findings}
    return _Pair(
        evaluation=index,
        date=date,
        before_date=files[-2].stem if len(files) > 1 else None,
        before=before,
        after=read_rows(files[-1], ScoredQuestion),
        assessment=summaries.get(NightlyCheck.GROUP_SCORE, summaries.get(NightlyCheck.ACCURACY)),
    )


def _difference(pair: _Pair) -> Json | None:
    """After minus before, or None if no question was answered in both runs."""
    try:
        return overall_difference(compare(pair.before, pair.after))
    except ScoringError:
        return None


def _changed_texts(pair: _Pair, limit: int | None) -> dict[str, list[Any]]:
    before = {(row.question_id, row.repeat): row for row in pair.before}
    changed: dict[str, list[Any]] = {}
    for row in pair.after:
        old = before.get((row.question_id, row.repeat))
        if old is not None and _result(old) != _result(row):
            changed.setdefault(row.question_id, [_response(old, limit), _response(row, limit)])
    return changed


def _result(row: ScoredQuestion) -> tuple[str, str | None]:
    return row.outcome.value, row.extracted_answer


def _response(row: ScoredQuestion, limit: int | None) -> Any:
    text = row.error if row.raw_output is None else row.raw_output
    return None if text is None else shorten(text, limit)


def _group_score(store: Store, benchmark: str, evaluation: ScoredEvaluation, date: str) -> Json:
    """Values that replace the accuracy of a nightly run if the benchmark has groups."""
    if find_benchmark(benchmark).grouping is None:
        return {}
    path = store.observation(benchmark, evaluation.name, date)
    breakdowns, _, _ = group_breakdowns(find_benchmark(benchmark), read_rows(path, ScoredQuestion))
    (group,) = breakdowns["group_score_overall"]
    return {
        "n": group.groups,
        "value": rounded(group.group_score, 100),
        "low": rounded(group.group_score_low, 100),
        "high": rounded(group.group_score_high, 100),
    }


def _findings(store: Store, benchmark: str, evaluation: str, date: str) -> list[Json] | None:
    findings = read_findings(store, benchmark, evaluation, date)
    if findings is None:
        return None
    return [
        {
            "check": finding.check.replace("_", " "),
            "severity": finding.severity,
            "new": finding.is_new,
            "summary": finding.summary,
        }
        for finding in findings
        if not finding.passed
    ]
