"""A declaration for a user's folder, from its files and the columns of its annotations."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import yaml

from videomme_pipeline.benchmarks import columns
from videomme_pipeline.benchmarks.locate import SUBTITLE_SUFFIXES, spellings
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import AnnotationError, listed
from videomme_pipeline.fetch.release import FOOTAGE_SUFFIXES

MAX_FACET_VALUES = 40
"""A column with more values does not group questions."""
_TABLES = (*columns.SUFFIXES, ".txt")
"""Endings of files that may have questions. "Unicode text" of Excel ends in `.txt`."""
_MAX_FILES = 100_000
_LOOKED_AT_ROWS = 1_000

Rows = Sequence[Mapping[str, Any]]
_TEMPLATE = Path(__file__).with_name("declaration_template.txt")
_NO_FACETS = "# facets:\n#   task_type:\n"


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
    facet has a `reserved` name. AnnotationError if the folder has no annotations with a video, a
    question and an answer, or several files of them.
    """
    files = [path for path in islice(sorted(folder.rglob("*")), _MAX_FILES) if path.is_file()]
    stems = {file.stem for file in _videos(files)}  # files with these names have subtitles
    tables = [path for path in files if path.suffix.lower() in _TABLES and path.stem not in stems]
    problems: list[str] = []
    declarations: dict[str, str] = {}
    for path in tables if annotations is None else [annotations]:
        try:
            text = _declaration(
                folder, title, path, columns.read_rows(path), files, reserved, named
            )
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
        reasons = "; ".join(problems[:3]) or f"it has no file that ends in {', '.join(_TABLES)}"
        raise AnnotationError(
            f"{folder}: no annotations with a video, a question and an answer in it ({reasons})"
        )
    return next(iter(declarations.values()))


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
    file = path.relative_to(folder)
    sample = rows[:_LOOKED_AT_ROWS]
    names = list(dict.fromkeys(name for row in sample for name in row))
    videos = _videos(files)
    for key, column in named.items():
        if key not in columns.Columns.model_fields or column not in names:
            raise AnnotationError(
                f"{file}: --columns {key}={column}: choose one of "
                f"{', '.join(names)} for one of {', '.join(columns.Columns.model_fields)}"
            )
    stems = {video.stem for video in videos}
    subtitle_files = [
        other
        for other in files
        if (suffix := other.suffix.lower()) in SUBTITLE_SUFFIXES
        and (suffix not in columns.SUFFIXES or other.stem in stems)
    ]
    of_videos = [named["video"]] if "video" in named else names
    video, video_folder = _column_of_files(sample, of_videos, "video", folder, videos) or (
        _named(of_videos, "video"),
        ".",
    )
    subtitles, subtitle_folder = _column_of_files(
        sample, names, "subtitle_file", folder, subtitle_files
    ) or (None, _common_folder(folder, subtitle_files))
    single = columns.option_columns(names)
    guesses: dict[str, Any] = {
        "video": video,
        "question": _named(names, "question"),
        "options": _named(names, "options") or single or None,
        "answer": _named(names, "answer"),
        "question_id": _ids(rows, _named(names, "question_id")),
        "clip_start": _seconds(sample, _named(names, "clip_start")),
        "clip_end": _seconds(sample, _named(names, "clip_end")),
        "subtitle_file": subtitles,
    }
    column_names = {key: value for key, value in {**guesses, **named}.items() if value is not None}
    if column_names.get("options") is single and "" in single:
        letter = chr(ord("A") + single.index(""))
        raise AnnotationError(
            f"{file} has columns of single options, but none for {letter}; add it"
        )
    for key in ("video", "question", "answer"):
        if key not in column_names:
            raise AnnotationError(
                f"{file} has the columns {', '.join(names)}, but none for the "
                f"{key}; name it with `--columns {key}=COLUMN`"
            )
    declared = columns.Columns(**column_names)
    options, kind = _answers(rows, declared)
    if not options:
        raise AnnotationError(
            f"{file} has questions without options, and only questions with "
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
        "annotations": str(file),
        "videos": video_folder,
        "subtitles": subtitle_folder,
        "size": _size(rows, column_names["video"], len(subtitle_files)),
    }
    return _TEMPLATE.read_text("utf-8").format(
        files=_dump({key: value for key, value in described.items() if value is not None}),
        columns=_dump({"columns": column_names | {"answer_is": kind}}),
        letters=min(max(options, 2), len(Letter)),
        facets=_dump({"facets": facets}).replace(" null", "") if facets else _NO_FACETS,
        mean_of=next(iter(facets), "task_type"),
    )


