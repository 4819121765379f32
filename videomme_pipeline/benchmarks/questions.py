"""Questions from the rows of annotation files, and everything that is wrong with the rows."""

import csv
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from videomme_pipeline.benchmarks.columns import (
    Cells,
    UnmatchedAnswerError,
    answer_in,
    column_of,
    lettered,
    letters_of,
    list_in,
    options_in,
    question_and_options,
    read_rows,
    seconds_in,
    text_in,
    whole_number_in,
)
from videomme_pipeline.benchmarks.declaration import (
    LISTED,
    AnnotationFile,
    Declaration,
    FacetSpec,
    inside,
)
from videomme_pipeline.benchmarks.facets import Facets, FacetValue, with_dataset_names, with_derived
from videomme_pipeline.benchmarks.groups import without_spaces
from videomme_pipeline.benchmarks.question import Question, videos_of, with_own_ids
from videomme_pipeline.benchmarks.source import AnnotationContent, Problem
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import AnnotationError, listed, one_line
from videomme_pipeline.fetch.release import FOOTAGE_SUFFIXES, Footage
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.storage.layout import is_name_character

MAX_ID_CHARACTERS = 64
"""The longest video id, which is a partition key and the name of files."""
MAX_ID_BYTES = 3 * MAX_ID_CHARACTERS
"""A file name has at most 255 bytes, and a Chinese character has 3 bytes in UTF-8."""
SEGMENTS = "subtitles"
"""The column of the subtitles of a video as a list of timed segments, if annotations have it."""
_CONTRACT_VIDEO = "video_path"
_ID_TITLES = ("question_id", "id", "question")
"""Titles of a column with ids, as results files and the exports of the page have them."""
_LISTED = 10


def read_questions(
    declaration: Declaration, files: Sequence[Path], benchmark: str
) -> AnnotationContent:
    """The questions in the annotation `files` of `benchmark`, in their order.

    `files` has the annotation files first, then the files of the facets. AnnotationErrors name
    unreadable files and missing columns.
    """
    content = AnnotationContent(files=files, advice=_advice(declaration))
    reader = _Reader(declaration, benchmark, content)
    tables, lists = files[: len(declaration.annotations)], files[len(declaration.annotations) :]
    for annotations, path in zip(declaration.annotations, tables, strict=True):
        rows = [_renamed(declaration, row) for row in read_rows(path, annotations.rows)]
        _check_columns(declaration, annotations, rows, path)
        for number, row in enumerate(rows, start=1):
            reader.add({**row, **annotations.values}, annotations, f"{path.name}, row {number}")
    content.questions = with_own_ids(content.questions)
    for facet, path in zip(declaration.facet_files, lists, strict=True):
        ids = set(read_ids(path))
        if ids.isdisjoint(question.question_id for question in content.questions):
            raise AnnotationError(f"{path}: no question of the annotations has one of its ids")
        content.questions = [
            replace(q, facets=Facets({**q.facets, facet: LISTED[q.question_id not in ids]}))
            for q in content.questions
        ]
    if not content.problems:
        content.problems = list(_problems_of_all(declaration, content))
    return content


def read_ids(path: Path, key: str = "") -> list[str]:
    """The ids in a file of lines, CSV or a JSON list (under `key`). AnnotationError for others."""
    ids: object = None
    try:
        text = path.read_text("utf-8-sig").strip()
        if text.startswith(("{", "[")):
            value = json.loads(text)
            ids = value[key] if key else value
        else:
            rows = [row for row in csv.reader(text.splitlines()) if row]
            titles = [title.strip().lower() for title in rows[0]]
            columns = [titles.index(title) for title in _ID_TITLES if title in titles]
            ids = [row[next(iter(columns), 0)].strip() for row in rows[len(columns) > 0 :]]
        problem = "found no list, or an empty one"
    except (OSError, ValueError, LookupError, csv.Error) as error:
        problem = repr(error)
    if not isinstance(ids, list) or not ids:
        raise AnnotationError(
            f"{path}: not a list of question ids ({problem}); write one per line, a column "
            "`question_id`, or a JSON list (of a key: `compare.json#lost`)"
        )
    return list(dict.fromkeys(map(str, ids)))


def _problems_of_all(declaration: Declaration, content: AnnotationContent) -> Iterator[Problem]:
    """Yield a problem for each repeated id, and one if the number of questions is wrong."""
    questions = content.questions
    for name, count in Counter(question.question_id for question in questions).items():
        if count > 1:
            yield Problem(f"question {name}", f"{count} rows have this id; make it unique")
    of_files, size = ", ".join(path.name for path in content.files), declaration.size
    references = videos_of(questions)
    unclear = _repeated(video.video_id for video in references)
    unclear = unclear or _repeated(video.file_stem for video in references)
    if unclear and declaration.columns.video_id:
        yield Problem(of_files, f"ids of more than one video: {listed(unclear, _LISTED)}")
    if size.questions_per_video is None:
        return
    by_video = Counter(question.video_id for question in questions)
    if size.videos and (len(by_video), len(questions)) != (size.videos, size.questions):
        yield Problem(
            of_files,
            f"{len(questions):,} questions on {len(by_video):,} videos, "
            f"expected {size.questions:,} on {size.videos:,}",
        )
    uneven = [video for video, count in by_video.items() if count != size.questions_per_video]
    if uneven:
        yield Problem(
            of_files,
            f"videos without {size.questions_per_video} questions: {listed(uneven, _LISTED)}",
        )


