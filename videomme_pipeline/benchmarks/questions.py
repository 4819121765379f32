"""Questions from the rows of annotation files, and everything that is wrong with the rows."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from videomme_pipeline.benchmarks.annotation_files import read_rows
from videomme_pipeline.benchmarks.columns import (
    Cells,
    answer_in,
    column_of,
    list_in,
    question_and_options,
    seconds_in,
    text_in,
)
from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.configuration import nearest
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.fetch.release import FOOTAGE_SUFFIXES, Footage
from videomme_pipeline.fingerprint import fingerprint

if TYPE_CHECKING:
    from videomme_pipeline.benchmarks.declaration import AnnotationFile, Declaration

MAX_ID_CHARACTERS = 64
"""The longest video id, which is a partition key and the name of files."""
_LISTED = 5
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with one row."""

    row: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    """The content of the annotation files of a benchmark.

    `hidden` is the number of rows whose answer is not published. They are left out, and so are the
    rows in `problems`.
    """

    questions: tuple[Question, ...]
    hidden: int
    problems: tuple[Problem, ...]

    def require(self) -> "tuple[Question, ...]":
        """The questions.

        Raises:
            AnnotationError: if there are problems.
        """
        if self.problems:
            raise AnnotationError(f"{self.listed_problems}; `videomme doctor` lists all of them")
        return self.questions

    @property
    def listed_problems(self) -> str:
        """A sentence about the first problems."""
        listed = "; ".join(f"{each.row}: {each.found}" for each in self.problems[:_LISTED])
        rest = len(self.problems) - _LISTED
        return listed + (f"; and {rest:,} more rows" if rest > 0 else "")


def read_questions(declaration: "Declaration", files: Sequence[Path], benchmark: str) -> Annotated:
    """The questions in the annotation `files` of `benchmark`, in their order.

    Raises:
        AnnotationError: if a file cannot be read, or lacks a declared column.
    """
    reader = _Reader(declaration, benchmark)
    for annotations, path in zip(declaration.annotations, files, strict=True):
        rows = read_rows(path, annotations.rows)
        _check_columns(declaration, annotations, rows, path)
        for number, row in enumerate(rows, start=1):
            reader.add({**row, **annotations.values}, annotations, f"{path.name}, row {number}")
    repeated = [name for name, count in reader.ids.items() if count > 1]
    problems = [
        *reader.problems,
        *(
            Problem(f"question {name}", f"{reader.ids[name]} rows have this id; make it unique")
            for name in repeated
        ),
    ]
    return Annotated(
        questions=tuple(reader.questions), hidden=reader.hidden, problems=tuple(problems)
    )


