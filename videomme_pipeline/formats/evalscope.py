"""The reviews of EvalScope: one JSON line per question and repeat.

A review does not contain the options, so the annotations are needed to score one.
"""

from videomme_pipeline.formats.results_format import ResultsFormat, Row, mapping_or_empty
from videomme_pipeline.formats.stored_facts import beside


def _read(review: Row) -> list[Row]:
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


FORMAT = ResultsFormat(name="evalscope", recognizes=lambda row: "sample_score" in row, read=_read)
