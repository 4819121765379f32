"""`scores`: the letter read from each response, and the outcome."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import dagster as dg
from upath import UPath

from videomme_pipeline.assets.stages.base import (
    BenchmarkStage,
    Built,
    Failed,
    Results,
    Target,
    Targets,
)
from videomme_pipeline.assets.stages.metadata import chart_picture, table_of
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import NEEDS_VIDEO
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.judge.judge import summarize_judge
from videomme_pipeline.project.answers.scores import (
    evaluated_videos,
    needs_video,
    score_evaluation,
    with_needs_video,
)
from videomme_pipeline.project.state.partitions import VariantPartition
from videomme_pipeline.project.state.versions import INCOMPLETE
from videomme_pipeline.reports.terminal.tables import at_least, interval, percent
from videomme_pipeline.scoring.findings.run import CitationFinding, EvaluatedVideo
from videomme_pipeline.scoring.readers.read_answer import READERS
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import breakdown, group_breakdowns
from videomme_pipeline.storage.tables import read_rows, stored_fingerprint, write_rows

READER_VERSION_TAG = "videomme/reader_version"


class Scores(BenchmarkStage[VariantPartition]):
    """One partition per evaluation. Questions without an answer are rows with outcome `failed`."""

    name = "scores"
    description = "Every question with its response, the letter read from it and the outcome."
    upstream = ("questions", "responses")
    kinds = frozenset({"parquet"})
    row_class = ScoredQuestion
    settings = ("reader", "judge", "duration", "subset")
    asks_models = True
    is_cited = True

    def target(self, partition: VariantPartition) -> Target[VariantPartition]:
        evaluation = self.benchmark.evaluations[partition.variant]
        version = self.benchmark.snapshot.versions.scores(evaluation)
        path = self.store.scores(self.benchmark.name, partition.variant)
        return self.target_of(partition, version, path)

    @property
    def code_version(self) -> str:
        """The version of the stage's code, then those of all readers ("1 careful-3 …").

        Dagster compares this text with the code versions of events. The fingerprint of scores
        contains the version of one reader, the reader of the evaluation.
        """
        readers = [f"{name}-{reader.version}" for name, reader in READERS.items()]
        return " ".join([super().code_version, *readers])

    def tags(self, partition: VariantPartition) -> dict[str, str]:
        return {READER_VERSION_TAG: self.reader_version(partition)}

    def reader_version(self, partition: VariantPartition) -> str:
        """Name and version of the reader of an evaluation, such as "careful-3"."""
        reader = self.benchmark.evaluations[partition.variant].reader
        return f"{reader}-{READERS[reader].version}"

    def stored(self, target: Target[VariantPartition]) -> str | None:
        """The fingerprint of the scores, or None if one of their two files is missing."""
        return super().stored(target) if self._has_evaluated_videos(target) else None

    def is_current(self, target: Target[VariantPartition]) -> bool:
        return super().is_current(target) and self._has_evaluated_videos(target)

    def settings_of(self, evaluation: str) -> dict[str, Any]:
        """The settings of an evaluation's scores, with the blind evaluation that splits them."""
        return super().settings_of(evaluation) | self._split_by(evaluation)

    def _split_by(self, evaluation: str) -> dict[str, Any]:
        blind = self.benchmark.blind_for(self.benchmark.evaluations[evaluation])
        if blind is None:
            return {}
        return {NEEDS_VIDEO.column: {"evaluation": blind.name, "fingerprint": blind.fingerprint}}

    def citation_findings(self) -> list[CitationFinding]:
        from videomme_pipeline.warehouse.database import findings_of  # noqa: PLC0415 - DuckDB

        return findings_of(self.store, self.benchmark.name)

    def _has_evaluated_videos(self, target: Target[VariantPartition]) -> bool:
        return stored_fingerprint(self._evaluated_videos(target)) is not None

    def _evaluated_videos(self, target: Target[VariantPartition]) -> UPath:
        """The file that lists the videos of the scores of `target`."""
        return self.store.evaluated_videos(self.benchmark.name, target.partition.variant)

    def build(self, targets: Targets[VariantPartition]) -> Results[VariantPartition]:
        rows_of = cache(self._rows_of)  # of the blind evaluation, which splits the scores of others
        for target in targets:
            try:
                yield from self._score(target, rows_of)
            except VideoMMEError as error:
                yield Failed(partition=target.partition, reason=str(error))

    def metadata(self, target: Target[VariantPartition]) -> dict[str, object]:
        return _metadata(read_rows(target.path, ScoredQuestion))

    def _rows_of(self, evaluation: str) -> list[ScoredQuestion]:
        return score_evaluation(
            self.project, self.benchmark, self.benchmark.evaluations[evaluation]
        )

    def _score(
        self,
        target: Target[VariantPartition],
        rows_of: Callable[[str], Sequence[ScoredQuestion]],
    ) -> Results[VariantPartition]:
        evaluation = self.benchmark.evaluations[target.partition.variant]
        stops = self.project.spending.stops
        stops_before = len(stops)
        rows = self._rows_of(evaluation.name)
        blind = self.benchmark.blind_for(evaluation)
        blind_rows = [] if blind is None else rows_of(blind.name)
        if blind is not None:
            values = needs_video(blind_rows)
            rows = [with_needs_video(row, values) for row in rows]
        unjudged = [row.judge_error for row in rows if row.judge_error]
        unanswered = sum(row.outcome is Outcome.FAILED for row in blind_rows)
        incomplete = bool(unjudged or unanswered) or any(
            row.outcome is Outcome.FAILED for row in rows
        )
        write_rows(
            self._evaluated_videos(target),
            evaluated_videos(self.benchmark, evaluation),
            EvaluatedVideo,
            fingerprint=target.fingerprint,
        )
        write_rows(
            target.path,
            rows,
            ScoredQuestion,
            fingerprint=target.fingerprint + (INCOMPLETE if incomplete else ""),
            settings=evaluation.specification | self._split_by(evaluation.name),
        )
        yield Built(target=target, metadata=_metadata(rows), incomplete=incomplete)
        if blind is not None and unanswered:
            yield Failed(
                partition=target.partition,
                reason=f"`needs_video` needs the answers of {blind.name}, which has not answered "
                f"{unanswered:,} questions; run `videomme run {blind.name}`",
            )
        if unjudged and len(stops) == stops_before:  # otherwise the cost limit stopped the judge
            yield Failed(
                partition=target.partition,
                reason=f"{len(unjudged)} requests to the judge failed: {unjudged[0]}",
            )


