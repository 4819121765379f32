"""Repeats of an answer are not new questions: they narrow no interval of a results file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scored_rows import questions_of, scored, v2_evaluation
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.registry import find_benchmark, published_benchmarks
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.formats.results_format import json_lines
from videomme_pipeline.formats.score_file import ScoreOptions, ScoreReport, score_file, score_rows
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import AccuracyRow, GroupScoreRow


def answers_to(benchmark: Benchmark, outcomes: Sequence[Outcome]) -> list[ScoredQuestion]:
    """Two answers per video, with a value of every facet, or groups of a benchmark with groups."""
    if benchmark.grouping is not None:
        rows = v2_evaluation(1, groups=-(-len(outcomes) // 4))
        return [
            replace(row, outcome=outcome, is_correct=outcome is Outcome.CORRECT)
            for row, outcome in zip(rows, outcomes, strict=False)
        ]
    return [
        replace(
            scored(f"{n // 2:03d}-{n % 2}", outcome),
            benchmark=benchmark.name,
            facets=Facets(
                {
                    facet.column: (facet.values or ("a", "b"))[
                        n // 2 % len(facet.values or ("a", "b"))
                    ]
                    for facet in benchmark.facets
                }
            ),
        )
        for n, outcome in enumerate(outcomes)
    ]


def intervals(rows: Sequence[ScoredQuestion], benchmark: str) -> dict[str, tuple[float, float]]:
    """The interval of every cell of the report of `rows`."""
    report = score_rows(rows, ScoreOptions(benchmark=benchmark))
    parts = {**report.breakdowns, **report.group_breakdowns}
    return dict(_intervals(parts))


def _intervals(
    parts: Mapping[str, Sequence[object]],
) -> Iterator[tuple[str, tuple[float, float]]]:
    for name, cells in parts.items():
        for cell in cells:
            if isinstance(cell, AccuracyRow):
                values, low, high = cell.values, cell.accuracy_low, cell.accuracy_high
            else:
                assert isinstance(cell, GroupScoreRow)
                values, low, high = cell.values, cell.group_score_low, cell.group_score_high
            if low is not None and high is not None:
                yield f"{name} {values}", (low, high)


@pytest.mark.parametrize("benchmark", published_benchmarks())
@given(
    outcomes=st.lists(st.sampled_from(list(Outcome)), min_size=8, max_size=48),
    repeats=st.integers(2, 6),
)
@settings(max_examples=15)
def test_repeats_narrow_no_interval_of_any_facet(
    benchmark: str, outcomes: list[Outcome], repeats: int
) -> None:
    once = answers_to(find_benchmark(benchmark), outcomes[: len(outcomes) // 4 * 4])
    often = [replace(row, repeat=repeat) for row in once for repeat in range(repeats)]
    of_once, of_often = intervals(once, benchmark), intervals(often, benchmark)
    assert of_once.keys() <= of_often.keys()
    for cell, (low, high) in of_once.items():
        assert of_often[cell] == pytest.approx((low, high)), cell


def numbered_rows(rows: Sequence[ScoredQuestion]) -> str:
    """Rows of the dataset with the column `repeat`."""
    docs = {question.question_id: dataset_row(question) for question in questions_of(rows)}
    return json_lines(
        {**docs[row.question_id], "prediction": row.raw_output, "repeat": row.repeat}
        for row in rows
    )


def inspect_log(rows: Sequence[ScoredQuestion]) -> str:
    """A log of Inspect with one epoch per repeat."""
    docs = {question.question_id: dataset_row(question) for question in questions_of(rows)}
    samples: list[dict[str, Any]] = [
        {
            "id": row.question_id,
            "epoch": row.repeat + 1,
            "input": docs[row.question_id]["question"],
            "target": row.answer,
            "metadata": docs[row.question_id],
            "output": {"choices": [{"message": {"content": row.raw_output}}]},
        }
        for row in rows
    ]
    return json.dumps({"eval": {}, "samples": samples})


def padded_log(rows: Sequence[ScoredQuestion]) -> str:
    """A log of lmms-eval with one text per repeat."""
    texts: dict[str, list[str | None]] = {}
    for row in rows:
        texts.setdefault(row.question_id, []).append(row.raw_output)
    return json_lines(
        {
            "doc_id": number,
            "doc": dataset_row(question),
            "resps": [texts[question.question_id]],
        }
        for number, question in enumerate(questions_of(rows[:: len(texts[rows[0].question_id])]))
    )


def instances(rows: Sequence[ScoredQuestion]) -> str:
    """Instances of Every Eval Ever."""
    return json_lines(
        {
            "sample_id": question.question_id,
            "input": {
                "raw": question.question,
                "reference": [question.answer],
                "choices": list(question.options),
            },
            "output": {"raw": [row.raw_output]},
            "answer_attribution": [],
            "metadata": {"video_id": row.video_id, **row.facets, "repeat": str(row.repeat)},
        }
        for question, row in zip(questions_of(rows), rows, strict=True)
    )


def counts(report: ScoreReport) -> list[tuple[str, int]]:
    """The numbers of questions or groups of all cells."""
    return [
        *(
            (f"{name} {cell.values}", cell.questions)
            for name, cells in report.breakdowns.items()
            for cell in cells
        ),
        *(
            (f"{name} {cell.values}", cell.groups)
            for name, cells in report.group_breakdowns.items()
            for cell in cells
        ),
    ]


@pytest.mark.parametrize("write", [numbered_rows, inspect_log, padded_log, instances])
@pytest.mark.parametrize("benchmark", ["videomme", "videomme_v2"])
def test_repeats_in_a_file_narrow_no_interval(write: Any, benchmark: str, tmp_path: Path) -> None:
    once = answers_to(find_benchmark(benchmark), [*Outcome] * 10)
    once = [replace(row, raw_output=row.raw_output or "none") for row in once]
    often = [replace(row, repeat=repeat) for row in once for repeat in range(10)]
    reports = []
    for number, rows in enumerate((once, often)):
        path = tmp_path / f"{number}.json"
        path.write_text(write(rows), encoding="utf-8")
        reports.append(
            score_file(path, ScoreOptions(benchmark=benchmark, reader=ReaderName.CAREFUL))
        )
    of_once, of_often = reports
    assert len(of_often.rows) == 10 * len(of_once.rows) == 400
    parts = [dict(_intervals({**r.breakdowns, **r.group_breakdowns})) for r in reports]
    assert parts[0].keys() == parts[1].keys()
    for cell, interval in parts[0].items():
        assert parts[1][cell] == pytest.approx(interval), cell
    assert of_once.notes == of_often.notes
    assert counts(of_once) == counts(of_often)
