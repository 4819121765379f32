"""Annotation files: reading their rows, finding columns by name, and parsing cells."""

import ast
import codecs
import csv
import io
import json
import logging
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import model_validator

from videomme_pipeline.benchmarks.question import Letter, split_option
from videomme_pipeline.errors import AnnotationError, DamagedFileError, StorageError
from videomme_pipeline.fingerprint import Spec
from videomme_pipeline.storage.parquet import read_foreign_table

Cells = Mapping[str, Any]
"""One row of an annotation file, by column."""

SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
"""The endings of annotation files."""

_USUAL_NAMES: Mapping[str, Sequence[str]] = yaml.safe_load(
    Path(__file__).with_name("column_names.yaml").read_text("utf-8")
)
_LETTER = re.compile(r"\(?([A-N])\)?\s*[.:)]?")

_log = logging.getLogger(__name__)
_MAX_CELL_CHARACTERS = 1 << 30
_OPTION_COLUMN = re.compile(r"(option|choice|a)?(?:([a-n])|(\d\d?))", re.ASCII)
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_WHOLE_NUMBER = re.compile(r"(?:[^\W\d_]+[\s_-]*)?(-?\d{1,18})(?:\.0+)?")

AnswerKind = Literal["letter", "index", "index_from_1", "text"]
"""The way in which the answer column names the correct option. An `index` counts from 0."""
OptionsKind = Literal["any", "list", "lines"]
"""The form of the column with the options.

any: a list, a map by letter, or a text with one per line. Options without a letter get one.
list: a list with one text per letter of the benchmark. The texts are kept exactly.
lines: a text with one option per line, "A. …", "B. …" and so on. The lines are kept exactly.
"""


class Columns(Spec):
    """The names of the columns that a question is read from."""

    video: str | None = None
    """Path of the video. Without a suffix, the file with a suffix of videos is used."""
    video_id: str | None = None
    """Id of the video, instead of its path: the file `<id>.mp4` in any common layout is used."""
    youtube_id: str | None = None
    """The id in the names of the files, if it is not `video_id`."""
    question: str
    options: str | tuple[str, ...] | None = None
    """The column with all options, or one column per option. Without it, the options are the last
    lines of the question."""
    options_are: OptionsKind = "any"
    missing_options: tuple[str, ...] = ()
    """Texts that stand for no option, besides an empty cell. Only the last options may be missing,
    so that no option gets the letter of another one."""
    answer: str
    answer_is: AnswerKind = "letter"
    hidden_answers: tuple[str, ...] = ()
    """Texts that stand for an unpublished answer, besides an empty cell. Such rows are left out."""
    question_id: str | None = None
    """Without it, the questions on a video are numbered."""
    url: str | None = None
    clip_start: str | None = None
    """Start of the clip that is shown, in seconds of the video."""
    clip_end: str | None = None
    subtitle_file: str | None = None
    subtitle_start: str | None = None
    """Time in the subtitles at which the video begins, in seconds."""

    @model_validator(mode="after")
    def _one_name_of_the_video(self) -> Self:
        if (self.video is None) == (self.video_id is None):
            raise ValueError("set either `video` (a path) or `video_id`")
        if self.options_are != "any" and not isinstance(self.options, str):
            raise ValueError("`options_are` needs `options`, the column with all options")
        return self

    @property
    def names(self) -> list[str]:
        """All columns that a row must have."""
        rules = {"options_are", "missing_options", "answer_is", "hidden_answers"}
        optional = {"clip_start", "clip_end"}
        columns = self.model_dump(exclude={*rules, *optional}, exclude_none=True).values()
        names = [(column,) if isinstance(column, str) else column for column in columns]
        return list(chain.from_iterable(names))


