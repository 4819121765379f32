"""Rows with the columns of the published datasets, converted to questions and back.

All formats share these columns; only the names and the nesting differ.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import PurePosixPath
from typing import Any

from videomme_pipeline.benchmarks import columns
from videomme_pipeline.benchmarks.facets import Facets, FacetValue, with_dataset_names, with_derived
from videomme_pipeline.benchmarks.question import Letter, Question, option_texts, split_option
from videomme_pipeline.benchmarks.registry import find_benchmark, registered_benchmarks
from videomme_pipeline.errors import one_line
from videomme_pipeline.fetch.release import FOOTAGE_SUFFIXES
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.formats.results_format import TEXT_COLUMNS, Row
from videomme_pipeline.scoring.readers.careful import read_careful
from videomme_pipeline.scoring.scored_question import ScoredQuestion

_MAX_LIST_ITEMS = 100_000
"""The number of characters in the longest list of options that is written as text."""
_NUMBER_IN_VIDEO = re.compile(r"(?<=.)[-_]\w{1,3}$")
_START_CHARACTERS = 40
"""The part of a response in which a letter is looked for if a file has no options."""
_TAG = re.compile(r"</?answer>", re.IGNORECASE)
_BLANK = {"", "none", "nan", "null"}


@dataclass(frozen=True)
class Annotations:
    """The questions of a dataset in their order. If they `are_whole`, none may be missing."""

    questions: Sequence[Question]
    are_whole: bool = False

    @cached_property
    def by_id(self) -> Mapping[str, Question]:
        return {question.question_id: question for question in self.questions}

    @cached_property
    def by_text(self) -> Mapping[str, Sequence[Question]]:
        """The questions by their text without case and spaces."""
        by_text = defaultdict[str, list[Question]](list)
        for question in self.questions:
            by_text[columns.without_case_and_spaces(question.question)].append(question)
        return by_text

    def find(self, row: Row, options: Sequence[str], own: Question | None) -> Question | None:
        """The question of `row`, by its id, by its text and its video, or else by its number.

        If the id is that of one question, and the text and the video are those of another one,
        the id is only the number of the row.
        `own` is the question as the row has it, or None if it is not complete.
        """
        question_id, video = name_of(row, "question_id"), name_of(row, "video_id")
        # lmms-eval has the text of a question of MLVU as its id.
        text = columns.text_in(row.get("question")) or question_id or ""
        alike = self.by_text.get(columns.without_case_and_spaces(text), ())
        alike = [question for question in alike if _is_about(question, video)]
        if len(alike) > 1 and options:
            alike = [q for q in alike if _texts(q.options) == _texts(options)]
        by_id = self.by_id.get(question_id or "")
        if by_id and (len(alike) != 1 or by_id in alike):
            return by_id
        if len(alike) == 1:
            return alike[0]
        return None if own or question_id else self.at(row.get("doc_id"))

    def at(self, number: object) -> Question | None:
        """The question with this number, from 0, or None if there is none."""
        text = str(number)
        exists = text.isdecimal() and int(text) < len(self.questions)
        return self.questions[int(text)] if exists else None


def question_of(row: Row, benchmark: str) -> Question:
    """The question in `row`. ValueErrors say what is missing or wrong.

    Without a `question_id`, the text and the options make the id, so that it is the same one in
    files with other rows or another order.
    """
    video_id = name_of(row, "video_id")
    if video_id is None:
        raise ValueError("it has no `video_id`")
    options, text = _options(row, benchmark), columns.text_in(row.get("question")) or ""
    declared = find_benchmark(benchmark).columns
    answer = _letter(columns.text_in(row.get("answer")) or "", options)
    with suppress(ValueError):
        if declared is not None and declared.answer in row:
            answer = columns.answer_in(row[declared.answer], declared.answer_is, options)
    if answer is None:
        raise ValueError(f"`answer` is {row.get('answer')!r}, not a letter A to N or an option")
    if answer not in tuple(Letter)[: len(options)]:
        raise ValueError(f"`answer` is {answer}, but there are only {len(options)} options")
    return Question(
        benchmark=benchmark,
        question_id=name_of(row, "question_id") or f"{video_id}-{fingerprint(text, options)[:8]}",
        video_id=video_id,
        youtube_id=name_of(row, "videoID"),
        url=name_of(row, "url"),
        question=text,
        options=options,
        answer=answer,
        facets=_facets(row, benchmark),
    )


def known_question(row: Row, benchmark: str, annotations: Annotations) -> tuple[Question, str]:
    """The question of `row`, from the annotations, and how the row differs from it, or "".

    The question as the row has it counts if the annotations, which may be those of a part of the
    benchmark, do not have it. Case and spaces make no difference. ValueErrors say that neither the
    row nor the annotations have the question.
    """
    question_id, number, answer = name_of(row, "question_id"), row.get("doc_id"), row.get("answer")
    answer = None if isinstance(answer, Mapping) else columns.text_in(answer)
    options = _options(row, benchmark) if row.get("options") else ()
    own = question_of(row, benchmark) if options and answer and row.get("video_id") else None
    question = annotations.find(row, options, own)
    if question is None and own:
        return own, "the dataset does not have its question" if annotations.are_whole else ""
    text = columns.text_in(row.get("question")) or ""
    if question is None:
        named = f"`question_id` {question_id}" if question_id else f"`doc_id` {number}"
        asked = f"text {text[:40]!r} on video {name_of(row, 'video_id')}"
        by = named if question_id or number is not None else asked
        raise ValueError(f"the annotations have no question with the {by}")
    asked, published = map(columns.without_case_and_spaces, (text, question.question))
    if text and published not in asked:  # a prompt contains the question
        return question, "the question has another text in the dataset"
    if options and _texts(options) != _texts(question.options):
        return question, "the options are others in the dataset"
    answer = own.answer if own else answer or question.answer
    index = question.letters.index(question.answer)
    is_index = own is None and answer in (str(index), str(index + 1))
    if is_index or _letter(answer, question.options) == question.answer:
        return question, ""
    return question, f"the answer is {answer[:40]}, and {question.answer} in the dataset"


def _is_about(question: Question, video: str | None) -> bool:
    """True if `video`, an id or the path of a file, is the video of `question`, or None."""
    ids = {question.youtube_id, *_names(question.video_id)}
    ids |= _names(question.footage.video_file or "")
    return video is None or not ids.isdisjoint(_names(video))


def _names(video: str) -> set[str]:
    """`video`, an id or the path of a file, and the name of the file without its suffix."""
    path = PurePosixPath(video)
    return {video, path.stem if path.suffix.lower() in FOOTAGE_SUFFIXES else path.name}


def _texts(options: Sequence[str]) -> list[str]:
    """The texts of `options` in the form in which they are compared."""
    return list(map(columns.without_case_and_spaces, option_texts(options)))


def _letter(answer: str, options: Sequence[str]) -> Letter | None:
    """The letter of an answer such as "D", "(D)", "(D) TV show", "TV show" or "<answer>D</answer>".

    ValueError if the letter is that of one option, and the text that of another one.
    """
    answer = _TAG.sub("", answer).strip()
    with suppress(ValueError):
        return columns.answer_in(answer, "letter", tuple(Letter))
    letter, text = split_option(answer)
    equal = columns.letters_of(answer, options, exactly=False)
    of_text = columns.letters_of(text, options, exactly=False) if letter else equal
    if not equal and of_text and letter not in of_text:
        raise ValueError(f"`answer` is {answer!r}, but this is the text of {', '.join(of_text)}")
    return equal[0] if len(equal) == 1 else letter


def with_letters(rows: Sequence[Row], benchmark: str) -> Sequence[Row]:
    """`rows` with letters instead of indices, if all answers that they have are indices of options.

    The indices begin with 0 if one is 0, and with 1 if one is the number of the options.
    """
    answers = [columns.text_in(row.get("answer")) or "" for row in rows]
    if any(answers) and not all(answers):
        lettered = iter(with_letters([*compress(rows, answers)], benchmark))
        return [next(lettered) if own else row for row, own in zip(rows, answers, strict=True)]
    declared = find_benchmark(benchmark).columns
    if declared and declared.answer_is != "letter" and all(declared.answer in r for r in rows):
        return rows  # those of the dataset, whose answers the declaration explains
    if not all(map(str.isdecimal, answers)) or not all(row.get("options") for row in rows):
        return rows
    kind: columns.AnswerKind = "index" if "0" in answers else "index_from_1"
    try:
        options = [_options(row, benchmark) for row in rows]
        letters = [
            columns.answer_in(answer, kind, own)
            for answer, own in zip(answers, options, strict=True)
        ]
    except ValueError:
        return rows
    names_last = any(int(answer) == len(own) for answer, own in zip(answers, options, strict=True))
    if any(map(columns.letters_of, answers, options)) or (kind != "index" and not names_last):
        return rows
    return [{**row, "answer": letter} for row, letter in zip(rows, letters, strict=True)]


def with_lettered_options(
    rows: Sequence[Row], benchmark: str, *, has_texts: bool, has_shards: bool
) -> Sequence[Row]:
    """`rows` with the letters of `benchmark` as options, if letters are all that they need.

    Half of the right answers must be letters, and half of the responses must begin with a text in
    which a letter is read, unless the rows have `has_texts`. The number of a question in the
    dataset is its id if it has no other one, and no `has_shards`.
    """
    letters = sorted(find_benchmark(benchmark).letters)
    ids = ("question_id",) if has_shards else ("question_id", "doc_id")
    named = [
        {**row, "question_id": next(filter(None, (name_of(row, name) for name in ids)), None)}
        for row in rows
    ]
    answered = [row for row in named if columns.text_in(row.get("answer"))]
    right = [_letter(str(row["answer"]), ()) if row["question_id"] else None for row in answered]
    texts = [text for row in answered if (text := columns.text_in(response_in(row)))]
    read = [read_careful(text[:_START_CHARACTERS], letters, ()).letter for text in texts]
    for given in (right, letters if has_texts else read):
        if not given or 2 * sum(letter in letters for letter in given) < len(given):
            return rows
    return [{**row, "options": letters} for row in named]


def with_video_of_id(row: Row) -> Row:
    """`row` on the video that its id names: "001" for "001-2"."""
    return {**row, "video_id": _NUMBER_IN_VIDEO.sub("", name_of(row, "question_id") or "")}


def response_in(row: Row) -> Any:
    """The value of the column with the model's response, or None."""
    values = [row[name] for name in TEXT_COLUMNS if name in row]
    return next((value for value in values if columns.text_in(value)), None)


