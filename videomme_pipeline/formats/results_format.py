"""The interface of a results-file format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.scoring.scored_question import ScoredQuestion

Row = Mapping[str, Any]
"""One object of a results file: a question, or a video with its questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRows:
    """Rows with the columns of the published dataset and the model's text (`prediction`).

    A row without options is completed from the annotations, by its `question_id` or else by its
    `doc_id`, the number of the question in the dataset. `repeat` is the number of the repeat, from
    0. `notes` are sentences about the parts of the file that were left out.
    """

    rows: Sequence[Row]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsFormat:
    """One format: its name on the command line and its functions.

    `recognizes` returns True if the rows of a file are in this format. `read` converts them to
    `DatasetRows`; its second argument is `skip_missing`. `write` returns the text of a file with
    the answers to `questions`; `answers` are scored rows by question id, possibly not all. Its
    third argument has further columns of every row, such as `not_citable`. It is None if the format
    is only read. `suffix` is the usual ending of a written file.
    """

    name: str
    recognizes: Callable[[Sequence[Row]], bool]
    read: Callable[[Sequence[Row], bool], DatasetRows]
    suffix: str = ".jsonl"
    write: Callable[[Sequence[Question], Mapping[str, ScoredQuestion], Row], str] | None = None
