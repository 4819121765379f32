"""VLMEvalKit's result table: the dataset's rows with other column names, tab-separated.

The video id is in `video`. The options of v1 are in `candidates`, as a Python list written as text.
"""

import csv
import io
from collections.abc import Mapping, Sequence

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.formats.dataset_rows import dataset_row, raw_text, text_of
from videomme_pipeline.formats.results_format import DatasetRows, ResultsFormat, Row
from videomme_pipeline.scoring.scored_question import ScoredQuestion

_DATASET_COLUMNS = {"video": "video_id", "candidates": "options"}
"""The dataset's column names by VLMEvalKit's."""


def _recognizes(rows: Sequence[Row]) -> bool:
    return any(column in row for row in rows for column in _DATASET_COLUMNS)


def _read(rows: Sequence[Row], _skip_missing: bool) -> DatasetRows:
    return DatasetRows(rows=[_renamed(row) for row in rows])


def _renamed(row: Row) -> Row:
    """`row` with the dataset's column names. Values that already have such a name are kept."""
    return {_DATASET_COLUMNS.get(column, column): value for column, value in row.items()} | {
        column: row[column] for column in _DATASET_COLUMNS.values() if text_of(row, column)
    }


def _write(questions: Sequence[Question], answers: Mapping[str, ScoredQuestion], marks: Row) -> str:
    answered = [question for question in questions if question.question_id in answers]
    table = [
        {
            "index": index,
            **_renamed_dataset_row(question),
            "prediction": raw_text(answers[question.question_id]),
            **marks,
        }
        for index, question in enumerate(answered)
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def _renamed_dataset_row(question: Question) -> Row:
    row = dict(dataset_row(question))
    row = {"video": row.pop("video_id")} | row
    if isinstance(row["options"], list):
        row["candidates"] = str(row.pop("options"))
    return row


FORMAT = ResultsFormat(
    name="vlmevalkit", suffix=".tsv", recognizes=_recognizes, read=_read, write=_write
)
