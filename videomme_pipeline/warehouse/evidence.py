"""The evidence about every evaluation in the loaded tables, and its citation findings."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

import duckdb

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.benchmarks.selection import Selection, group_by_video
from videomme_pipeline.errors import Finding, Status
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.rows import arrow_schema, from_table
from videomme_pipeline.scoring.findings.checks import findings
from videomme_pipeline.scoring.findings.run import (
    BLOCKED,
    CitationFinding,
    EvaluatedVideo,
    Run,
    Runs,
)
from videomme_pipeline.scoring.scored_question import Answer
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.tables import logging_damage, read_rows, stored_settings
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.quoting import identifier

Row = TypeVar("Row")


def citation_findings(
    connection: duckdb.DuckDBPyConnection, store: Store
) -> Iterator[CitationFinding]:
    """Yield the findings about the evaluations in the tables of `connection`.

    It needs the tables `questions`, `videos`, `scored_questions` and `evaluated_videos`. The
    scores of a benchmark whose declaration was removed are blocked, since nothing can be checked.
    """
    benchmarks = connection.sql(
        "select distinct benchmark::text from scored_questions order by all"
    )
    for (benchmark,) in benchmarks.fetchall():
        for finding in _findings(connection, store, benchmark):
            yield CitationFinding(
                benchmark=benchmark,
                evaluation=finding.run,
                check_name=finding.check,
                status=BLOCKED if finding.status is Status.ERROR else finding.status.value,
                summary=finding.summary,
                advice=finding.advice,
            )


def _findings(
    connection: duckdb.DuckDBPyConnection, store: Store, benchmark: str
) -> Iterator[Finding]:
    """Yield the findings about each evaluation of `benchmark`."""
    if benchmark in known_benchmarks():
        runs = Runs(runs=stored_runs(connection, store, benchmark))
        for run in runs.runs:
            yield from findings(run, runs)
        return
    for evaluation in _evaluations(connection, benchmark):
        yield Finding(
            Status.ERROR,
            f"no benchmark called {benchmark} is declared",
            f"restore {benchmark}.yaml in the folder `benchmarks` of the configuration",
            check="release",
            run=evaluation,
        )


def _evaluations(connection: duckdb.DuckDBPyConnection, benchmark: str) -> list[str]:
    """The evaluations of `benchmark` with scores, ordered by name."""
    evaluations = connection.execute(
        "select distinct evaluation::text from scored_questions where benchmark = ? order by all",
        [benchmark],
    )
    return [name for (name,) in evaluations.fetchall()]


def stored_runs(
    connection: duckdb.DuckDBPyConnection, store: Store, benchmark: str, only: str | None = None
) -> list[Run]:
    """The runs of all evaluations of `benchmark` with scores, or only one, ordered by name."""
    questions = group_by_video(_questions(store, benchmark))
    current = {video_id: fingerprint(on_video) for video_id, on_video in questions.items()}
    media = {video.video_id: video for video in _rows(connection, "videos", Video, benchmark)}
    runs = []
    for name in _evaluations(connection, benchmark) if only is None else [only]:
        specification = stored_settings(store.scores(benchmark, name))
        videos = _rows(connection, "evaluated_videos", EvaluatedVideo, benchmark, name)
        selected = Selection.stored_in(specification).of(questions).values()
        run = Run(
            name=name,
            benchmark=find_benchmark(benchmark),
            questions={q.question_id: q for on_video in selected for q in on_video},
            answers=_rows(connection, "scored_questions", Answer, benchmark, name),
            specification=specification,
            question_fingerprints=current,
            videos={video.video_id: video for video in videos},
            by_question={v.question_id: v for v in videos if v.question_id is not None},
            media=media,
        )
        runs.append(run)
    return runs


def _questions(store: Store, benchmark: str) -> list[Question]:
    """The stored questions in their order, which fingerprints depend on and tables do not keep."""
    path = store.questions(benchmark)
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