def _advice(declaration: Declaration) -> str:
    """Advice about annotations that differ from the pinned revision."""
    hub = declaration.hub
    if hub is None or hub.revision is None:
        return ""
    return (
        f" (the declaration is for revision {hub.revision} of {hub.repository}; other revisions "
        "have other rows and columns, so use this one)"
    )


@dataclass
class _Reader:
    """Adds the questions and the problems of all rows to `content`."""

    declaration: Declaration
    benchmark: str
    content: AnnotationContent
    _videos: dict[str, Footage] = field(default_factory=dict)
    _rows_of: Counter[str] = field(default_factory=Counter)

    def add(self, row: Cells, annotations: AnnotationFile, name: str) -> None:
        """Add the question in a row, or the problem with the row called `name`."""
        try:
            question = self._question(row, annotations)
        except ValueError as error:
            question_id = text_in(_cell(row, self.declaration.columns.question_id))
            item = name if question_id is None else f"{name}, question {question_id}"
            # A user can correct their own annotations, but not published ones.
            left_out = self.declaration.hub and isinstance(error, UnmatchedAnswerError)
            problems = self.content.unmatched if left_out else self.content.problems
            problems.append(Problem(item, str(error)))
            return
        if question is None:
            self.content.hidden += 1
        else:
            self.content.questions.append(question)

    def _question(self, row: Cells, annotations: AnnotationFile) -> Question | None:
        """The question in a row, or None if its answer is hidden."""
        columns, letters = self.declaration.columns, self.declaration.letters
        footage = self._footage(row, annotations)
        video_id = _file_stem(row, columns.video_id) or self._video_id(footage)
        self._rows_of[video_id] += 1
        if isinstance(segments := row.get(SEGMENTS), list) and segments:
            self.content.segments.setdefault(video_id, segments)
        answer = text_in(row[columns.answer])
        if answer is None and self.declaration.size.questions_per_video is not None:
            raise ValueError(f"`{columns.answer}` is empty")
        if answer is None or answer in columns.hidden_answers:
            return None
        text, options = question_and_options(row, columns)
        if columns.options_are == "list" and len(options) != letters:
            raise ValueError(f"`{columns.options}` must have {letters} texts, found {options!r}")
        if len(options) > letters:
            raise ValueError(f"{len(options)} options, but `letters` is {letters}; raise it")
        number = f"{video_id}-{self._rows_of[video_id]}"
        letter = answer_in(answer, columns.answer_is, options)
        if columns.answer_is == "text":
            equal = letters_of(answer, options)
            self.content.inexact_answers += not equal
            self.content.ambiguous_answers += len(equal) > 1
        return Question(
            benchmark=self.benchmark,
            question_id=one_line(text_in(_cell(row, columns.question_id)) or number),
            video_id=video_id,
            youtube_id=_file_stem(row, columns.youtube_id),
            url=text_in(_cell(row, columns.url)),
            question=text,
            options=tuple(options),
            answer=letter,
            facets=with_derived(self._facets(row), self.declaration.declared_facets),
            footage=footage,
        )

    def _footage(self, row: Cells, annotations: AnnotationFile) -> Footage:
        columns, declaration = self.declaration.columns, self.declaration
        if columns.video is None:
            return Footage()
        video = text_in(row[columns.video])
        if video is None:
            raise ValueError(f"`{columns.video}` is empty; name the video")
        start = seconds_in(_cell(row, columns.clip_start))
        end = seconds_in(_cell(row, columns.clip_end))
        if end is not None and end <= (start or 0):
            raise ValueError(f"the clip ends at {end:g} s, before it starts; correct the bounds")
        subtitles = text_in(_cell(row, columns.subtitle_file))
        return Footage(
            video_file=str(PurePosixPath(annotations.videos or declaration.videos, inside(video))),
            frames_per_second=annotations.frames_per_second,
            clip_start_seconds=start,
            clip_end_seconds=end,
            subtitle_file=subtitles
            and str(PurePosixPath(declaration.subtitles or ".", inside(subtitles))),
            subtitle_start_seconds=seconds_in(_cell(row, columns.subtitle_start)),
        )

    def _video_id(self, footage: Footage) -> str:
        """The stem of the file with the bounds of the clip. A hash makes it short and unique."""
        stem = PurePosixPath(footage.video_file or "").name
        for suffix in FOOTAGE_SUFFIXES:
            stem = stem.removesuffix(suffix)
        if footage.clip is not None:
            end = footage.clip.end_seconds
            stem += f".{footage.clip.start_seconds:.10g}-{'' if end is None else f'{end:.10g}'}"
        runs = groupby(unicodedata.normalize("NFC", stem), is_name_character)
        name = "".join("".join(run) if is_safe else "_" for is_safe, run in runs)
        name = name.lstrip(".") or "video"
        if _is_too_long(name) or self._videos.setdefault(name, footage) != footage:
            name = f"{name[: MAX_ID_CHARACTERS - 9]}-{fingerprint(footage)[:8]}"
            self._videos.setdefault(name, footage)
        return name

    def _facets(self, row: Cells) -> dict[str, FacetValue]:
        """The facets of a row. One may be empty if the row has a value that is derived from it."""
        given = {
            facet.derivation.facet: {facet.column: row[facet.column]}
            for facet in self.declaration.declared_facets
            if facet.derivation is not None and row.get(facet.column) in (facet.values or ())
        }
        facets: dict[str, FacetValue] = {}
        for facet, spec in self.declaration.columns_of_facets.items():
            cell = row.get(spec.column or facet)
            is_given = facet in given and text_in(cell) is None
            facets |= given[facet] if is_given else _values(facet, spec, cell)
        grouping = self.declaration.grouping
        if grouping is None or grouping.chain is None:
            return facets
        chain = grouping.chain
        if chain.structure in facets:
            facets[chain.structure] = without_spaces(facets[chain.structure])
        if grouping.is_chain(facets) and grouping.structure(facets) is None:
            raise ValueError(
                f"`{chain.structure}` of a {chain.value} group must be one of "
                f"{', '.join(chain.scores)}, found {facets.get(chain.structure)!r}"
            )
        return facets


