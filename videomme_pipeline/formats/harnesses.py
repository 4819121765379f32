"""Files of other harnesses and engines that are only read."""

from collections.abc import Iterator
from typing import Any

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.formats.results_format import (
    ResultsFormat,
    Row,
    beside,
    mapping_or_empty,
    objects_in,
)

_WITHOUT_LETTER = "unreadable"
"""The response of an item of vLLM-Omni from which no letter was read. The file has no texts."""


def _is_inspect_log(row: Row) -> bool:
    return "eval" in row and "samples" in row


def _read_inspect(row: Row) -> Iterator[Row]:
    """Yield the metadata of each sample, which often has the dataset's columns, and its answer."""
    for sample in objects_in(row["samples"]) if _is_inspect_log(row) else [row]:
        question, choices = sample.get("input"), sample.get("choices")
        output = mapping_or_empty(sample.get("output"))
        choice = next(iter(objects_in(output.get("choices"))), {})
        scores = objects_in(mapping_or_empty(sample.get("scores")).values())
        yield {
            "question_id": sample.get("id"),
            **({"question": question} if isinstance(question, str) else {}),
            "options": choices,
            "answer": _first(sample.get("target")),
            **beside(
                sample, output, choice, *({"pred_answer": score.get("answer")} for score in scores)
            ),
            **mapping_or_empty(sample.get("metadata")),
            "repeat": int(sample["epoch"]) - 1,
            "prediction": _completion(sample["output"]),
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


def _read_evalscope(row: Row) -> Iterator[Row]:
    """Yield the row of a review, or of a prediction. Neither has the options."""
    if "sample_score" in row:
        scored = mapping_or_empty(row["sample_score"])
        score = mapping_or_empty(scored.get("score"))
        yield {
            "doc_id": scored.get("group_id", row.get("index")),
            "answer": _first(row.get("target")),
            **mapping_or_empty(scored.get("sample_metadata")),
            "repeat": scored.get("generation_index") or 0,
            **beside(scored, score),
            "prediction": score.get("prediction"),
        }
        return
    output = mapping_or_empty(row["model_output"])
    choice = next(iter(objects_in(output.get("choices"))), {})
    yield {
        "doc_id": row.get("index"),
        **mapping_or_empty(row.get("metadata")),
        **beside(output, choice),
        "prediction": _completion(output),
    }


def _read_every_eval_ever(instance: Row) -> Iterator[Row]:
    """Yield the row of an instance, whose `metadata` may have the dataset's columns."""
    asked = mapping_or_empty(instance.get("input"))
    metadata = mapping_or_empty(instance.get("metadata"))
    answer, choices = _first(asked.get("reference")), asked.get("choices") or []
    if answer in choices:  # some tools refer to an option by its text
        answer = tuple(Letter)[choices.index(answer)]
    texts = mapping_or_empty(instance.get("output")).get("raw")
    read = next(iter(objects_in(instance.get("answer_attribution"))), {})
    yield {
        "question_id": instance.get("sample_id"),
        "question": asked.get("raw"),
        "answer": answer,
        "options": choices,
        # Files converted from logs of Inspect number the epochs.
        **({"repeat": int(metadata["epoch"]) - 1} if "epoch" in metadata else {}),
        **beside(instance, instance.get("evaluation")),
        "pred_answer": read.get("extracted_value"),
        **metadata,
        "prediction": texts[0] if texts else None,
    }


def _read_vllm_omni(row: Row) -> Iterator[Row]:
    for item in objects_in(row["videomme_eval_items"]):
        letter = item.get("predicted") or (_WITHOUT_LETTER if item.get("parse_failed") else None)
        yield {**item, "task_type": item.get("task"), "prediction": letter}


def _read_sglang_omni(row: Row) -> Iterator[Row]:
    """Yield one row per question, with its text: a letter is random if `is_mc_fallback` is true."""
    for item in objects_in(row.get("per_sample", [row])):
        yield {**item, "prediction": item.get("raw_response")}


def _first(value: Any) -> Any:
    """The first item of a list, or None if it is empty, or `value` itself."""
    return next(iter(value), None) if isinstance(value, list) else value


FORMATS = (
    ResultsFormat(
        name="vllm_omni", recognizes=lambda row: "videomme_eval_items" in row, read=_read_vllm_omni
    ),
    ResultsFormat(
        name="sglang_omni",
        recognizes=lambda row: "per_sample" in row or "is_mc_fallback" in row,
        read=_read_sglang_omni,
    ),
    ResultsFormat(
        name="inspect",
        recognizes=lambda row: _is_inspect_log(row) or {"epoch", "target", "output"} <= row.keys(),
        read=_read_inspect,
    ),
    ResultsFormat(
        name="evalscope",
        recognizes=lambda row: "sample_score" in row or {"model_output", "messages"} <= row.keys(),
        read=_read_evalscope,
    ),
    ResultsFormat(
        name="every_eval_ever",
        recognizes=lambda row: {"sample_id", "answer_attribution"} <= row.keys(),
        read=_read_every_eval_ever,
    ),
)
