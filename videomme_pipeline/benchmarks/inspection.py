"""A declaration for a user's folder, from its files and the columns of its annotations."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import yaml

from videomme_pipeline.benchmarks.columns import (
    SUFFIXES,
    AnswerKind,
    Columns,
    answer_in,
    question_and_options,
    read_rows,
    seconds_in,
    text_in,
)
from videomme_pipeline.benchmarks.locate import SUBTITLE_SUFFIXES
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import AnnotationError, listed
from videomme_pipeline.fetch.release import FOOTAGE_SUFFIXES

MAX_FACET_VALUES = 40
"""A column with more values does not group questions."""
_MAX_FILES = 100_000
_LOOKED_AT_ROWS = 1_000

# Names of columns without case and punctuation, the most specific ones first.
_VIDEO = ("videopath", "videofile", "videoname", "video", "videoid", "videouid", "file", "path")
_QUESTION = ("question", "query", "prompt")
_OPTIONS = ("options", "choices", "candidates", "option", "choice")
_ANSWER = (
    "answer", "correctanswer", "rightanswer", "correctchoice", "answerid", "groundtruth", "label",
    "gt", "correct",
)  # fmt: skip
_QUESTION_ID = ("questionid", "qid", "uid", "id", "index")
_START = ("clipstart", "startseconds", "starttime", "start")
_END = ("clipend", "endseconds", "endtime", "end")
_SUBTITLES = ("subtitlefile", "subtitlepath", "subtitles", "subtitle", "srt")
_OPTION_COLUMN = re.compile(r"(?:option|choice|a)?([0-9]|[a-n])")

Rows = Sequence[Mapping[str, Any]]


_NO_FACETS = """\
# facets:
#   task_type:
"""

_TEXT = """\
# Your benchmark. `videomme doctor` checks this file, the annotations and the videos.
{files}
# Which column is what. docs/benchmarks.md lists the keys.
{columns}
# The largest number of options of a question (2 to 14).
letters: {letters}