def plain_name(column: str) -> str:
    """The name of a column without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", column.lower())


def columns_with(content: str, names: Iterable[str]) -> list[str]:
    """The columns with a usual name for this content (`video` …), the most specific ones first."""
    usual = _USUAL_NAMES[content]
    ranks = {name: usual.index(plain) for name in names if (plain := plain_name(name)) in usual}
    return sorted(ranks, key=ranks.__getitem__)


def option_columns(names: Iterable[str]) -> list[str]:
    """The columns of the single options, such as A, B and C, or `option0` and `option1`.

    A column that is not there has the name "", so that no option gets the letter of another one.
    """
    by_form = defaultdict[tuple[str, bool], dict[int, str]](dict)
    for name in names:
        if match := _OPTION_COLUMN.fullmatch(plain_name(name)):
            number = ord(match[2]) - ord("a") if match[2] else int(match[3])
            by_form[match[1], match[2] is None][number] = name
    form, columns = max(by_form.items(), key=lambda own: len(own[1]), default=(None, {}))
    first = 1 if form and form[1] and 0 not in columns else 0
    numbers = range(first, 1 + max(columns, default=0))
    return [columns.get(number, "") for number in numbers] if len(columns) > 1 else []


def read_rows(path: Path, inner: str | None = None) -> list[Cells]:
    """The rows of an annotation file. AnnotationErrors say why it cannot be read.

    `inner` is the key of a list of rows inside of each row. Each of them gets the columns of the
    outer row that it does not have itself.
    """
    if path.exists() and not path.is_file():
        raise AnnotationError(f"{path}: not a file; name the file with the questions")
    try:
        rows = _read(path)
        if inner is not None:
            rows = [{**row, **inner_row} for row in rows for inner_row in row[inner]]
        whole: list[Cells] = whole_characters(rows)
    except FileNotFoundError:
        raise AnnotationError(f"{path}: no such file") from None
    except RepeatedNameError as error:
        raise AnnotationError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise AnnotationError(
            f"{path}: line {line} is not UTF-8 (byte {error.object[error.start]:#04x}); save the "
            "file as UTF-8 (in Excel: `CSV UTF-8`)"
        ) from None
    except (DamagedFileError, StorageError, OSError, csv.Error) as error:
        raise AnnotationError(f"{path}: cannot be read ({error}); get it again") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AnnotationError(
            f"{path}: not a table of questions ({error!r}); annotations are a JSON list of "
            "objects, JSON lines, CSV, TSV or Parquet"
        ) from error
    if not rows:
        raise AnnotationError(f"{path}: it has no rows; get it again")
    if whole is not rows:
        _log.warning("%s: texts are cut inside a character, which is now U+FFFD", path)
    return whole


class RepeatedNameError(ValueError):
    """A column of a table, or a key of an object, that is there twice."""


def check_names(names: Sequence[str], kind: str = "column", owner: str = "") -> None:
    """Check that no name is there twice. Otherwise the last value would count, unnoticed.

    Names that differ only by blanks are the same, and blank names are no names. `kind` and `owner`
    are words for the RepeatedNameError.
    """
    numbers: dict[str, int] = {}
    for number, name in enumerate(map(str.strip, names), start=1):
        first = numbers.setdefault(name, number)
        if name and first != number:
            raise RepeatedNameError(
                f"the {kind} {name[:80]!r}{owner} is there twice, as {kind} {first:,} and {kind} "
                f"{number:,}; rename or remove one of them"
            )


def parse_json(text: str | bytes) -> Any:
    """The value of JSON text. RepeatedNameError if an object has a key twice."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        start = json.dumps(dict(pairs[:1]), ensure_ascii=False)[1:80]
        check_names([name for name, _ in pairs], "key", f" of the object that begins with {start}")
    return value


JSON_DECODER = json.JSONDecoder(object_pairs_hook=_object)
"""RepeatedNameError if an object has a key twice. Otherwise the last value would count."""


def parquet_rows(path: Path, largest_bytes: int | None = None) -> list[Cells]:
    """The rows of another program's Parquet file. ValueError if they need over `largest_bytes`."""
    table = read_foreign_table(path, largest_bytes)
    check_names(table.column_names)
    return [*table.to_pylist()]


def whole_characters(value: Any) -> Any:
    """`value`, or a copy of it in which U+FFFD replaces every half of a character.

    A text that was cut inside an emoji ends with half of it. No file in UTF-8 can contain that.
    """
    text = json.dumps(value, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(_HALF_CHARACTER.sub("\ufffd", text))
    return value


def _read(path: Path) -> list[Cells]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return parquet_rows(path)
    data = path.read_bytes()
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if is_utf16 else "utf-8-sig")
    if suffix in (".csv", ".tsv", ".txt"):
        rows = table_rows(text)
        absent = dict.fromkeys(chain.from_iterable(rows))
        return [{**absent, **row} for row in rows]
    if suffix == ".jsonl":
        return _objects([parse_json(line) for line in text.split("\n") if line.strip()])
    value = parse_json(text)
    if isinstance(value, dict):
        value = pandas_rows(value) or [
            {"id": label, **row} if isinstance(row, dict) else row for label, row in value.items()
        ]
    return _objects(value)


