"""Read the rows of a results file from JSON, JSON lines, Parquet, TSV or CSV."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from videomme_pipeline.errors import DamagedFileError, ScoringError, StorageError
from videomme_pipeline.formats.results_format import Row

_LONGEST_FIELD = 1 << 30
_MISSING_IN_PANDAS = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)  # fmt: skip
"""Fields that `pandas.read_csv` reads as missing."""
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')


def read_rows_of(path: Path) -> Sequence[Row]:
    """The objects in the file at `path`. The file ending selects the parser; the default is JSON.

    TSV and CSV texts that pandas reads as missing ("NA", "nan", "" …) are missing here too. The
    official v2 script does the same, because it writes and reads a CSV file before it scores.

    Raises:
        ScoringError: if the file is missing, unreadable or not a list of objects.
    """
    try:
        rows = _PARSERS.get(path.suffix.lower(), _parse_json_file)(path)
    except FileNotFoundError:
        raise ScoringError(f"{path}: no such file") from None
    except (OSError, ValueError, csv.Error, DamagedFileError, StorageError) as error:
        raise ScoringError(f"{path}: not readable as {path.suffix or 'JSON'}: {error}") from error
    if not all(isinstance(row, Mapping) for row in rows):
        raise ScoringError(f"{path}: expected a list of objects, one per video or question")
    return rows


def parse_json(text: str) -> Any:
    """The value of JSON text, which may have a comma before a closing bracket.

    The official template has such commas.

    Raises:
        json.JSONDecodeError: if `text` without these commas is not JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(_TRAILING_COMMA.sub(lambda match: match.group(1) or "", text))


def _parse_json_file(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8-sig")
    try:
        value = parse_json(text) if text.strip() else []
    except json.JSONDecodeError:
        with suppress(ValueError):
            return _parse_json_lines(path)  # JSON lines in a file called .json
        raise
    return value if isinstance(value, list) else [value]


def _parse_json_lines(path: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: {error}") from error
    return rows


def _parse_parquet(path: Path) -> list[Any]:
    from videomme_pipeline.parquet import read_table  # noqa: PLC0415 - loads pyarrow

    rows: list[Any] = read_table(path).to_pylist()
    return rows


def _parse_table(path: Path) -> list[Any]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    csv.field_size_limit(_LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=delimiter, strict=True)
        if not reader.fieldnames:
            raise ValueError("no header line")
        return [_table_row(row, reader.line_num) for row in reader]


def _table_row(row: dict[Any, Any], line: int) -> Row:
    if None in row:
        raise ValueError(f"line {line}: more fields than columns")
    return {column: None if text in _MISSING_IN_PANDAS else text for column, text in row.items()}


_PARSERS = {
    ".jsonl": _parse_json_lines,
    ".parquet": _parse_parquet,
    ".tsv": _parse_table,
    ".csv": _parse_table,
}
