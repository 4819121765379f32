"""The evidence about every evaluation in the loaded tables, and its citation findings."""

from collections.abc import Iterator
from contextlib import suppress

import duckdb

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.benchmarks.selection import Selection, group_by_video
from videomme_pipeline.errors import Finding, Status
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.rows import Row, arrow_schema, from_table
from videomme_pipeline.scoring.findings.checks import findings
from videomme_pipeline.scoring.findings.run import BLOCKED, CitationFinding, Run, Runs
from videomme_pipeline.scoring.scored_question import Answer, EvaluatedVideo
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import logging_damage, read_rows, stored_settings
from videomme_pipeline.videos.probe import Video
from videomme_pipeline.warehouse.definitions import identifier


def citation_findings(
    connection: duckdb.DuckDBPyConnection, results: Results
) -> Iterator[CitationFinding]:
    """Yield the findings about the evaluations in the tables of `connection`.

    It needs the tables `questions`, `videos`, `scored_questions` and `evaluated_videos`. The
    scores of a benchmark whose declaration was removed are blocked, since nothing can be checked.
    """
    for benchmark, evaluations in _scored(connection).items():
        if benchmark in known_benchmarks():
            runs = Runs(runs=stored_runs(connection, results, benchmark))
            of_benchmark = [finding for run in runs.runs for finding in findings(run, runs)]
        else:
            problem = f"no benchmark called {benchmark} is declared"
            advice = f"restore {benchmark}.yaml in the folder `benchmarks` of the configuration"
            of_benchmark = [
                Finding(Status.ERROR, problem, advice, check="release", run=evaluation)
                for evaluation in evaluations
            ]
        for finding in of_benchmark:
            yield CitationFinding(
                benchmark=benchmark,
                evaluation=finding.run,
                check_name=finding.check,
                status=BLOCKED if finding.status is Status.ERROR else finding.status.value,
                summary=finding.summary,
                advice=finding.advice,
            )


def _scored(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    rows = connection.sql(
        "select benchmark, list(distinct evaluation order by evaluation) from scored_questions "
        "group by benchmark order by benchmark"
    )
    return dict(rows.fetchall())


def stored_runs(
    connection: duckdb.DuckDBPyConnection, results: Results, benchmark: str, only: str | None = None
) -> list[Run]:
    """The runs of all evaluations of `benchmark` with scores, or only one, ordered by name."""
    questions = group_by_video(_questions(results, benchmark))
    current = {video_id: fingerprint(on_video) for video_id, on_video in questions.items()}
    media = {v.video_id: v for v in _rows(connection, "videos", Video, benchmark=benchmark)}
    shown = {scores.evaluation: scores for scores in results.scores(benchmark)}
    runs = []
    for name in _scored(connection).get(benchmark, []) if only is None else [only]:
        specification = stored_settings(shown[name].path) if name in shown else {}
        of_run = {"benchmark": benchmark, "evaluation": name}
        videos = _rows(connection, "evaluated_videos", EvaluatedVideo, **of_run)
        selected = Selection.stored_in(specification).of(questions).values()
        run = Run(
            name=name,
            benchmark=find_benchmark(benchmark),
            questions={q.question_id: q for on_video in selected for q in on_video},
            answers=_rows(connection, "scored_questions", Answer, **of_run),
            specification=specification,
            question_fingerprints=current,
            videos={video.video_id: video for video in videos},
            by_question={v.question_id: v for v in videos if v.question_id is not None},
            media=media,
        )
        runs.append(run)
    return runs


def _questions(results: Results, benchmark: str) -> list[Question]:
    """The stored questions in their order, which fingerprints depend on and tables do not keep."""
    path = results.questions(benchmark)
    if path is None:
        return []
    with suppress(FileNotFoundError), logging_damage(path):
        return read_rows(path, Question)
    return []


def _rows(
    connection: duckdb.DuckDBPyConnection, table: str, row_class: type[Row], **selected: str
) -> list[Row]:
    """The rows of a table whose columns have the values in `selected`."""
    columns = ", ".join(map(identifier, arrow_schema(row_class).names))  # type: ignore[arg-type]
    condition = " and ".join(f"{column} = ?" for column in selected)
    rows = connection.sql(
        f"select {columns} from {identifier(table)} where {condition}",
        params=list(selected.values()),
    )
    return from_table(rows.to_arrow_table(), row_class)