def _values(facet: str, spec: FacetSpec, cell: object) -> Iterator[tuple[str, FacetValue]]:
    """Yield the name and the value of each facet that one entry of `facets` declares."""
    column = spec.column or facet
    if spec.each and (values := list_in(cell)) is not None:
        declared = set(spec.values or ())
        yield from ((column_of(facet, str(v)), str(v)) for v in values if v in declared)
        return
    text = text_in(cell)
    if text is None:
        if spec.required:
            raise ValueError(f"`{column}` is empty")
        return
    is_number = isinstance(next(iter(spec.values or ()), None), int)
    value: FacetValue | None = whole_number_in(text) if is_number else one_line(text)
    if value is None or (spec.values and value not in spec.values):
        offered = ", ".join(map(str, spec.values or ()))
        raise ValueError(f"`{column}` is {text!r}, not one of {offered}")
    yield (column_of(facet, text) if spec.each else facet), value


def _file_stem(row: Cells, column: str | None) -> str | None:
    """An id that is safe as a file name, or None without a column."""
    if column is None:
        return None
    text = text_in(row[column]) or ""
    # An id must not lead out of a folder. A leading hyphen is allowed (several YouTube ids have
    # one), a leading dot or a slash is not.
    is_safe = all(map(is_name_character, text)) and not text.startswith(".")
    if not text or not is_safe or _is_too_long(text):
        raise ValueError(
            f"`{column}`: {row[column]!r} is not usable as a file name (no slash, no leading dot)"
        )
    return text


def _is_too_long(name: str) -> bool:
    return len(name) > MAX_ID_CHARACTERS or len(name.encode()) > MAX_ID_BYTES


def _renamed(declaration: Declaration, row: Cells) -> Cells:
    """`row` with the declared columns, if it has other names or is a record of the contract.

    The benchmark contract has a path of the video, and neither its YouTube id nor its address. Its
    options may be a map by letter, or have no letters.
    """
    columns = declaration.columns
    row = with_dataset_names(row, declaration.declared_facets)
    for name, spec in declaration.columns_of_facets.items():
        if spec.alias is not None and spec.alias in row:
            row.setdefault(spec.column or name, row[spec.alias])
    if columns.video is not None or _CONTRACT_VIDEO not in row:
        return row
    absent = {name: None for name in (columns.url, columns.question_id) if name is not None}
    stem = PurePosixPath(text_in(row[_CONTRACT_VIDEO]) or "").stem
    files = {columns.youtube_id: stem} if columns.youtube_id is not None else {}
    if columns.options_are == "list" and isinstance(columns.options, str):
        row[columns.options] = lettered(options_in(row.get(columns.options)))
    return {**absent, **files, **row}


def _cell(row: Cells, column: str | None) -> Any:
    return None if column is None else row.get(column)


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


def _check_columns(
    declaration: Declaration, annotations: AnnotationFile, rows: Sequence[Cells], path: Path
) -> None:
    """Check that each declared column is in every row, or in one row if it is optional."""
    columns = declaration.columns
    in_all = set.intersection(*(set(row) for row in rows)) | annotations.values.keys()
    in_any = set[str]().union(*rows) | annotations.values.keys()
    optional = [spec.column or name for name, spec in declaration.columns_of_facets.items()]
    if len(declaration.annotations) == 1:  # only some of several files may have clips
        optional += [name for name in (columns.clip_start, columns.clip_end) if name]
    missing = [name for name in columns.names if name not in in_all]
    missing += [name for name in optional if name not in in_any]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise AnnotationError(
            f"{path}: the declaration names the column{'s' * (len(missing) > 1)} {names}, which "
            f"{'some rows do not have' if missing[0] in in_any else 'no row has'}: "
            f"{nearest(missing[0], sorted(in_any))}{_advice(declaration)}"
        )
