"""The instance files of Every Eval Ever: one JSON line per question and repeat."""

from collections.abc import Mapping, Sequence
from typing import Any

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.formats.dataset_rows import lettered
from videomme_pipeline.formats.results_format import DatasetRows, ResultsFormat, Row


def _recognizes(rows: Sequence[Row]) -> bool:
    return any({"sample_id", "answer_attribution"} <= row.keys() for row in rows)


def _read(rows: Sequence[Row], _skip_missing: bool) -> DatasetRows:
    return DatasetRows(rows=[_dataset_row_of(row) for row in rows])


def _dataset_row_of(instance: Row) -> Row:
    """The columns of the dataset are in `metadata`, if the file was written from them."""
    asked, metadata = _mapping(instance.get("input")), _mapping(instance.get("metadata"))
    reference, choices = asked.get("reference"), asked.get("choices")
    row: dict[str, Any] = {
        "question_id": instance.get("sample_id"),
        "question": asked.get("raw"),
        "answer": reference[0] if reference else None,
    }
    if choices:
        row["options"] = lettered(choices)
        if row["answer"] in choices:  # some tools refer to an option by its text
            row["answer"] = tuple(Letter)[choices.index(row["answer"])]
    texts = _mapping(instance.get("output")).get("raw")
    is_failed = instance.get("error") and not any(texts or ())
    return {**row, **metadata, "prediction": texts[0] if texts and not is_failed else None}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


FORMAT = ResultsFormat(name="every_eval_ever", recognizes=_recognizes, read=_read)
