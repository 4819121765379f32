"""The logs of Inspect (inspect-ai), as `.eval` or JSON: one sample per question and epoch."""

from typing import Any

from videomme_pipeline.benchmarks.columns import lettered
from videomme_pipeline.formats.results_format import (
    ResultsFormat,
    Row,
    mapping_or_empty,
    objects_in,
)
from videomme_pipeline.formats.stored_facts import beside


def _is_log(row: Row) -> bool:
    return "eval" in row and "samples" in row


def _read(row: Row) -> list[Row]:
    samples = objects_in(row["samples"]) if _is_log(row) else [row]
    return [_dataset_row_of(sample) for sample in samples]


def _dataset_row_of(sample: Row) -> Row:
    """The metadata of a sample, which often has the dataset's columns, and the sample's answer.

    A sample that ended with an error has no prediction.
    """
    target, question, choices = sample.get("target"), sample.get("input"), sample.get("choices")
    row: dict[str, Any] = {"question_id": sample.get("id")}
    if isinstance(question, str):
        row["question"] = question
    if isinstance(choices, list) and choices:
        row["options"] = lettered([str(choice) for choice in choices])
    row["answer"] = target[0] if isinstance(target, list) and target else target
    output = mapping_or_empty(sample.get("output"))
    choice = next(iter(objects_in(output.get("choices"))), {})
    scores = objects_in(mapping_or_empty(sample.get("scores")).values())
    row |= beside(output, choice, *({"pred_answer": score.get("answer")} for score in scores))
    return {
        **row,
        **mapping_or_empty(sample.get("metadata")),
        "repeat": int(sample["epoch"]) - 1,
        "prediction": None if sample.get("error") else _completion(sample["output"]),
    }


def _completion(output: Any) -> str | None:
    """The text of the first choice, which is a text or a list of parts; None without a choice."""
    choices = mapping_or_empty(output).get("choices")
    if not choices:
        return None
    content = choices[0].get("message", {}).get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return None if content is None else str(content)


FORMAT = ResultsFormat(
    name="inspect",
    recognizes=lambda row: _is_log(row) or {"epoch", "target", "output"} <= row.keys(),
    read=_read,
)
