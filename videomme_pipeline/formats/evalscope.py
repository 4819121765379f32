"""The reviews of EvalScope: one JSON line per question and repeat.

A review does not contain the options, so the annotations are needed to score one.
"""

from collections.abc import Sequence

from videomme_pipeline.formats.results_format import (
    DatasetRows,
    ResultsFormat,
    Row,
    mapping_or_empty,
)


def _recognizes(rows: Sequence[Row]) -> bool:
    return any("sample_score" in row for row in rows)


def _read(rows: Sequence[Row], _skip_missing: bool) -> DatasetRows:
    return DatasetRows(rows=[_dataset_row_of(row) for row in rows])


def _dataset_row_of(review: Row) -> Row:
    scored = mapping_or_empty(review.get("sample_score"))
    target = review.get("target")
    metadata = mapping_or_empty(scored.get("sample_metadata"))
    return {
        "doc_id": scored.get("group_id", review.get("index")),
        "answer": target[0] if isinstance(target, list) and target else target,
        **metadata,
        "repeat": scored.get("generation_index") or 0,
        "prediction": mapping_or_empty(scored.get("score")).get("prediction"),
    }


FORMAT = ResultsFormat(name="evalscope", recognizes=_recognizes, read=_read)
