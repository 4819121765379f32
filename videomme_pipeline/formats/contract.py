"""The results file of the benchmark contract: one JSON line per question.

The contract's own columns come first: `example_id` (`video_001_q1`), `raw_output`,
`extracted_answer`, `is_correct` and `num_frames`. The question follows, so that the file can be
scored again. Its sub-category has the contract's name `subcategory`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from videomme_pipeline.benchmarks.question import Question, example_ids
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.formats.results_format import DatasetRows, ResultsFormat, Row, json_lines
from videomme_pipeline.scoring.scored_question import ScoredQuestion

_CONTRACT_NAMES = {"sub_category": "subcategory"}
_DATASET_NAMES = {contract: dataset for dataset, contract in _CONTRACT_NAMES.items()}


def _recognizes(rows: Sequence[Row]) -> bool:
    return any("example_id" in row and "raw_output" in row for row in rows)


def _read(rows: Sequence[Row], _skip_missing: bool) -> DatasetRows:
    return DatasetRows(rows=[_renamed(row, _DATASET_NAMES) for row in rows])


def _write(questions: Sequence[Question], answers: Mapping[str, ScoredQuestion], marks: Row) -> str:
    ids = example_ids(questions)
    return json_lines(
        {**_contract_row(ids[question.question_id], question, row), **marks}
        for question in questions
        if (row := answers.get(question.question_id)) is not None
    )


def _contract_row(example_id: str, question: Question, row: ScoredQuestion) -> dict[str, Any]:
    """One line: `raw_output` is null if the request failed, `extracted_answer` without a letter."""
    output = {
        "example_id": example_id,
        "raw_output": row.raw_output,
        "extracted_answer": row.extracted_answer,
        "is_correct": row.is_correct,
        "num_frames": row.num_frames,
    }
    return output | _renamed(dataset_row(question), _CONTRACT_NAMES)


def _renamed(row: Row, names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(column, column): value for column, value in row.items()}


FORMAT = ResultsFormat(
    name="contract", suffix=".jsonl", recognizes=_recognizes, read=_read, write=_write
)
