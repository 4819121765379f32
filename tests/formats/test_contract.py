"""The results file of the benchmark contract."""

import json
from pathlib import Path
from typing import Any

from tests.support.scored_rows import questions_of, v1_evaluation
from videomme_pipeline.formats.registry import FORMATS, write_results
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.scoring.scored_question import Outcome

ROWS = v1_evaluation(5)


def exported() -> list[dict[str, Any]]:
    text = write_results(questions_of(ROWS), ROWS, FORMATS["contract"])
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_begins_with_the_columns_of_the_contract() -> None:
    columns = ["example_id", "raw_output", "extracted_answer", "is_correct", "num_frames"]
    rows = exported()
    assert [list(row)[:5] for row in rows] == [columns] * len(ROWS)
    assert [[row[name] for name in columns[1:]] for row in rows] == [
        [row.raw_output, row.extracted_answer, row.is_correct, row.num_frames] for row in ROWS
    ]


def test_examples_are_numbered_within_their_video() -> None:
    assert [row["example_id"] for row in exported()][:4] == [
        "video_001_q1",
        "video_001_q2",
        "video_001_q3",
        "video_002_q1",
    ]


def test_sub_category_is_exported_as_subcategory() -> None:
    for line, row in zip(exported(), ROWS, strict=True):
        assert line["subcategory"] == row.facets["sub_category"]
        assert "sub_category" not in line


def test_task_type_is_exported_as_the_skill() -> None:
    for line, row in zip(exported(), ROWS, strict=True):
        assert line["task_type"] in ("perception", "reasoning", "temporal")
        assert line["task_type"] == row.facets["skill"]
        assert line["task_category"] == row.facets["task_type"]


def test_an_exported_file_is_scored_by_the_task_types_of_the_dataset(tmp_path: Path) -> None:
    path = tmp_path / "contract.jsonl"
    path.write_text(write_results(questions_of(ROWS), ROWS, FORMATS["contract"]))
    scored = {row.question_id: row.facets for row in score_file(path, ScoreOptions()).rows}
    for row in ROWS:
        facets = scored[row.question_id]
        assert (facets["task_type"], facets["skill"]) == (
            row.facets["task_type"],
            row.facets["skill"],
        )


def test_a_failed_request_has_neither_output_nor_answer() -> None:
    failed = [row.outcome is Outcome.FAILED for row in ROWS]
    assert any(failed)
    assert [line["raw_output"] is None for line in exported()] == failed