# Columns that group the questions. Each has a breakdown. Remove those that should have none.
{facets}
# The headline score is the accuracy, or with this line the mean of the accuracies by a facet.
# mean_of: {mean_of}
"""


def inspect_folder(
    folder: Path,
    title: str,
    reserved: Collection[str] = (),
    annotations: Path | None = None,
    named: Mapping[str, str] = {},
) -> str:
    """The text of the declaration that fits the files of `folder` best.

    `annotations` is the file in `folder` with the questions. Without it, there must be one such
    file. `named` are columns with unusual names, by what they contain (`video`, `question` …). No
    facet has a `reserved` name.

    Raises:
        AnnotationError: if the folder has no annotations with a video, a question and an answer, or
            several files of them.
    """
    files = [path for path in islice(sorted(folder.rglob("*")), _MAX_FILES) if path.is_file()]
    tables = _tables(files) if annotations is None else [annotations]
    problems: list[str] = []
    declarations: dict[str, str] = {}
    for path in tables:
        try:
            text = _declaration(folder, title, path, read_rows(path), files, reserved, named)
        except AnnotationError as error:
            problems.append(str(error))
        else:
            declarations[str(path.relative_to(folder))] = text
    if len(declarations) > 1:
        raise AnnotationError(
            f"{folder}: {len(declarations)} files have questions: {listed(list(declarations))}; "
            f"choose one, for example with `--annotations {next(iter(declarations))}`"
        )
    if not declarations:
        reasons = "; ".join(problems[:3]) or f"it has no file that ends in {', '.join(SUFFIXES)}"
        raise AnnotationError(
            f"{folder}: no annotations with a video, a question and an answer in it ({reasons})"
        )
    return next(iter(declarations.values()))


def _tables(files: Sequence[Path]) -> list[Path]:
    """The files that may have questions. A file with the name of a video has its subtitles."""
    videos = {file.stem for file in _videos(files)}
    return [file for file in files if file.suffix.lower() in SUFFIXES and file.stem not in videos]


def _videos(files: Sequence[Path]) -> list[Path]:
    return [file for file in files if file.suffix.lower() in FOOTAGE_SUFFIXES]


def _declaration(  # noqa: PLR0913, PLR0917
    folder: Path,
    title: str,
    path: Path,
    rows: Rows,
    files: Sequence[Path],
    reserved: Collection[str],
    named: Mapping[str, str],
) -> str:
    sample = rows[:_LOOKED_AT_ROWS]
    names = list(dict.fromkeys(name for row in sample for name in row))
    videos = _videos(files)
    for key, column in named.items():
        if key not in Columns.model_fields or column not in names:
            raise AnnotationError(
                f"{path.relative_to(folder)}: --columns {key}={column}: choose one of "
                f"{', '.join(names)} for one of {', '.join(Columns.model_fields)}"
            )
    of_videos = [named["video"]] if "video" in named else names
    video = _column_of_files(sample, of_videos, _VIDEO, folder, videos)
    question = named.get("question") or _named(names, _QUESTION)
    answer = named.get("answer") or _named(names, _ANSWER)
    missing = {"video": video, "question": question, "answer": answer}
    absent = [name for name, column in missing.items() if column is None]
    if absent or video is None:
        raise AnnotationError(
            f"{path.relative_to(folder)} has the columns {', '.join(names)}, but none for the "
            f"{absent[0]}; name it with `--columns {absent[0]}=COLUMN`"
        )
    stems = {file.stem for file in videos}
    subtitle_files = [
        file
        for file in files
        if (suffix := file.suffix.lower()) in SUBTITLE_SUFFIXES
        and (suffix not in SUFFIXES or file.stem in stems)
    ]
    subtitles = _column_of_files(sample, names, _SUBTITLES, folder, subtitle_files)
    columns: dict[str, Any] = {
        "video": video.column,
        "question": question,
        "options": _options(names),
        "answer": answer,
        "question_id": _unique(rows, _named(names, _QUESTION_ID)),
        "clip_start": _seconds(sample, _named(names, _START)),
        "clip_end": _seconds(sample, _named(names, _END)),
        "subtitle_file": subtitles.column if subtitles and subtitles.share else None,
    }
    columns = {key: value for key, value in {**columns, **named}.items() if value is not None}
    declared = Columns(**columns)
    options, kind = _answers(rows, declared)
    if not options:
        raise AnnotationError(
            f"{path.relative_to(folder)} has questions without options, and only questions with "
            "options can be evaluated; add a column `options`, or one column per option"
        )
    used = {*declared.names, declared.clip_start, declared.clip_end}
    facets = {
        facet: None if facet == name else {"column": name}
        for name in names
        if name not in used and (facet := _facet_name(name, reserved)) and _groups(rows, name)
    }
    described: dict[str, Any] = {
        "title": title,
        "folder": str(folder),
        "annotations": str(path.relative_to(folder)),
        "videos": video.folder,
        "subtitles": (
            subtitles.folder
            if subtitles and subtitles.share
            else _common_folder(folder, subtitle_files)
        ),
        "size": _size(rows, video.column, len(subtitle_files)),
    }
    return _TEXT.format(
        files=_dump({key: value for key, value in described.items() if value is not None}),
        columns=_dump({"columns": columns | {"answer_is": kind.value}}),
        letters=min(max(options, 2), len(Letter)),
        facets=_dump({"facets": facets}).replace(" null", "") if facets else _NO_FACETS,
        mean_of=next(iter(facets), "task_type"),
    )


def _size(rows: Rows, column: str, subtitle_files: int) -> dict[str, int]:
    """The numbers that `size` declares."""
    per_video = Counter(text_in(row.get(column)) for row in rows)
    size = {"videos": len(per_video), "questions": len(rows)}
    if len(set(per_video.values())) == 1:
        size["questions_per_video"] = next(iter(per_video.values()))
    if subtitle_files:
        size["videos_with_subtitles"] = min(subtitle_files, len(per_video))
    return size


@dataclass(frozen=True, slots=True)
class _FileColumn:
    """A column of file names, the folder of these files, and the share that exists."""

    column: str
    folder: str
    share: float


def _column_of_files(
    rows: Rows, names: Sequence[str], usual: Sequence[str], folder: Path, files: Sequence[Path]
) -> _FileColumn | None:
    """The column whose values name the most of `files`, or the first one with a usual name."""
    candidates = _with_usual_names(names, usual)
    others = [name for name in names if name not in candidates]
    best: _FileColumn | None = None
    for column in (*candidates, *others):
        values = {text for row in rows if (text := text_in(row.get(column))) is not None}
        for base in dict.fromkeys(("", *(_folder(file, folder) for file in files))):
            inside = f"{base}/" if base else ""
            paths = {
                name.removeprefix(inside)
                for path in (file.relative_to(folder) for file in files)
                for name in map(str, _spellings(path))
                if name.startswith(inside)
            }
            share = len(values & paths) / max(len(values), 1)
            if share > (best.share if best else 0.0):
                best = _FileColumn(column, base or ".", share)
        if best is not None and best.share == 1:
            break
    if best is None and candidates:
        return _FileColumn(candidates[0], ".", 0.0)
    return best


def _spellings(path: Path) -> list[Path]:
    """The names by which annotations may refer to a file. Names of videos may lack the suffix."""
    suffix = path.suffix
    is_video = suffix.lower() in FOOTAGE_SUFFIXES
    suffixes = (suffix, suffix.lower(), suffix.upper(), *([""] if is_video else []))
    return [path.with_suffix(other) for other in suffixes]


def _folder(file: Path, folder: Path) -> str:
    parent = str(file.parent.relative_to(folder))
    return "" if parent == "." else parent


def _common_folder(folder: Path, files: Sequence[Path]) -> str | None:
    """The folder with the most of `files`, or None if there are none."""
    folders = [_folder(file, folder) for file in files]
    return max(set(folders), key=folders.count) or "." if folders else None


def _named(names: Sequence[str], usual: Sequence[str]) -> str | None:
    return next(iter(_with_usual_names(names, usual)), None)


def _with_usual_names(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The columns among `names` with one of the `usual` names, in the order of `usual`."""
    return [name for word in usual for name in names if _plain(name) == word]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _options(names: Sequence[str]) -> str | list[str] | None:
    """The column with all options, or the columns of the single ones."""
    column = _named(names, _OPTIONS)
    if column is not None:
        return column
    single = [name for name in names if _OPTION_COLUMN.fullmatch(_plain(name))]
    by_form = groupby(sorted(single, key=_form), key=_form)
    columns = max((sorted(group) for _, group in by_form), key=len, default=[])
    return columns if len(columns) > 1 else None


