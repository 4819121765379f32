"""The results page: one HTML file that works offline, or a document and files for a local server.

`numbers` and `texts` collect its data, and `document` renders it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
from upath import UPath

from videomme_pipeline.benchmarks.facets import NEEDS_VIDEO
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark, known_benchmarks
from videomme_pipeline.reports import history
from videomme_pipeline.reports.across import across_rows, with_settings
from videomme_pipeline.reports.comparisons import comparisons
from videomme_pipeline.reports.document import SIZE_LIMIT_BYTES, Json, render
from videomme_pipeline.reports.numbers import Numbers, answer_cells, chance, question_columns
from videomme_pipeline.reports.published import published_results
from videomme_pipeline.reports.stored import (
    ScoredEvaluation,
    ServedPage,
    ShownBenchmark,
    evaluations_of,
)
from videomme_pipeline.reports.texts import read_texts
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.storage.publish import publish
from videomme_pipeline.storage.results import Results
from videomme_pipeline.storage.tables import read_rows
from videomme_pipeline.warehouse.database import connect


def build_page(
    store: Store, *, evaluations: Sequence[str] | None = None, share: bool = False
) -> str:
    """The page as one self-contained HTML document of at most `SIZE_LIMIT_BYTES`, if possible.

    Shows all scored evaluations of all benchmarks in `store`, or only those named. `share`
    leaves out everything of the dataset that must not be published: question text, options,
    prompts, responses, subtitles and frames. If the document would be too large, it has the short
    form of `read_texts`. The document depends only on the data.
    """
    pages = _collect(store, evaluations)
    if share:
        return render(_summary(pages, share=True), {})
    document = render(_summary(pages), _details(pages))
    if len(document.encode()) > SIZE_LIMIT_BYTES:
        document = render(_summary(pages, is_short=True), _details(pages, is_short=True))
    return document


def write_page(
    store: Store, path: Path, *, evaluations: Sequence[str] | None = None, share: bool = False
) -> Path:
    """Write `build_page` to `path`, atomically. Raise StorageError if that is impossible."""
    html = build_page(store, evaluations=evaluations, share=share)
    publish(UPath(path), html.encode())
    return path


def served_page(store: Store, *, evaluations: Sequence[str] | None = None) -> ServedPage:
    """The page for a server on this machine, with pictures of the frames and local videos."""
    pages = _collect(store, evaluations, is_served=True)
    return ServedPage(
        document=render(_summary(pages), _details(pages), is_served=True),
        sheets={key.sheet: key for page in pages for key in page.shown.frames.values()},
        videos={p.shown.url(name): file for p in pages for name, file in p.shown.files.items()},
    )


@dataclass(frozen=True, kw_only=True)
class _BenchmarkPage:
    shown: ShownBenchmark
    summary: Mapping[str, Any]
    last_runs: Sequence[history.LastRun]
    across: Sequence[Mapping[str, Any]]
    """Rows of the view `across_benchmarks` for these evaluations, with their settings."""


def _details(pages: Sequence[_BenchmarkPage], *, is_short: bool = False) -> Json:
    return {
        page.summary["name"]: {
            "videos": read_texts(page.shown, is_short=is_short),
            "runs": [run.texts(is_short=is_short) for run in page.last_runs],
        }
        for page in pages
    }


def _collect(
    store: Store, names: Sequence[str] | None, *, is_served: bool = False
) -> list[_BenchmarkPage]:
    """The declared benchmarks with scored evaluations, or with some of those in `names`."""
    results = Results(store)
    scored = [
        (name, evaluations)
        for name in results.benchmarks
        if name in known_benchmarks() and (evaluations := evaluations_of(results, name, names))
    ]
    if not scored:
        return []
    with connect(store) as connection:
        return [
            _benchmark_page(connection, results, benchmark, evaluations, is_served=is_served)
            for benchmark, evaluations in scored
        ]


def _benchmark_page(
    connection: duckdb.DuckDBPyConnection,
    results: Results,
    benchmark: str,
    evaluations: Sequence[ScoredEvaluation],
    *,
    is_served: bool,
) -> _BenchmarkPage:
    declared = find_benchmark(benchmark)
    asked = {row.question_id for evaluation in evaluations for row in evaluation.rows}
    file = results.questions(benchmark)
    stored = [] if file is None else read_rows(file, Question)
    questions = [question for question in stored if question.question_id in asked]
    if NEEDS_VIDEO in declared.facets:
        rows = chain.from_iterable(evaluation.rows for evaluation in evaluations)
        split = {row.question_id: row.facets for row in rows if NEEDS_VIDEO.column in row.facets}
        questions = [replace(q, facets=split.get(q.question_id, q.facets)) for q in questions]
    numbers = Numbers(connection, declared, questions, evaluations)
    titles = {facet.column: facet.title for facet in declared.shown_facets}
    videos = len({question.video_id for question in questions})
    entries = numbers.evaluations()
    specifications = {e.name: e.specification for e in evaluations}
    runs = history.last_runs(results.store, benchmark, evaluations)
    summary = {
        "name": benchmark,
        "title": declared.title,
        "summary": _sentence(evaluations, questions, videos),
        "question_count": len(questions),
        "video_count": videos,
        "chance": chance(questions),
        "facets": list(titles.items()),
        "part_columns": numbers.part_columns(),
        "mean_title": numbers.mean_title(),
        "evaluations": entries,
        "breakdowns": numbers.breakdowns(),
        "crossed": numbers.crossed(),
        "tracks": numbers.tracks(),
        "comparisons": comparisons(evaluations, _ranking(entries), titles),
        "history": history.history(results.store, numbers),
        "checkpoints": history.checkpoint_points(numbers),
        "races": history.race_looks(numbers),
        "last_runs": [run.numbers(questions) for run in runs],
        "published": published_results(benchmark),
        "bibtex": declared.bibtex,
        "questions": question_columns(declared, questions),
        "results": [answer_cells(questions, evaluation.rows) for evaluation in evaluations],
    }
    return _BenchmarkPage(
        shown=ShownBenchmark(
            results=results, questions=questions, evaluations=evaluations, is_served=is_served
        ),
        summary=summary,
        last_runs=runs,
        across=[
            with_settings(row, specifications[row["evaluation"]])
            for row in numbers.view("across_benchmarks")
        ],
    )


def _ranking(entries: Sequence[dict[str, Any]]) -> list[int]:
    """Indexes of the evaluations: best first, baselines last."""

    def rank(entry: dict[str, Any]) -> tuple[bool, bool, float]:
        mean, group_score = entry["mean"], entry["group_score"]
        score = group_score if mean is None else mean["value"]
        score = entry["accuracy"] if score is None else score
        return (not entry["baseline"], score is not None, score or 0)

    return [entry["index"] for entry in sorted(entries, key=rank, reverse=True)]


def _sentence(
    evaluations: Sequence[ScoredEvaluation], questions: Sequence[Question], videos: int
) -> str:
    counts = {"evaluation": len(evaluations), "question": len(questions), "video": videos}
    parts = [f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts.items()]
    answered = (row.served.answered_at for e in evaluations for row in e.rows)
    if times := [time for time in answered if time is not None]:
        parts.append(f"last answer {max(times):%Y-%m-%d}")
    return " · ".join(parts)


def _summary(
    pages: Sequence[_BenchmarkPage], *, share: bool = False, is_short: bool = False
) -> dict[str, Any]:
    """The numbers of all benchmarks, with the settings that other people may see if `share`."""
    cells = [cell for page in pages for cell in page.across]
    names = [page.summary["name"] for page in pages]
    summaries = [dict(page.summary) for page in pages]
    for summary in summaries if share else ():
        summary["evaluations"] = [e | {"spec": e["public_spec"]} for e in summary["evaluations"]]
    return {
        "share": share,
        "is_short": is_short,
        "benchmarks": summaries,
        "across": across_rows(cells, names) if len(pages) > 1 else [],
    }
