"""The results file of the benchmark contract: one JSON line per question.

The contract's own columns come first: `example_id` (`video_001_q1`), `raw_output`,
`extracted_answer`, `is_correct` and `num_frames`. The question follows, so that the file can be
scored again. Its sub-category has the contract's name `subcategory`. `task_type` has the contract's
values (perception, reasoning, temporal), and the dataset's `task_type` is `task_category`.
"""

from collections.abc import Mapping, Sequence

from videomme_pipeline.benchmarks.facets import CONTRACT_NAMES
from videomme_pipeline.benchmarks.question import Question, example_ids
from videomme_pipeline.formats.dataset_rows import dataset_row, renamed
from videomme_pipeline.formats.results_format import ResultsFormat, Row
from videomme_pipeline.scoring.scored_question import ScoredQuestion


def _rows(questions: Sequence[Question], answers: Mapping[str, ScoredQuestion]) -> list[Row]:
    """One row per answer: `raw_output` is null if the request failed."""
    ids = example_ids(questions)
    return [
        {
            "example_id": ids[question.question_id],
            "raw_output": row.raw_output,
            "extracted_answer": row.extracted_answer,
            "is_correct": row.is_correct,
            "num_frames": row.num_frames,
            **_question(question),
        }
        for question in questions
        if (row := answers.get(question.question_id)) is not None
    ]


def _question(question: Question) -> Row:
    """The question with the contract's names. Without a `skill`, the dataset's task type is both
    `task_type` and `task_category`."""
    row = renamed(dataset_row(question), CONTRACT_NAMES)
    if "task_category" in row:
        row["task_type"] = question.facets.get("skill", row["task_category"])
    return row


FORMAT = ResultsFormat(
    name="contract",
    recognizes=lambda row: "example_id" in row and "raw_output" in row,
    read=lambda row: [row],
    rows=_rows,
)