def dataset_row(question: Question) -> dict[str, Any]:
    """`question` with the columns of its dataset, in their order."""
    benchmark = find_benchmark(question.benchmark)
    values: dict[str, Any] = {
        **{facet.column: question.facets.get(facet.column) for facet in benchmark.published_facets},
        "video_id": question.video_id,
        "url": question.url,
        "videoID": question.youtube_id,
        "question_id": question.question_id,
        "question": question.question,
        "options": list(question.options),
        "answer": question.answer,
    }
    if benchmark.has_text_cells:
        numbers = {name: str(value) for name, value in values.items() if isinstance(value, int)}
        values |= {"options": "\n".join(question.options), **numbers}
    return {column: values[column] for column in benchmark.exported_columns}


def raw_text(row: ScoredQuestion | None) -> str:
    """The response in `row`, or an empty text if there is none."""
    return "" if row is None or row.raw_output is None else row.raw_output


def renamed(row: Row, names: Mapping[str, str]) -> dict[str, Any]:
    """`row` with new names for the columns in `names`."""
    return {names.get(column, column): value for column, value in row.items()}


def name_of(row: Row, column: str) -> str | None:
    """The id or facet in `column` as one printable line, or None for null, NaN and their words."""
    value = row.get(column)
    text = str(columns.text_in(value) if isinstance(value, float) else value)
    return None if text.strip().lower() in _BLANK else one_line(text)


