"""`scores`: the letter read from each response, and the outcome."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, TypeAlias

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import NEEDS_VIDEO, Measure
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.judge.judge import summarize_judge
from videomme_pipeline.project.answers.scores import (
    evaluated_videos,
    needs_video,
    score_evaluation,
    with_needs_video,
)
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, VariantPartition
from videomme_pipeline.reports.terminal.tables import at_least, interval, percent
from videomme_pipeline.scoring.readers.read_answer import READERS
from videomme_pipeline.scoring.scored_question import EvaluatedVideo, Outcome, ScoredQuestion
from videomme_pipeline.stages import stage as stages
from videomme_pipeline.stages.facts import chart_picture
from videomme_pipeline.storage.tables import read_rows

_Part: TypeAlias = Mapping[str, Any]
"""One row of one breakdown. Score and interval are fractions, or None without any answer."""


def _inputs(benchmark: BenchmarkState, partition: VariantPartition) -> Mapping[str, str | None]:
    evaluation = benchmark.evaluations[partition.variant]
    blind = benchmark.blind_for(evaluation)
    return {
        "reader": f"{evaluation.reader}-{READERS[evaluation.reader].version}",
        "blind scores": None if blind is None else benchmark.snapshot.versions.scores(blind),
    }


def _build(stage: stages.BenchmarkStage, targets: stages.Targets) -> stages.BuildEvents:
    @cache
    def rows_of(evaluation: str) -> list[ScoredQuestion]:
        """The rows of the blind evaluation, which splits the scores of others."""
        chosen = stage.benchmark.evaluations[evaluation]
        return score_evaluation(stage.project, stage.benchmark, chosen)

    for target in targets:
        try:
            yield from _score(stage, target, rows_of)
        except VideoMMEError as error:
            yield stages.BuildFailure(partition=target.partition, reason=str(error))


def _score(
    stage: stages.BenchmarkStage,
    target: stages.Target,
    rows_of: Callable[[str], Sequence[ScoredQuestion]],
) -> stages.BuildEvents:
    project, benchmark = stage.project, stage.benchmark
    evaluation = benchmark.evaluations[str(target.partition.variant)]
    stops = project.spending.stops
    stops_before = len(stops)
    rows = score_evaluation(project, benchmark, evaluation)
    blind = benchmark.blind_for(evaluation)
    blind_rows = [] if blind is None else rows_of(blind.name)
    settings = evaluation.specification
    if blind is not None:
        values = needs_video(blind_rows)
        rows = [with_needs_video(row, values) for row in rows]
        split_by = {"evaluation": blind.name, "fingerprint": blind.fingerprint}
        settings[NEEDS_VIDEO.column] = split_by
    unjudged = [row.judge_error for row in rows if row.judge_error]
    unanswered = sum(row.outcome is Outcome.FAILED for row in blind_rows)
    failed = sum(row.outcome is Outcome.FAILED for row in rows)
    missing = failed + len(unjudged) + unanswered
    if missing:
        target = stage.part_of(target, rows, 2 * len(rows) + len(blind_rows) - missing)
    stage.write(target, evaluated_videos(benchmark, evaluation), companion=EvaluatedVideo)
    stage.write(target, rows, settings=settings)
    yield stages.BuildResult(target=target, facts=_facts_of(rows), incomplete=bool(missing))
    if blind is not None and unanswered:
        yield stages.BuildFailure(
            partition=target.partition,
            reason=f"`needs_video` needs the answers of {blind.name}, which has not answered "
            f"{unanswered:,} questions; run `videomme run {blind.name}`",
        )
    if unjudged and len(stops) == stops_before:  # otherwise the cost limit stopped the judge
        yield stages.BuildFailure(
            partition=target.partition,
            reason=f"{len(unjudged)} requests to the judge failed: {unjudged[0]}",
        )


SCORES = stages.Stage(
    name="scores",
    description="Every question with its response, the letter read from it and the outcome.",
    dimensions=frozenset({Dimension.EVALUATION}),
    upstream=("questions", "responses"),
    kinds=frozenset({"parquet"}),
    row_class=ScoredQuestion,
    fingerprint=lambda benchmark, partition: benchmark.snapshot.versions.scores(
        benchmark.evaluations[partition.variant]
    ),
    inputs=_inputs,
    build=_build,
    stored_facts=lambda path: _facts_of(read_rows(path, ScoredQuestion)),
    settings=("reader", "judge", "duration", "subset", "questions"),
    companion="evaluated_videos",
    is_cited=True,
    asks_models=True,
)
"""One partition per evaluation. Questions without an answer are rows with outcome `failed`."""


def _facts_of(rows: Sequence[ScoredQuestion]) -> dict[str, object]:
    outcomes = Counter(row.outcome for row in rows)
    questions = outcomes.total()
    answered = outcomes[Outcome.CORRECT] + outcomes[Outcome.INCORRECT]
    facts: dict[str, object] = {}  # in the order of the UI
    if outcomes[Outcome.FAILED] < questions:
        facts["accuracy_percent"] = round(100 * outcomes[Outcome.CORRECT] / questions, 1)
        facts["is_lower_bound"] = outcomes[Outcome.FAILED] > 0
    facts |= {"questions": questions, **{outcome.value: outcomes[outcome] for outcome in Outcome}}
    if answered:
        of_answered = 100 * outcomes[Outcome.CORRECT] / answered
        facts["accuracy_of_answered_percent"] = round(of_answered, 1)
    if summary := summarize_judge(rows):
        for key, value in asdict(summary).items():
            facts[key if "judge" in key else f"judge_{key}"] = value
    return facts | _breakdown_facts(rows)


def _breakdown_facts(rows: Sequence[ScoredQuestion]) -> dict[str, object]:
    """The interval of the score, a table of all breakdowns, and the shortest one as a chart."""
    benchmark = find_benchmark(rows[0].benchmark)
    grouped = benchmark.grouping is not None
    overall, *others = _parts(benchmark, rows)
    parts = others or [overall]  # a benchmark may have no facets
    facts: dict[str, object] = {}
    if overall["score"] is not None:
        by = parts[0]["by"]
        charted = [part for part in parts if part["by"] == by and part["score"] is not None]
        if grouped:
            facts["group_score"] = round(100 * overall["score"], 1)
        facts["interval_percent"] = interval(overall["low"], overall["high"])
        facts["chart"] = chart_picture(lambda charts: charts.parts_chart(charted), f"score by {by}")
    facts["breakdowns"] = [
        {
            "by": part["by"],
            "value": part["value"],
            "score": at_least(part["failed"], percent(part["score"])),
            "interval": interval(part["low"], part["high"]),
            "n": part["n"],
        }
        for part in parts
    ]
    return facts


def _parts(benchmark: Benchmark, rows: Sequence[ScoredQuestion]) -> list[_Part]:
    """The score of all questions or complete groups, then by each facet. `n` is their number."""
    from videomme_pipeline.scoring.statistics import breakdowns as tables  # noqa: PLC0415 - SciPy

    grouped = benchmark.grouping is not None
    measure, scale = (Measure.GROUP_SCORE, 100) if grouped else (Measure.ACCURACY, 1)
    scores: Mapping[str, Sequence[tables.AccuracyRow | tables.GroupScoreRow]] = (
        tables.group_breakdowns(benchmark, rows)[0]
        if grouped
        else tables.breakdowns(benchmark, rows)
    )

    def share(row: tables.AccuracyRow | tables.GroupScoreRow, bound: str = "") -> float | None:
        value = getattr(row, f"{measure}{bound}")
        return None if value is None else value / scale

    return [
        {
            "by": columns[0] if columns else "overall",
            "value": row.values[0] if row.values else "",
            "score": share(row),
            "failed": row.failed,
            "low": share(row, "_low"),
            "high": share(row, "_high"),
            "n": row.groups if isinstance(row, tables.GroupScoreRow) else row.responses,
        }
        for view, columns in benchmark.breakdowns(measure).items()
        if len(columns) <= 1
        for row in scores[view]
    ]
