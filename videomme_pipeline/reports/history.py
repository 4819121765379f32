"""Nightly runs, checkpoints and races on the page: scores, findings and changed answers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.reports.comparisons import overall_difference
from videomme_pipeline.reports.document import Json, shorten
from videomme_pipeline.reports.numbers import Numbers, answer_cells, interval
from videomme_pipeline.reports.stored import ScoredEvaluation
from videomme_pipeline.scoring.nightly.assess import read_findings
from videomme_pipeline.scoring.nightly.policy import NightlyCheck
from videomme_pipeline.scoring.scored_question import ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import group_breakdowns
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.names import record_of
from videomme_pipeline.storage.tables import read_rows


def history(store: Store, numbers: Numbers) -> list[Json]:
    """One entry per row of the view `accuracy_by_nightly_run`, oldest first.

    `value` is the group score if there is one, else the accuracy, with failed questions counted as
    wrong as in every score. `findings` are the failed checks, or None before an assessment.
    """
    return [
        {
            "evaluation": numbers.index[row["evaluation"]],
            "date": row["observation"],
            "n": row["responses"],
            "unreadable": row["unreadable"],
            "failed": row["failed"],
            **interval(row, "accuracy"),
            **_group_score(store, row),
            "findings": _findings(store, row),
        }
        for row in numbers.view("accuracy_by_nightly_run")
    ]


def checkpoint_points(numbers: Numbers) -> list[Json]:
    """One entry per row of the view `accuracy_by_checkpoint`, by run and step."""
    names = ("run", "step", "template", "outcome", "reason", "failed")
    checkpoints = numbers.view("accuracy_by_checkpoint")
    return [
        {
            **{name: row[name] for name in names},
            "evaluation": numbers.index[row["evaluation"]],
            "n": row["responses"],
            **interval(row, "score"),
            "difference": _fraction(row["difference"]),
        }
        for row in sorted(checkpoints, key=itemgetter("run", "template", "step"))
    ]


def race_looks(numbers: Numbers) -> list[Json]:
    """One entry per row of the table `races`, by race and videos. Differences are fractions."""
    names = ("baseline", "candidate", "videos", "all_videos", "questions", "failed", "p_value")
    return [
        {
            **{name: row[name] for name in (*names, "verdict", "stop")},
            "difference": _fraction(row["difference"]),
            "low": _fraction(row["difference_low"]),
            "high": _fraction(row["difference_high"]),
            "boundary": _fraction(row["boundary"]),
            "margin": _fraction(row["margin"]),
        }
        for row in sorted(numbers.view("races"), key=itemgetter("baseline", "candidate", "videos"))
    ]


def _fraction(points: float | None) -> float | None:
    return None if points is None else points / 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The last nightly run of an evaluation, compared with the previous run.

    A first nightly run is compared with the scores of the evaluation; `before_date` is then None.
    `assessment` is the summary of the nightly check of the score, or None before there is one.
    """

    evaluation: int
    date: str
    before_date: str | None
    before: Sequence[ScoredQuestion]
    after: Sequence[ScoredQuestion]
    assessment: str | None

    def numbers(self, questions: Sequence[Question]) -> Json:
        """Dates, paired difference, assessment, and outcomes of each of `questions`.

        The difference is None if no question was answered in both runs.
        """
        try:
            overall = overall_difference(compare(self.before, self.after))
        except ScoringError:
            overall = None
        return {
            "evaluation": self.evaluation,
            "date": self.date,
            "before_date": self.before_date,
            "before": answer_cells(questions, self.before),
            "after": answer_cells(questions, self.after),
            "overall": overall,
            "assessment": self.assessment,
        }

    def texts(self, *, is_short: bool) -> dict[str, list[Any]]:
        """The two responses to each changed question, by its id."""
        before = {(row.question_id, row.repeat): row for row in self.before}
        changed: dict[str, list[Any]] = {}
        for row in self.after:
            old = before.get((row.question_id, row.repeat))
            if old is not None and _result(old) != _result(row):
                responses = [_response(old, is_short=is_short), _response(row, is_short=is_short)]
                changed.setdefault(row.question_id, responses)
        return changed


def last_runs(
    store: Store, benchmark: str, evaluations: Sequence[ScoredEvaluation]
) -> list[LastRun]:
    """The last nightly runs of the evaluations that have one."""
    runs = []
    for index, evaluation in enumerate(evaluations):
        files = store.observation_files(benchmark, evaluation.name)
        if not files:
            continue
        last, previous = files[-1], files[-2] if len(files) > 1 else None
        findings = read_findings(store, benchmark, evaluation.name, record_of(last)) or []
        summaries = {finding.check: finding.summary for finding in findings}
        accuracy = summaries.get(NightlyCheck.ACCURACY)
        runs.append(
            LastRun(
                evaluation=index,
                date=record_of(last),
                before_date=record_of(previous) if previous else None,
                before=read_rows(previous, ScoredQuestion) if previous else evaluation.rows,
                after=read_rows(last, ScoredQuestion),
                assessment=summaries.get(NightlyCheck.GROUP_SCORE, accuracy),
            )
        )
    return runs


def _result(row: ScoredQuestion) -> tuple[str, str | None]:
    return row.outcome.value, row.extracted_answer


def _response(row: ScoredQuestion, *, is_short: bool) -> Any:
    text = row.error if row.raw_output is None else row.raw_output
    return shorten(text) if text and is_short else text


def _group_score(store: Store, row: Mapping[str, Any]) -> Json:
    """Values that replace the accuracy of a nightly run if the benchmark has groups."""
    benchmark = find_benchmark(row["benchmark"])
    if benchmark.grouping is None:
        return {}
    path = store.observation(benchmark.name, row["evaluation"], row["observation"])
    breakdowns, _, _ = group_breakdowns(benchmark, read_rows(path, ScoredQuestion))
    (group,) = breakdowns["group_score_overall"]
    return {"n": group.groups, **interval(asdict(group), "group_score")}


def _findings(store: Store, row: Mapping[str, Any]) -> list[Json] | None:
    findings = read_findings(store, row["benchmark"], row["evaluation"], row["observation"])
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
