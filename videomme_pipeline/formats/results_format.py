"""The interface of a results-file format, and the columns that the formats share.

Tools have many names for the same column. A format whose values are nested puts them into its rows
under one of these names.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.scoring.scored_question import ScoredQuestion

Row = Mapping[str, Any]
"""One object of a results file: a question, or a video with its questions."""
TEXT_COLUMNS = ("prediction", "response", "raw_output")
"""Names of the column with the model's response, in the order in which they are looked up."""
_LETTERS = (
    *("pred_answer", "parsed_pred", "pred_letter", "predicted"),
    *("extracted_answer", "extracted_prediction"),
)
_SCORES = ("score", "is_correct", "hit")
_TOKENS = ("token_counts", "token_usage", "usage", "completion_tokens", "output_tokens")
_ENDS = ("finish_reason", "stop_reason")
_ERRORS = (
    *("error", "error_code", "error_info", "error_message", "error_msg", "error_type", "errors"),
    *("exception", "failed", "is_error"),
)
_STATES = ("is_success", "success", "ok", "status", "status_code", *_ENDS)
_NO_ERROR = {"", "-", "0", "200", "[]", "{}", "false", "n/a", "nan", "no error", "none", "null"}
_FAILED = re.compile(
    r"0|false|(?:abort|cancel|error|exception|fail|rate.?limit|time.?out|timed.?out|[45]\d\d\b).*"
)
_COLUMNS = (*_LETTERS, *_SCORES, *_TOKENS, *_ERRORS, *_STATES)
"""The names of the columns beside the response: letters, failures and ends of answers."""


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


def stated_letter(row: Row, question: Question) -> Letter | None:
    """The letter that the file states, or the correct one if the file only counts it as right."""
    value = _first(row, _LETTERS)
    text = str(value).strip().strip("()[]'.").upper()
    if value not in (None, "") and text in set(question.letters):
        return Letter(text)
    is_right = str(_first(row, _SCORES)).strip().lower() in ("1", "1.0", "true")
    return question.answer if is_right else None


def completion_tokens(row: Row) -> int | None:
    """The number of tokens of the answer, or None."""
    return _tokens(_first(row, _TOKENS))


def finish_reason(row: Row) -> str | None:
    """The reason why the answer ends, or None."""
    value = _first(row, _ENDS)
    return value if isinstance(value, str) else None


def failure(row: Row) -> str:
    """The failure that the file states beside a text, such as "is_success: False", or ""."""
    names = [name for name in (*_ERRORS, *_STATES) if name in row]
    words = {name: str(_stated(row[name])).strip().lower().removesuffix(".0") for name in names}
    failed = [name for name in _ERRORS if words.get(name, "") not in _NO_ERROR]
    failed += [name for name in _STATES if _FAILED.fullmatch(words.get(name, ""))]
    return f"{failed[0]}: {row[failed[0]]}"[:200] if failed else ""


def _stated(value: Any) -> Any:
    """The first value of an object that is not empty, or None. Any other `value` is unchanged."""
    return next(filter(None, value.values()), None) if isinstance(value, Mapping) else value


def beside(row: Row, *nested: Any) -> dict[str, Any]:
    """The known columns of `row` and of the mappings that are nested in it."""
    mappings: Iterable[Mapping[str, Any]] = map(mapping_or_empty, (*nested, row))
    return {name: mapping[name] for mapping in mappings for name in _COLUMNS if name in mapping}


def _first(row: Row, names: Iterable[str]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _tokens(value: Any) -> int | None:
    if isinstance(value, list):
        return _tokens(value[0]) if value else None
    if isinstance(value, Mapping):
        return _tokens(value.get("output_tokens", value.get("completion_tokens")))
    text = str(value)
    return int(text) if text.isdecimal() else None