def table_rows(text: str) -> list[Cells]:
    """The rows of a table with a header, without blank ones. Its cells are texts.

    Tabs, commas or semicolons separate the cells. Absent last cells of a row are left out.
    """
    text = text.lstrip("\r\n")
    header = text.partition("\n")[0]
    delimiter = "\t" if "\t" in header else max(",;", key=header.count)
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names = next(reader, [])
    check_names(names)
    rows: list[Cells] = []
    for cells in reader:
        if len(cells) > len(names):
            raise ValueError(
                f"line {reader.line_num} has more cells than the header; put quotes around texts "
                f"with {delimiter!r}"
            )
        if any(map(str.strip, cells)):
            rows.append(dict(zip(names, cells, strict=False)))
    return rows


def pandas_rows(value: Mapping[str, Any]) -> list[Any]:
    """The rows of a table that `DataFrame.to_json` wrote as one object, or none for other objects.

    The orients `split`, `table`, `index` and `columns` are objects. A row has its label as `id` if
    the labels are not numbers. ValueError and TypeError if the lists do not fit.
    """
    rows, labels = list(value.values()), list(value)
    if value.keys() == {"schema", "data"}:
        return list(value["data"])
    if {"columns", "data"} <= value.keys() <= {"columns", "data", "index"}:
        check_names(names := list(map(str, value["columns"])))
        rows = [dict(zip(names, cells, strict=True)) for cells in value["data"]]
        labels = value.get("index") or ["0"] * len(rows)
    elif not rows or not all(isinstance(r, dict) and r.keys() == rows[0].keys() for r in rows):
        return []
    elif any(columns_with(content, value) for content in ("prediction", "answer")):
        labels = list(rows[0])
        rows = [{name: value[name][label] for name in value} for label in labels]
    elif not any(columns_with(content, rows[0]) for content in ("prediction", "answer")):
        return []
    if all(str(label).isdecimal() for label in labels):
        return rows
    return [{"id": label, **row} for label, row in zip(labels, rows, strict=True)]


def _objects(rows: Sequence[Any]) -> list[Cells]:
    """`rows`, which must be objects. The only list in a single object is taken instead of it."""
    if len(rows) == 1 and isinstance(rows[0], list):
        rows = rows[0]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of objects")
    return [
        {**nested, **row} if isinstance(nested := row.get("metadata"), dict) else row
        for row in rows
    ]


def whole_number_in(text: str) -> int | None:
    """The whole number in "2" or "Level 2", or None for other texts."""
    match = _WHOLE_NUMBER.fullmatch(text)
    return int(match[1]) if match else None


def text_in(value: object) -> str | None:
    """The text of a cell, or None for null, NaN and blank text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def seconds_in(value: object) -> float | None:
    """The seconds in a cell, or None if it is empty. ValueError if they are no time."""
    text = text_in(value)
    if text is None:
        return None
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{text} is not a time in seconds")
    return seconds


def list_in(value: object) -> list[Any] | Mapping[str, Any] | None:
    """The list or map in a cell. A text may be JSON, as in CSV files, or a Python literal."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{", "("):
        return None
    for parse in (parse_json, ast.literal_eval):
        try:
            parsed = parse(value)
        except RepeatedNameError:
            raise
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(parsed, list | tuple | dict):
            return list_in(parsed)
    return None


def question_and_options(row: Cells, columns: Columns) -> tuple[str, list[str]]:
    """The text of the question, and its options with their letters."""
    question = row[columns.question]
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"`{columns.question}` must be a text, found {question!r}")
    if columns.options_are != "any" and isinstance(columns.options, str):
        return question, _exact_options(row[columns.options], columns)
    if columns.options is None:
        stem, options = split_options(question)
    elif isinstance(columns.options, str):
        stem, options = question, options_in(row[columns.options])
    else:
        stem, options = question, [row[name] for name in columns.options]
    texts = without_missing(options, columns.missing_options)
    if len(texts) < 2:
        where = columns.options or columns.question
        raise ValueError(f"`{where}` must have at least two options, found {texts or 'none'}")
    return stem, lettered(texts)


def without_missing(options: Sequence[object], marks: Collection[str] = ()) -> list[str]:
    """The texts of the options before the first missing one: an empty cell, or one of `marks`."""
    texts = [None if (text := text_in(cell)) in marks else text for cell in options]
    kept = [text for text in texts if text is not None]
    if kept != texts[: len(kept)]:
        gap = texts.index(None)
        raise ValueError(
            f"option {chr(ord('A') + gap)} is empty, but a later one is {kept[gap]!r}; correct the "
            "row, because its letters are unclear"
        )
    letters = [letter for text in kept if (letter := split_option(text)[0])]
    has_gap = not set(tuple(Letter)[: len(kept)]).issuperset(letters)
    if has_gap and "A" in letters and len(set(letters)) == len(kept):
        raise ValueError(f"the options have the letters {', '.join(letters)}; correct the row")
    return kept


