"""A published annotation table (Parquet, JSON or JSON lines): read it, and check its columns, cells
and counts.

The module of each benchmark interprets the cells.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from videomme_pipeline.benchmarks.facets import FacetValue
from videomme_pipeline.benchmarks.question import Letter, Question, videos_of
from videomme_pipeline.errors import AnnotationError, DamagedFileError, StorageError
from videomme_pipeline.fetch.release import Release
from videomme_pipeline.storage.parquet import read_foreign_table

JSON_SUFFIXES = (".json", ".jsonl")
"""Endings of annotation files that are not Parquet."""

_CONTRACT_NAMES = {"subcategory": "sub_category"}
"""Columns that JSON annotations may call by another name than the dataset."""

# Ids become file names and partition keys, so an id must not lead out of a folder. A leading hyphen
# is allowed (several YouTube ids have one), a leading dot or a slash is not.
_FILE_STEM = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class AnnotationTable:
    """The rows of one annotation file."""

    name: str
    release: Release
    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, source: Path | pa.Table, release: Release, columns: Sequence[str]) -> Self:
        """Read `source` (a file or a table), which must have all `columns`.

        A file that ends in `.json` is a list of objects, one that ends in `.jsonl` has one object
        per line. Any other file is Parquet.

        Raises:
            AnnotationError: if the file is missing, cannot be read or lacks columns.
        """
        name = str(source) if isinstance(source, Path) else "the annotation table"
        table = cls(name, release, ())
        if isinstance(source, Path) and source.suffix.lower() in JSON_SUFFIXES:
            return cls(name, release, table._json_rows(source, columns))
        found = table._open(source) if isinstance(source, Path) else source
        table._check_columns(found.column_names, columns)
        return cls(name, release, found.select(list(columns)).to_pylist())

    def _check_columns(self, found: Sequence[str], columns: Sequence[str]) -> None:
        missing = [column for column in columns if column not in found]
        if missing:
            raise self.error(
                None, f"columns missing: {', '.join(missing)} (found {', '.join(found)})"
            )

    def _open(self, path: Path) -> pa.Table:
        try:
            return read_foreign_table(path)
        except FileNotFoundError:
            raise AnnotationError(f"{path}: no such file") from None
        except (DamagedFileError, StorageError) as error:
            raise self.error(None, f"not readable as Parquet ({error})") from error

    def _json_rows(self, path: Path, columns: Sequence[str]) -> list[Mapping[str, Any]]:
        try:
            rows = _parse_json(path)
        except FileNotFoundError:
            raise AnnotationError(f"{path}: no such file") from None
        except (OSError, ValueError, RecursionError) as error:
            raise self.error(None, f"not readable as JSON ({error})") from error
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self.error(None, "not a list of objects, one per question")
        for row in rows:
            for name, column in _CONTRACT_NAMES.items():
                if name in row:
                    row.setdefault(column, row[name])
            self._check_columns(tuple(row), columns)
        return rows

    def error(self, row: Mapping[str, Any] | None, found: str) -> AnnotationError:
        """An error about one row, or about the whole table if `row` is None."""
        item = f"{self.name}, question {row['question_id']}" if row else self.name
        return AnnotationError(
            f"{item}: {found}. This is not the published {self.release.annotations} of "
            f"{self.release.repository}; other revisions have other rows and columns. Use "
            f"revision {self.release.revision}."
        )

    def text(self, row: Mapping[str, Any], column: str) -> str:
        """Text of a cell, exactly as published: prompts must be equal byte for byte."""
        value = row[column]
        if not isinstance(value, str) or not value.strip():
            raise self.error(row, f"`{column}` must be a text, found {value!r}")
        return value

    def text_or_none(self, row: Mapping[str, Any], column: str) -> str | None:
        """Text of a cell, or None for null, NaN and blank text."""
        value = row[column]
        text = "" if value is None else str(value).strip()
        return text if text and text.lower() not in ("nan", "none") else None

    def file_stem(self, row: Mapping[str, Any], column: str) -> str:
        """An id that is safe as a file name."""
        value = self.text(row, column).strip()
        if not _FILE_STEM.fullmatch(value):
            raise self.error(row, f"`{column}` cannot name a file: {value!r}")
        return value

    def one_of(self, row: Mapping[str, Any], column: str, known: Sequence[FacetValue]) -> str:
        """Text of a cell that must be one of `known`."""
        value = self.text(row, column).strip()
        if value not in known:
            raise self.error(
                row, f"`{column}` is {value!r}, not one of {', '.join(map(str, known))}"
            )
        return value

    def answer(self, row: Mapping[str, Any], option_count: int) -> Letter:
        """The letter of the correct option, which must be one that the question offers."""
        value = self.text(row, "answer").strip().upper()
        offered = tuple(Letter)[:option_count]
        if value not in offered:
            raise self.error(row, f"`answer` is {value!r}, the options are {', '.join(offered)}")
        return Letter(value)

    def check_counts(self, questions: Sequence[Question], videos: int | None) -> None:
        """Check row counts, unique ids and complete sets of questions.

        Raises:
            AnnotationError: if a count or an id is not as published. The message names it.
        """
        references = videos_of(questions)
        by_video = Counter(question.video_id for question in questions)
        per_video = self.release.questions_per_video
        assert per_video is not None, "the releases in Python modules have this number"
        if videos is not None and (len(by_video), len(questions)) != (videos, videos * per_video):
            raise self.error(
                None,
                f"{len(questions):,} questions on {len(by_video):,} videos, "
                f"expected {videos * per_video:,} on {videos:,}",
            )
        repeated = _repeated(question.question_id for question in questions)
        if repeated:
            raise self.error(None, f"repeated question ids: {_listed(repeated)}")
        uneven = [video_id for video_id, count in by_video.items() if count != per_video]
        if uneven:
            raise self.error(None, f"videos without {per_video} questions: {_listed(uneven)}")
        unclear = _repeated(reference.video_id for reference in references) or _repeated(
            reference.file_stem for reference in references
        )
        if unclear:
            raise self.error(None, f"ids of more than one video: {_listed(unclear)}")


def _parse_json(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() == ".json":
        return json.loads(text)
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


def _listed(values: Sequence[str], shown: int = 10) -> str:
    rest = f" and {len(values) - shown} more" if len(values) > shown else ""
    return ", ".join(values[:shown]) + rest
