"""The reviews of EvalScope: one JSON line per question and repeat.

A review does not contain the options, so the annotations are needed to score one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from videomme_pipeline.formats.results_format import DatasetRows, ResultsFormat, Row


def _recognizes(rows: Sequence[Row]) -> bool:
    return any("sample_score" in row for row in rows)


def _read(rows: Sequence[Row], _skip_missing: bool) -> DatasetRows:
    return DatasetRows(rows=[_dataset_row_of(row) for row in rows])


def _dataset_row_of(review: Row) -> Row:
    scored = _mapping(review.get("sample_score"))
    target = review.get("target")
    metadata = _mapping(scored.get("sample_metadata"))
    return {
        "doc_id": scored.get("group_id", review.get("index")),
        "answer": target[0] if isinstance(target, list) and target else target,
        **metadata,
        "repeat": scored.get("generation_index") or 0,
        "prediction": _mapping(scored.get("score")).get("prediction"),
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


FORMAT = ResultsFormat(name="evalscope", recognizes=_recognizes, read=_read)
