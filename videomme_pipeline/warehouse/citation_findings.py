"""Citation findings about every evaluation in the loaded tables."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

import duckdb

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.benchmarks.selection import Selection, group_by_video
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.rows import arrow_schema, from_table
from videomme_pipeline.scoring.audit.citation_checks import (
    Answer,
    CitationCheck,
    CitationEvidence,
    CitationFindingRow,
    EvaluatedVideo,
    Status,
    findings,
)
from videomme_pipeline.scoring.audit.sameness import sameness_findings
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import logging_damage, read_rows, stored_settings
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.quoting import identifier

Row = TypeVar("Row")


def citation_findings(
    connection: duckdb.DuckDBPyConnection, results: Results
) -> Iterator[CitationFindingRow]:
    """Yield the findings about the evaluations in the tables of `connection`.

    It needs the tables `questions`, `videos`, `scored_questions` and `evaluated_videos`. The
    scores of a benchmark whose declaration was removed are blocked, since nothing can be checked.
    """
    benchmarks = connection.sql(
        "select distinct benchmark::text from scored_questions order by all"
    )
    for (benchmark,) in benchmarks.fetchall():
        if benchmark not in known_benchmarks():
            yield from _undeclared(connection, benchmark)
            continue
        evaluations = _evidence(connection, results, benchmark)
        same = sameness_findings(evaluations)
        for evidence in evaluations:
            yield from findings(evidence, same.get(evidence.evaluation))


def _undeclared(
    connection: duckdb.DuckDBPyConnection, benchmark: str
) -> Iterator[CitationFindingRow]:
    """One finding about each evaluation of a benchmark that nothing declares."""
    for evaluation in _evaluations(connection, benchmark):
        yield CitationFindingRow(
            benchmark=benchmark,
            evaluation=evaluation,
            check_name=CitationCheck.RELEASE,
            status=Status.BLOCKED,
            summary=f"no benchmark called {benchmark} is declared",
            advice=f"restore {benchmark}.yaml in the folder `benchmarks` of the configuration",
        )


def _evaluations(connection: duckdb.DuckDBPyConnection, benchmark: str) -> list[str]:
    """The evaluations of `benchmark` with scores, ordered by name."""
    evaluations = connection.execute(
        "select distinct evaluation::text from scored_questions where benchmark = ? order by all",
        [benchmark],
    )
    return [name for (name,) in evaluations.fetchall()]


def _evidence(
    connection: duckdb.DuckDBPyConnection, results: Results, benchmark: str
) -> list[CitationEvidence]:
    """The stored evidence about each evaluation of `benchmark`, ordered by name."""
    questions = group_by_video(_questions(results, benchmark))
    current = {video_id: fingerprint(on_video) for video_id, on_video in questions.items()}
    media = {video.video_id: video for video in _rows(connection, "videos", Video, benchmark)}
    scored = set(_evaluations(connection, benchmark))
    settings = {
        shown.evaluation: stored_settings(shown.path)
        for shown in results.scores(benchmark)
        if shown.evaluation in scored
    }
    videos = {
        name: _rows(connection, "evaluated_videos", EvaluatedVideo, benchmark, name)
        for name in settings
    }
    return [
        CitationEvidence(
            benchmark=find_benchmark(benchmark),
            evaluation=name,
            questions=[
                question
                for on_video in Selection.stored_in(specification).of(questions).values()
                for question in on_video
            ],
            question_fingerprints=current,
            answers=_rows(connection, "scored_questions", Answer, benchmark, name),
            specification=specification,
            videos={video.video_id: video for video in videos[name]},
            by_question={v.question_id: v for v in videos[name] if v.question_id is not None},
            media=media,
        )
        for name, specification in settings.items()
    ]


def _questions(results: Results, benchmark: str) -> list[Question]:
    """The stored questions in their order, which fingerprints depend on and tables do not keep."""
    path = results.questions(benchmark)
    if path is None:
        return []
    with suppress(FileNotFoundError), logging_damage(path):
        return read_rows(path, Question)
    return []


def _rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    row_class: type[Row],
    benchmark: str,
    evaluation: str | None = None,
) -> list[Row]:
    """The rows of a table about one benchmark, or about one evaluation of it."""
    columns = ", ".join(map(identifier, arrow_schema(row_class).names))  # type: ignore[arg-type]
    selected = {"benchmark": benchmark} | ({} if evaluation is None else {"evaluation": evaluation})
    condition = " and ".join(f"{column} = ?" for column in selected)
    rows = connection.sql(
        f"select {columns} from {identifier(table)} where {condition}",
        params=list(selected.values()),
    )
    return from_table(rows.to_arrow_table(), row_class)
