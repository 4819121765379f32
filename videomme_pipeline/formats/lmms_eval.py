"""lmms-eval's samples file: one JSON line per question, often with a dataset row in `doc`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.formats.dataset_rows import dataset_row, raw_text, renamed
from videomme_pipeline.formats.results_format import ResultsFormat, Row, objects_in
from videomme_pipeline.formats.stored_facts import beside
from videomme_pipeline.scoring.scored_question import ScoredQuestion

_TEXTS = ("resps", "filtered_resps")
"""The columns with the texts of a sample, before and after the filters of the task."""
_LMMS_EVAL_NAMES = {"domain": "category", "task_type": "task_category"}
"""The lmms-eval names of v1 facets that have another name there."""


def _is_log(row: Row) -> bool:
    """True for the whole log that older versions of lmms-eval write."""
    return "logs" in row and "model_configs" in row


def _is_sample(row: Row) -> bool:
    return "doc" in row or ("doc_id" in row and not row.keys().isdisjoint(_TEXTS))


def _read(row: Row) -> Iterator[Row]:
    for sample in objects_in(row["logs"]) if _is_log(row) else (row,):
        yield from _read_sample(sample) if _is_sample(sample) else (sample,)


def _read_sample(sample: Row) -> Iterator[Row]:
    """Yield one row per text: the row under `doc`, or the ids of the question, with the text.

    `filtered_resps` has one entry per answer. `resps` may have more, because batches of several
    GPUs are padded with copies.

    Current versions of lmms-eval do not write `doc`. The question id is then in the entry of the
    metric. These versions write `resps` only if a filter changed the texts. LongVideoBench calls
    the question id `id`, and its target is a number.
    """
    doc = sample.get("doc")
    metrics = objects_in(value for name, value in sample.items() if name != "doc")
    facts = beside(sample, *metrics)
    if not isinstance(doc, Mapping):
        doc = {
            "doc_id": sample.get("doc_id"),
            "answer": sample.get("target"),
            **{k: m[k] for m in metrics for k in ("question_id", "id", "answer") if k in m},
        }
    texts = [list(_leaves(sample[name])) for name in _TEXTS if name in sample] or [[None]]
    answers = max(1, len(texts[-1]))
    are_texts = all(value is None or isinstance(value, str) for value in texts[0])
    for number, text in enumerate((texts[0] if are_texts else texts[0][:1]) or [None]):
        yield {**facts, **doc, "copy": number % answers, "prediction": text}


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested lists."""
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _rows(questions: Sequence[Question], answers: Mapping[str, ScoredQuestion]) -> list[Row]:
    return [
        _sample(question, row)
        for question in questions
        if (row := answers.get(question.question_id)) is not None
    ]


def _sample(question: Question, row: ScoredQuestion) -> Row:
    """The dataset row, the text, and the metric entry with lmms-eval's names for the facets."""
    benchmark, doc = find_benchmark(question.benchmark), dataset_row(question)
    facets = {facet.column: doc[facet.column] for facet in benchmark.published_facets}
    if benchmark.grouping:
        metric, names = "videomme_v2_overall_score", {"video_id": question.video_id, **facets}
    else:
        labels = renamed(facets, _LMMS_EVAL_NAMES)
        metric, names = "videomme_perception_score", {"videoID": question.youtube_id, **labels}
    return {
        "doc_id": question.question_id,
        "doc": doc,
        "target": question.answer,
        "resps": [[raw_text(row)]],
        "filtered_resps": [raw_text(row)],
        metric: {
            "question_id": question.question_id,
            "pred_answer": row.extracted_answer or "",
            "answer": question.answer,
            "score": float(row.is_correct),
            **names,
        },
    }


FORMAT = ResultsFormat(
    name="lmms_eval", recognizes=lambda row: _is_log(row) or _is_sample(row), read=_read, rows=_rows
)