@dataclass
class _Reader:
    """Collects the questions and the problems of all rows."""

    declaration: "Declaration"
    benchmark: str
    questions: list[Question] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    ids: Counter[str] = field(default_factory=Counter)
    hidden: int = 0
    _videos: dict[str, Footage] = field(default_factory=dict)
    _rows_of: Counter[str] = field(default_factory=Counter)

    def add(self, row: Cells, annotations: "AnnotationFile", place: str) -> None:
        try:
            question = self._question(row, annotations)
        except ValueError as error:
            self.problems.append(Problem(place, str(error)))
            return
        if question is None:
            self.hidden += 1
        else:
            self.questions.append(question)
            self.ids[question.question_id] += 1

    def _question(self, row: Cells, annotations: "AnnotationFile") -> Question | None:
        """The question in a row, or None if its answer is hidden.

        Raises:
            ValueError: if a cell cannot be used.
        """
        columns = self.declaration.columns
        footage = self._footage(row, annotations)
        video_id = self._video_id(footage)
        self._rows_of[video_id] += 1
        answer = text_in(row[columns.answer])
        if answer is None or answer in columns.hidden_answers:
            return None
        text, options = question_and_options(row, columns)
        if len(options) > self.declaration.letters:
            raise ValueError(
                f"{len(options)} options, but `letters` is {self.declaration.letters}; raise it"
            )
        number = f"{video_id}-{self._rows_of[video_id]}"
        return Question(
            benchmark=self.benchmark,
            question_id=(text_in(row[columns.question_id]) if columns.question_id else None)
            or number,
            video_id=video_id,
            youtube_id=None,
            url=text_in(row[columns.url]) if columns.url else None,
            question=text,
            options=tuple(options),
            answer=answer_in(answer, columns.answer_is, options),
            facets=Facets(dict(self._facets(row))),
            footage=footage,
        )

    def _footage(self, row: Cells, annotations: "AnnotationFile") -> Footage:
        columns, declaration = self.declaration.columns, self.declaration
        video = text_in(row[columns.video])
        if video is None:
            raise ValueError(f"`{columns.video}` is empty; name the video")
        start = seconds_in(row.get(columns.clip_start)) if columns.clip_start else None
        end = seconds_in(row.get(columns.clip_end)) if columns.clip_end else None
        if end is not None and end <= (start or 0):
            raise ValueError(f"the clip ends at {end:g} s, before it starts; correct the bounds")
        subtitles = text_in(row[columns.subtitle_file]) if columns.subtitle_file else None
        shift = seconds_in(row[columns.subtitle_start]) if columns.subtitle_start else None
        return Footage(
            video_file=_joined(annotations.videos or declaration.videos, video),
            frames_per_second=annotations.frames_per_second,
            clip_start_seconds=start,
            clip_end_seconds=end,
            subtitle_file=subtitles and _joined(declaration.subtitles or ".", subtitles),
            subtitle_start_seconds=shift,
        )

    def _video_id(self, footage: Footage) -> str:
        """An id that can be a file name: the stem of the file, with the bounds of the clip.

        A video gets a hash in addition if another one has this id already, or it is too long.
        """
        stem = PurePosixPath(footage.video_file or "").name
        for suffix in FOOTAGE_SUFFIXES:
            stem = stem.removesuffix(suffix)
        if footage.clip is not None:
            end = footage.clip.end_seconds
            stem += f".{footage.clip.start_seconds:.10g}-{'' if end is None else f'{end:.10g}'}"
        name = _UNSAFE.sub("_", stem).lstrip(".") or "video"
        if len(name) > MAX_ID_CHARACTERS or self._videos.setdefault(name, footage) != footage:
            digest = fingerprint(footage)[:8]
            name = f"{name[: MAX_ID_CHARACTERS - 9]}-{digest}"
            self._videos.setdefault(name, footage)
        return name

    def _facets(self, row: Cells) -> Iterator[tuple[str, str]]:
        for name, spec in self.declaration.facets.items():
            column = spec.column if spec and spec.column else name
            cell = row.get(column)
            values = list_in(cell) if spec and spec.each else None
            if values is not None:
                known = set(spec.values or ()) if spec else set()
                yield from ((column_of(name, str(v)), str(v)) for v in values if v in known)
            elif (text := text_in(cell)) is not None:
                if spec and spec.values and text not in spec.values:
                    raise ValueError(f"`{column}` is {text!r}, not one of {', '.join(spec.values)}")
                yield (column_of(name, text) if spec and spec.each else name), text


def _joined(folder: str, path: str) -> str:
    """`path` in `folder`. It must not lead out of it.

    Raises:
        ValueError: if it does.
    """
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"the path {path!r} leads out of the folder; name a file inside of it")
    return str(PurePosixPath(folder) / parts)


def _check_columns(
    declaration: "Declaration",
    annotations: "AnnotationFile",
    rows: Sequence[Mapping[str, object]],
    path: Path,
) -> None:
    """Check that each declared column is in every row, or in one row if it is optional.

    Raises:
        AnnotationError: if one is missing. The message has the nearest column.
    """
    columns = declaration.columns
    in_all = set.intersection(*(set(row) for row in rows)) | annotations.values.keys()
    in_any = set[str]().union(*rows) | annotations.values.keys()
    facets = (
        spec.column if spec and spec.column else name for name, spec in declaration.facets.items()
    )
    missing = [name for name in columns.names if name not in in_all]
    missing += [name for name in facets if name not in in_any]
    # Only some of the files of a benchmark have clips.
    bounds = [name for name in (columns.clip_start, columns.clip_end) if name]
    if len(declaration.annotations) == 1:
        missing += [name for name in bounds if name not in in_any]
    if missing:
        raise AnnotationError(
            f"{path}: the declaration names the column `{missing[0]}`, which "
            f"{'some rows do not have' if missing[0] in in_any else 'no row has'}: "
            f"{nearest(missing[0], sorted(in_any))}"
        )
