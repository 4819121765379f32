"""The interface of a results-file format."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.scoring.scored_question import ScoredQuestion

Row = Mapping[str, Any]
"""One object of a results file: a question, or a video with its questions."""


TEXT_COLUMNS = ("prediction", "response", "raw_output")
"""Names of the column with the model's response, in the order in which they are looked up."""


class TableRow(dict[str, Any]):
    """A row of a CSV or TSV file or of a workbook, whose cells are texts."""


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """`value` if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def objects_in(values: Iterable[object] | None) -> list[Row]:
    """The objects among `values`, such as the samples of a log."""
    return [value for value in values or () if isinstance(value, Mapping)]


def json_lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsFormat:
    """One format: a name on the command line, and the functions that read and write files.

    `recognizes(row)` returns True for an object of a file in this format. `read(row)` returns the
    questions in one object: rows with the columns of the published dataset and the model's text
    (`prediction`). A row without options is completed from the annotations, by `question_id` or
    else by `doc_id`, the number of the question in the dataset. `repeat` is the number of the
    repeat, from 0. `copy` numbers the texts of a file that does not say whether they are repeats.

    `rows(questions, answers)` returns the rows of a written file, or is None if the format is only
    read. `answers` are scored rows by question id, possibly not for all questions. `text(rows)`
    returns the text of the file.
    """

    name: str
    recognizes: Callable[[Row], bool]
    read: Callable[[Row], Iterable[Row]]
    rows: Callable[[Sequence[Question], Mapping[str, ScoredQuestion]], Sequence[Row]] | None = None
    text: Callable[[Sequence[Row]], str] = json_lines