def _metadata(rows: Sequence[ScoredQuestion]) -> dict[str, object]:
    outcomes = Counter(row.outcome for row in rows)
    questions = outcomes.total()
    answered = outcomes[Outcome.CORRECT] + outcomes[Outcome.INCORRECT]
    metadata: dict[str, object] = {outcome.value: outcomes[outcome] for outcome in Outcome}
    metadata["questions"] = questions
    if outcomes[Outcome.FAILED] < questions:
        metadata["accuracy_percent"] = round(100 * outcomes[Outcome.CORRECT] / questions, 1)
        metadata["is_lower_bound"] = outcomes[Outcome.FAILED] > 0
    if answered:
        of_answered = 100 * outcomes[Outcome.CORRECT] / answered
        metadata["accuracy_of_answered_percent"] = round(of_answered, 1)
    metadata |= _judge_metadata(rows)
    metadata |= _breakdown_metadata(rows)
    return metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One row of one breakdown. Score and interval are fractions, or None without any answer."""

    by: str
    value: str
    score: float | None
    failed: int
    low: float | None
    high: float | None
    n: int


def _breakdown_metadata(rows: Sequence[ScoredQuestion]) -> dict[str, object]:
    """The interval of the score, a table of all breakdowns, and the shortest one as a chart."""
    benchmark = find_benchmark(rows[0].benchmark)
    grouped = benchmark.grouping is not None
    overall, *others = (_group_parts if grouped else _accuracy_parts)(benchmark, rows)
    parts = others or [overall]  # a benchmark may have no facets
    metadata: dict[str, object] = {
        "breakdowns": table_of(
            {
                "by": part.by,
                "value": part.value,
                "score": at_least(part.failed, percent(part.score)),
                "interval": interval(part.low, part.high),
                "n": part.n,
            }
            for part in parts
        ),
    }
    if overall.score is not None:
        charted = [part for part in parts if part.by == parts[0].by and part.score is not None]
        metadata["interval_percent"] = interval(overall.low, overall.high)
        metadata["chart"] = _chart(charted)
        if grouped:
            metadata["group_score"] = round(100 * overall.score, 1)
    return metadata


def _accuracy_parts(benchmark: Benchmark, rows: Sequence[ScoredQuestion]) -> list[_Part]:
    """The accuracy of all questions, then by each facet."""
    return [
        _Part(
            by=facets[0].column if facets else "overall",
            value=row.values[0] if row.values else "",
            score=row.accuracy,
            failed=row.failed,
            low=row.accuracy_low,
            high=row.accuracy_high,
            n=row.responses,
        )
        for facets in ([], *([facet] for facet in benchmark.shown_facets))
        for row in breakdown(rows, facets)
    ]


def _group_parts(benchmark: Benchmark, rows: Sequence[ScoredQuestion]) -> list[_Part]:
    """The score of all groups, then by each facet. `n` is the number of complete groups."""
    breakdowns, _, _ = group_breakdowns(benchmark, rows)
    return [
        _Part(
            by=name.removeprefix("group_score_").removeprefix("by_"),
            value=str(row.values[0]) if row.values else "",
            score=None if row.group_score is None else row.group_score / 100,
            failed=row.failed,
            low=None if row.group_score_low is None else row.group_score_low / 100,
            high=None if row.group_score_high is None else row.group_score_high / 100,
            n=row.groups,
        )
        for name, score_rows in breakdowns.items()
        for row in score_rows
    ]


def _chart(parts: Sequence[_Part]) -> dg.MarkdownMetadataValue:
    def draw() -> str:
        from videomme_pipeline.reports.charts import parts_chart  # noqa: PLC0415 - loads Altair

        return parts_chart([asdict(part) for part in parts]).to_json()

    return chart_picture(draw, f"score by {parts[0].by}")


def _judge_metadata(rows: Sequence[ScoredQuestion]) -> dict[str, object]:
    summary = summarize_judge(rows)
    if summary is None:
        return {}
    values = asdict(summary)
    return {key if "judge" in key else f"judge_{key}": value for key, value in values.items()}