def _facets(row: Row, benchmark: str) -> Facets:
    """The facets of `benchmark` that `row` has, and texts that are facets of any other one."""
    declared = find_benchmark(benchmark)
    row = with_dataset_names(row, declared.facets)
    others = (facet for other in registered_benchmarks() for facet in other.published_facets)
    kinds: dict[str, type] = {facet.column: facet.kind for facet in others if facet.kind is str}
    kinds |= {facet.column: facet.kind for facet in declared.facets}
    names = ("duration", declared.group_facet)
    closed = {facet.column: facet.values for facet in declared.facets if facet.column in names}
    values = {name: _facet(row, name, kind, closed.get(name)) for name, kind in kinds.items()}
    return with_derived(values, declared.facets)


def _facet(
    row: Row, column: str, kind: type, closed: Sequence[FacetValue] | None
) -> FacetValue | None:
    text = name_of(row, column)
    if text is None:
        return None
    if closed and text not in closed:
        raise ValueError(f"`{column}` is {text!r}, not {', '.join(map(str, closed))}")
    try:
        return int(float(text)) if kind is int else text
    except (ValueError, OverflowError):
        raise ValueError(f"`{column}` is {text!r}, not a number") from None


def _options(row: Row, benchmark: str) -> tuple[str, ...]:
    """The options from a list, a map, a text with one per line (v2), or a list as text."""
    value = row.get("options")
    if isinstance(value, str):
        listed = None if len(value) > _MAX_LIST_ITEMS else columns.list_in(value)
        if listed is None and value.lstrip().startswith("["):
            raise ValueError(f"`options` is not a list: {value[:60]!r}")
        value = value if listed is None else listed
    if isinstance(value, Mapping):
        value = columns.options_in(value)
    if isinstance(value, str):
        value = [line for line in value.split("\n") if line.strip()]
    if not isinstance(value, list) or len(value) < 2:
        only = f", but only {row['options']!r}"[:99] if value else ""
        raise ValueError(f"it has no `options`{only}")
    declared = find_benchmark(benchmark).columns
    return tuple(columns.without_missing(value, declared.missing_options if declared else ()))
