"""Files with one row per answer: of the benchmark contract, of lmms-eval and of VLMEvalKit.

The contract's JSON lines begin with its own columns: `example_id` (`video_001_q1`), `raw_output`,
`extracted_answer`, `is_correct` and `num_frames`. The question follows, so that the file can be
scored again. Its sub-category has the contract's name `subcategory`. `task_type` has the contract's
values (perception, reasoning, temporal), and the dataset's `task_type` is `task_category`.

lmms-eval's samples are JSON lines, often with a dataset row in `doc`.

VLMEvalKit's table has the dataset's rows with other column names, tab-separated. The video id is in
`video`. The options of v1 are in `candidates`, as a Python list written as text.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from videomme_pipeline.benchmarks.facets import CONTRACT_NAMES
from videomme_pipeline.benchmarks.question import Question, example_ids
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.formats.dataset_rows import dataset_row, name_of, raw_text, renamed
from videomme_pipeline.formats.results_format import ResultsFormat, Row, beside, objects_in
from videomme_pipeline.scoring.scored_question import ScoredQuestion

_Answers = Mapping[str, ScoredQuestion]
"""Scored rows by question id."""

_TEXTS = ("resps", "filtered_resps")
"""The columns with the texts of a sample of lmms-eval, before and after the task's filters."""
_LMMS_EVAL_NAMES = {"domain": "category", "task_type": "task_category"}
"""The lmms-eval names of v1 facets that have another name there."""


def _answered(
    questions: Sequence[Question], answers: _Answers
) -> Iterator[tuple[Question, ScoredQuestion]]:
    for question in questions:
        if (row := answers.get(question.question_id)) is not None:
            yield question, row


def _contract_rows(questions: Sequence[Question], answers: _Answers) -> list[Row]:
    """One row per answer: `raw_output` is null if the request failed."""
    ids = example_ids(questions)
    return [
        {
            "example_id": ids[question.question_id],
            "raw_output": row.raw_output,
            "extracted_answer": row.extracted_answer,
            "is_correct": row.is_correct,
            "num_frames": row.num_frames,
            **_contract_question(question),
        }
        for question, row in _answered(questions, answers)
    ]


def _contract_question(question: Question) -> Row:
    """The question with the contract's names. Without a `skill`, the dataset's task type is both
    `task_type` and `task_category`."""
    row = renamed(dataset_row(question), CONTRACT_NAMES)
    if "task_category" in row:
        row["task_type"] = question.facets.get("skill", row["task_category"])
    return row


def _is_log(row: Row) -> bool:
    """True for the whole log that older versions of lmms-eval write."""
    return "logs" in row and "model_configs" in row


def _is_sample(row: Row) -> bool:
    return "doc" in row or ("doc_id" in row and not row.keys().isdisjoint(_TEXTS))


def _read_lmms_eval(row: Row) -> Iterator[Row]:
    for sample in objects_in(row["logs"]) if _is_log(row) else (row,):
        yield from _read_sample(sample) if _is_sample(sample) else (sample,)


def _read_sample(sample: Row) -> Iterator[Row]:
    """Yield one row per text: the row under `doc`, or the ids of the question, with the text.

    `filtered_resps` has one entry per answer. `resps` may have more, because batches of several
    GPUs are padded with copies. Current versions of lmms-eval write `resps` only if a filter
    changed the texts, and no `doc`: the question id is in the entry of the metric. LongVideoBench
    calls it `id`, and its target is a number.
    """
    doc = sample.get("doc")
    metrics = objects_in(value for name, value in sample.items() if name != "doc")
    facts = beside(sample, *metrics)
    if not isinstance(doc, Mapping):
        doc = {
            "doc_id": sample.get("doc_id"),
            "answer": sample.get("target"),
            **{key: value for metric in metrics for key, value in metric.items()},
        }
    texts = [list(_leaves(sample[name])) for name in _TEXTS if name in sample] or [[None]]
    answers = max(1, len(texts[-1]))
    are_texts = all(value is None or isinstance(value, str) for value in texts[0])
    for number, text in enumerate((texts[0] if are_texts else texts[0][:1]) or [None]):
        yield {**facts, **doc, "copy": number % answers, "prediction": text}


def _leaves(value: Any) -> Iterator[Any]:
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _leaves(item)


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


def _vlmevalkit_rows(questions: Sequence[Question], answers: _Answers) -> list[Row]:
    rows: list[Row] = []
    for question, answer in _answered(questions, answers):
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


CONTRACT = ResultsFormat(
    name="contract",
    recognizes=lambda row: "example_id" in row and "raw_output" in row,
    read=lambda row: [row],
    rows=_contract_rows,
)
LMMS_EVAL = ResultsFormat(
    name="lmms_eval",
    recognizes=lambda row: _is_log(row) or _is_sample(row),
    read=_read_lmms_eval,
    rows=lambda questions, answers: list(starmap(_sample, _answered(questions, answers))),
)
VLMEVALKIT = ResultsFormat(
    name="vlmevalkit",
    recognizes=lambda row: not row.keys().isdisjoint({"video", "candidates"}),
    read=lambda row: [{**row, "video_id": name_of(row, "video_id") or row.get("video")}],
    rows=_vlmevalkit_rows,
    text=_table,
)
