"""The files with one entry per question that the benchmarks of vLLM-Omni and SGLang-Omni write.

Their answers are letters, so they are read without options.
"""

from collections.abc import Iterator

from videomme_pipeline.formats.results_format import ResultsFormat, Row, objects_in

_WITHOUT_LETTER = "unreadable"
"""The response of an item of vLLM-Omni from which no letter was read. The file has no texts."""


def _vllm_omni_rows(row: Row) -> Iterator[Row]:
    for item in objects_in(row["videomme_eval_items"]):
        letter = item.get("predicted") or (_WITHOUT_LETTER if item.get("parse_failed") else None)
        answer = item.get("gold_normalized", item.get("gold"))
        yield {**item, "task_type": item.get("task"), "answer": answer, "prediction": letter}


def _sglang_omni_rows(row: Row) -> Iterator[Row]:
    """Yield one row per question.

    The letter of the file is random if `is_mc_fallback` is true, so the text is read.
    """
    for item in objects_in(row["per_sample"]):
        yield {
            **item,
            "question_id": item.get("sample_id"),
            "answer": item.get("expected"),
            "pred_answer": item.get("predicted"),
            "prediction": item.get("raw_response"),
        }


VLLM_OMNI = ResultsFormat(
    name="vllm_omni",
    recognizes=lambda row: "videomme_eval_items" in row,
    read=_vllm_omni_rows,
    has_letters=True,
)
SGLANG_OMNI = ResultsFormat(
    name="sglang_omni",
    recognizes=lambda row: "per_sample" in row,
    read=_sglang_omni_rows,
    has_letters=True,
)
