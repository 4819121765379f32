"""VLMEvalKit's result table: the dataset's rows with other column names, tab-separated.

The video id is in `video`. The options of v1 are in `candidates`, as a Python list written as text.
"""

import csv
import io
from collections.abc import Mapping, Sequence

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.formats.dataset_rows import dataset_row, name_of, raw_text
from videomme_pipeline.formats.results_format import ResultsFormat, Row
from videomme_pipeline.scoring.scored_question import ScoredQuestion


def _rows(questions: Sequence[Question], answers: Mapping[str, ScoredQuestion]) -> list[Row]:
    rows: list[Row] = []
    for question in questions:
        if (answer := answers.get(question.question_id)) is not None:
            row = dataset_row(question)
            row = {"index": len(rows), "video": row.pop("video_id"), **row}
            if isinstance(row["options"], list):
                row["candidates"] = str(row.pop("options"))
            rows.append({**row, "prediction": raw_text(answer)})
    return rows


def _table(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


FORMAT = ResultsFormat(
    name="vlmevalkit",
    recognizes=lambda row: not row.keys().isdisjoint({"video", "candidates"}),
    read=lambda row: [{**row, "video_id": name_of(row, "video_id") or row.get("video")}],
    rows=_rows,
    text=_table,
)