def _size(rows: Rows, column: str, subtitle_files: int) -> dict[str, int]:
    per_video = Counter(columns.text_in(row.get(column)) for row in rows)
    size = {"videos": len(per_video), "questions": len(rows)}
    if len(set(per_video.values())) == 1:
        size["questions_per_video"] = next(iter(per_video.values()))
    if subtitle_files:
        size["videos_with_subtitles"] = min(subtitle_files, len(per_video))
    return size


def _column_of_files(
    rows: Rows, names: Sequence[str], content: str, folder: Path, files: Sequence[Path]
) -> tuple[str, str] | None:
    """The column whose values name the most of `files`, and the folder of these files."""
    folders: dict[str, set[str]] = defaultdict(set)
    for file in files:
        *parents, name = file.relative_to(folder).parts
        names_of_file = [*spellings(name)]
        if file.suffix.lower() in FOOTAGE_SUFFIXES:
            names_of_file.append(file.stem)  # names of videos may lack the suffix
        for depth in range(len(parents) + 1):
            for spelling in names_of_file:
                path = "/".join((*parents[depth:], spelling))
                folders[path].add("/".join(parents[:depth]) or ".")
    shares: dict[tuple[str, str], float] = {}
    for column in dict.fromkeys((*columns.columns_with(content, names), *names)):
        values = {text for row in rows if (text := columns.text_in(row.get(column))) is not None}
        named = Counter(base for value in values for base in folders.get(value, ()))
        if named:
            base = max(sorted(named), key=named.__getitem__)
            shares[column, base] = named[base] / len(values)
    return max(shares, key=shares.__getitem__, default=None)


def _common_folder(folder: Path, files: Sequence[Path]) -> str | None:
    """The folder with the most of `files`, or None if there are none."""
    folders = Counter(str(file.parent.relative_to(folder)) for file in files)
    return max(sorted(folders), key=folders.__getitem__, default=None)


def _named(names: Sequence[str], content: str) -> str | None:
    return next(iter(columns.columns_with(content, names)), None)


def _ids(rows: Rows, column: str | None) -> str | None:
    """`column` if most rows have an id of their own there. `doctor` names the others."""
    values = {columns.text_in(row.get(column)) for row in rows} if column else set()
    return column if None not in values and 2 * len(values) > len(rows) else None


def _seconds(rows: Rows, column: str | None) -> str | None:
    """`column` if its cells are times."""
    try:
        times = [columns.seconds_in(row.get(column)) for row in rows] if column else []
    except ValueError:
        return None
    return column if any(seconds is not None for seconds in times) else None


def _answers(rows: Rows, declared: columns.Columns) -> tuple[int, columns.AnswerKind]:
    """The largest number of options, and the kind of answer that fits the most rows."""
    largest, fits = 0, Counter[columns.AnswerKind]()
    for row in rows:
        with suppress(ValueError, KeyError):
            cell, (_, options) = row[declared.answer], columns.question_and_options(row, declared)
            largest = max(largest, len(options))
            for kind in get_args(columns.AnswerKind):
                with suppress(ValueError):
                    columns.answer_in(cell, kind, options)
                    fits[kind] += 1
    return largest, max(get_args(columns.AnswerKind), key=fits.__getitem__)


def _facet_name(column: str, reserved: Collection[str]) -> str:
    """The facet of a column, or "" if its name has no letters."""
    name = re.sub(r"^[^a-z]+|_+$", "", re.sub(r"[^a-z0-9]+", "_", column.lower()))
    return f"own_{name}" if name in reserved else name


def _groups(rows: Rows, column: str) -> bool:
    """True if a column has few texts or whole numbers, several times each."""
    values = [cell for row in rows if (cell := row.get(column)) is not None]
    if not all(isinstance(cell, str | int) for cell in values):
        return False
    distinct = len(set(map(str, values)))
    return 1 < distinct <= MAX_FACET_VALUES and 2 * distinct <= len(values)


def _dump(values: Mapping[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