def lettered(options: Sequence[str]) -> list[str]:
    """Options with their letters: "A. Apples." for "Apples." Those that have letters keep them."""
    letters = tuple(Letter)[: len(options)]
    if [split_option(option)[0] for option in options] == list(letters):
        return list(options)
    return [f"{letter}. {option}" for letter, option in zip(letters, options, strict=False)]


class UnmatchedAnswerError(ValueError):
    """An answer that is the text of none of the options."""


def answer_in(value: object, kind: AnswerKind, options: Sequence[str]) -> Letter:
    """The letter of the correct option. ValueError if the cell names none of the options.

    If several options have the text of the answer, the last one counts, as in the evaluations of
    MLVU and MVBench by their authors, and in VLMEvalKit.
    """
    letters = tuple(Letter)[: len(options)]
    text = text_in(value) or ""
    match kind:
        case "letter":
            match = _LETTER.fullmatch(text.upper())
            chosen = [letter for letter in letters if match and letter == match[1]]
        case "text":
            chosen = letters_of(text, options) or letters_of(text, options, exactly=False)
        case _:
            first = 0 if kind == "index" else 1
            index = int(text) - first if text.removeprefix("-").isdecimal() else -1
            chosen = [letters[index]] if 0 <= index < len(letters) else []
    if chosen:
        return chosen[-1]
    is_text = kind == "text"
    offered, error = (options, UnmatchedAnswerError) if is_text else (letters, ValueError)
    raise error(f"the answer {text!r} matches none of the options {', '.join(offered)}")


def letters_of(text: str, options: Sequence[str], *, exactly: bool = True) -> list[Letter]:
    """The letters of the options with this text, or with the same text without case and spaces."""
    spelling = str if exactly else without_case_and_spaces
    return [
        letter
        for letter, option in zip(Letter, options, strict=False)
        if spelling(text) in (spelling(option), spelling(split_option(option)[1]))
    ]


def without_case_and_spaces(text: str) -> str:
    """`text` in the form in which texts of questions and options are compared."""
    return "".join(text.casefold().split())


def column_of(column: str, value: str) -> str:
    """The facet column of one value of a column with several values."""
    return f"{column}_{re.sub(r'[^a-z0-9]+', '_', value.lower()).strip('_')}"


def _exact_options(cell: object, columns: Columns) -> list[str]:
    """The options exactly as published: the texts of a list, or the lines of a text."""
    if columns.options_are == "list":
        if isinstance(cell, list) and all(isinstance(text, str) and text.strip() for text in cell):
            return cell
        raise ValueError(f"`{columns.options}` must be a list of texts, found {cell!r}")
    before, options = split_options(cell.lstrip("\n")) if isinstance(cell, str) else ("", [])
    if before or len(options) < 2:
        raise ValueError(
            f"`{columns.options}` must be one text with lines A., B. and so on, found {cell!r}"
        )
    return options


def options_in(cell: object) -> list[Any]:
    """The options in a cell: a list, a map by letter, or a text with one per line."""
    options = list_in(cell)
    if isinstance(options, Mapping):
        keys = sorted(options, key=lambda key: (len(str(key)), str(key)))
        if not set(Letter).issuperset(keys):
            return [options[key] for key in keys]
        texts = {key: text_in(options.get(key)) for key in Letter if key <= max(keys, default="")}
        return [None if text is None else f"{key}. {text}" for key, text in texts.items()]
    if options is not None:
        return list(options)
    return split_options(cell)[1] if isinstance(cell, str) else []


def split_options(text: str) -> tuple[str, list[str]]:
    """The lines before option A, and the options, each with all its lines.

    A line begins the next option only if it starts with the next letter, because an option may
    contain newlines.
    """
    lines = text.split("\n")
    starts: list[int] = []
    for number, line in enumerate(lines):
        if split_option(line)[0] in tuple(Letter)[len(starts) : len(starts) + 1]:
            starts.append(number)
    ends = [*starts[1:], len(lines)]
    options = ["\n".join(lines[start:end]) for start, end in zip(starts, ends, strict=False)]
    return "\n".join(lines[: starts[0] if starts else None]).strip(), options
