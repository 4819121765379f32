"""Rows of annotation files: JSON, JSON lines, CSV, TSV or Parquet."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from videomme_pipeline.errors import AnnotationError, DamagedFileError, StorageError
from videomme_pipeline.storage.parquet import read_foreign_table

SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
"""The endings of annotation files."""


def read_rows(path: Path, inner: str | None = None) -> list[Mapping[str, Any]]:
    """The rows of an annotation file.

    `inner` is the key of a list of rows inside of each row. Each of them gets the columns of the
    outer row that it does not have itself.

    Raises:
        AnnotationError: if the file is missing or cannot be read.
    """
    try:
        rows = _read(path)
        if inner is not None:
            rows = [{**row, **inner_row} for row in rows for inner_row in row[inner]]
    except FileNotFoundError:
        raise AnnotationError(f"{path}: no such file") from None
    except (DamagedFileError, StorageError, OSError, csv.Error) as error:
        raise AnnotationError(f"{path}: cannot be read ({error}); get it again") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AnnotationError(
            f"{path}: not a table of questions ({error!r}); annotations are a JSON list of "
            "objects, JSON lines, CSV, TSV or Parquet"
        ) from error
    if not rows:
        raise AnnotationError(f"{path}: it has no rows; get it again")
    return rows


def _read(path: Path) -> list[Mapping[str, Any]]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return [*read_foreign_table(path).to_pylist()]
    text = path.read_text(encoding="utf-8-sig")
    if suffix in (".csv", ".tsv"):
        delimiter = "\t" if suffix == ".tsv" else ","
        return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
    if suffix == ".jsonl":
        return _objects([json.loads(line) for line in text.split("\n") if line.strip()])
    value = json.loads(text)
    return _objects(list(value.values()) if isinstance(value, dict) else value)


def _objects(rows: Sequence[Any]) -> list[Mapping[str, Any]]:
    """`rows`, which must be objects. The only list in a single object is taken instead of it."""
    if len(rows) == 1 and isinstance(rows[0], list):
        rows = rows[0]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of objects")
    return rows