def _form(name: str) -> str:
    return re.sub(r"([0-9]|[a-n])$", "", _plain(name))


def _unique(rows: Rows, column: str | None) -> str | None:
    values = [text_in(row.get(column)) for row in rows] if column else []
    return column if column and None not in values and len(set(values)) == len(rows) else None


def _seconds(rows: Rows, column: str | None) -> str | None:
    """`column` if its cells are times."""
    try:
        times = [seconds_in(row.get(column)) for row in rows] if column else []
    except ValueError:
        return None
    return column if any(seconds is not None for seconds in times) else None


def _answers(rows: Rows, columns: Columns) -> tuple[int, AnswerKind]:
    """The largest number of options, and the kind of answer that fits the most rows."""
    split = []
    for row in rows:
        try:
            split.append((row[columns.answer], question_and_options(row, columns)[1]))
        except (ValueError, KeyError):
            continue
    fits = {kind: sum(_fits(cell, kind, options) for cell, options in split) for kind in AnswerKind}
    return max((len(options) for _, options in split), default=0), max(fits, key=fits.__getitem__)


def _fits(cell: object, kind: AnswerKind, options: Sequence[str]) -> bool:
    try:
        answer_in(cell, kind, options)
    except ValueError:
        return False
    return True


def _facet_name(column: str, reserved: Collection[str]) -> str:
    """The facet of a column, or "" if its name has no letters."""
    name = re.sub(r"^[^a-z]+|_+$", "", re.sub(r"[^a-z0-9]+", "_", column.lower()))
    return f"own_{name}" if name in reserved else name


def _groups(rows: Rows, column: str) -> bool:
    """True if a column has few texts or whole numbers, several times each."""
    cells: Iterable[Any] = (row.get(column) for row in rows)
    values = [cell for cell in cells if cell is not None]
    if not values or not all(isinstance(cell, str | int) for cell in values):
        return False
    distinct = len(set(map(str, values)))
    return 1 < distinct <= MAX_FACET_VALUES and 2 * distinct <= len(values)


def _dump(values: Mapping[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
