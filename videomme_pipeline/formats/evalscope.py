"""The reviews and predictions of EvalScope: one JSON line per question and repeat.

They do not contain the options, so the annotations are needed to score them.
"""

from videomme_pipeline.formats.results_format import (
    ResultsFormat,
    Row,
    mapping_or_empty,
    objects_in,
)
from videomme_pipeline.formats.stored_facts import beside


def _read(review: Row) -> list[Row]:
    if "sample_score" not in review:
        return [_prediction(review)]
    scored = mapping_or_empty(review.get("sample_score"))
    target = review.get("target")
    return [
        {
            "doc_id": scored.get("group_id", review.get("index")),
            "answer": target[0] if isinstance(target, list) and target else target,
            **mapping_or_empty(scored.get("sample_metadata")),
            "repeat": scored.get("generation_index") or 0,
            **beside(scored, scored.get("score")),
            "prediction": mapping_or_empty(scored.get("score")).get("prediction"),
        }
    ]


def _prediction(row: Row) -> Row:
    output = mapping_or_empty(row["model_output"])
    choice = next(iter(objects_in(output.get("choices"))), {})
    return {
        "doc_id": row.get("index"),
        **mapping_or_empty(row.get("metadata")),
        **beside(output, choice),
        "prediction": mapping_or_empty(choice.get("message")).get("content"),
    }


FORMAT = ResultsFormat(
    name="evalscope",
    recognizes=lambda row: "sample_score" in row or {"model_output", "messages"} <= row.keys(),
    read=_read,
)
