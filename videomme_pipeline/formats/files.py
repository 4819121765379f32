"""Rows of results files. The first bytes of a file decide how it is read, not its name."""

import csv
import glob
import io
import json
import os
import re
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from videomme_pipeline.benchmarks.columns import (
    JSON_DECODER,
    check_names,
    parquet_rows,
    parse_json,
    whole_characters,
)
from videomme_pipeline.errors import DamagedFileError, ScoringError, StorageError
from videomme_pipeline.formats.archives import largest_content, read_archive
from videomme_pipeline.formats.results_format import Row, TableRow

FIRST_BYTE_SECONDS = 30.0
"""Time until a pipe must have the first byte of the results."""
MAX_PIPE_BYTES = 1 << 28
_MAX_FIELD_CHARACTERS = 1 << 30
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]++|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)
_NOT_SPACE = re.compile(r"\S")
_READABLE = "JSON, JSON lines, CSV, TSV, Parquet, .xlsx or an Inspect log (.eval)"
_PICKLE = "a Python pickle, and loading one can run any code; save the table as .xlsx, CSV or JSON"
_UNUSABLE: Mapping[bytes, str] = {
    **{bytes([0x80, protocol]): _PICKLE for protocol in range(2, 6)},
    b"(lp": _PICKLE,
    b"(dp": _PICKLE,
    b"\x1f\x8b": "a gzip file; decompress it with gunzip",
    b"\x28\xb5\x2f\xfd": "a Zstandard file; decompress it with unzstd",
    b"\xd0\xcf\x11\xe0": "a workbook of Excel 97 (.xls); save it as .xlsx or CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"ARROW1": "an Arrow file; convert it to Parquet",
}
"""Description of an unusable file and what to do, by the first bytes of the file."""


def files_of_run(name: Path) -> list[Path]:
    """The files that `name` means: all in a folder, all that fit a pattern, or the file itself.

    A pattern such as `logs/*.jsonl` names the files of one run. There may be no such file.
    """
    if name.is_dir():
        return sorted(name.iterdir())
    matching = [] if name.exists() else sorted(map(Path, glob.glob(str(name))))  # noqa: PTH207 - also folders in the pattern
    return matching or [name]


def read_rows_of(path: Path) -> tuple[Sequence[Row], list[str]]:
    """The objects in the file at `path`, which may have any name, and remarks about them.

    Raises:
        ScoringError: if the file is missing, unreadable or not a list of objects.
    """
    if path.is_fifo():
        with TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            copy.write_bytes(_read_pipe(path))
            return read_rows_of(copy)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ScoringError(f"{path}: this is a device or a socket; save the results as a file")
    kind, remarks = "a results file", []
    try:
        kind, parse = _detected(path)
        published = parse()
        if published and isinstance(published[-1], _CutOff):
            line = published.pop().line
            remarks.append(f"the last line of {path.name} ({line:,}) is cut off and is left out")
        _check_size(published, largest_content(path))
        rows: list[Any] = whole_characters(published)
    except FileNotFoundError:
        raise ScoringError(f"{path}: no such file") from None
    except RecursionError:
        raise ScoringError(f"{path}: not readable as {kind}: it is nested too deeply") from None
    except (OSError, ValueError, csv.Error, DamagedFileError, StorageError) as error:
        raise ScoringError(f"{path}: not readable as {kind}: {error}") from error
    if not all(isinstance(row, Mapping) for row in rows):
        raise ScoringError(f"{path}: expected a list of objects, one per video or question")
    if rows is not published:
        halves = sum(row != whole for row, whole in zip(published, rows, strict=True))
        remarks.append(f"rows with a text cut inside a character, which is now U+FFFD: {halves}")
    return rows, remarks


def _read_pipe(path: Path) -> bytes:
    """The content of a pipe, such as that of `videomme score <(program)`."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:  # noqa: PTH123 - a number
        if not select.select([pipe], [], [], FIRST_BYTE_SECONDS)[0]:
            raise ScoringError(
                f"{path}: nothing was written to this pipe in {FIRST_BYTE_SECONDS:.0f} s; write "
                "the results to a file"
            )
        os.set_blocking(pipe.fileno(), True)
        content = pipe.read(MAX_PIPE_BYTES + 1)
    if len(content) > MAX_PIPE_BYTES:
        raise ScoringError(
            f"{path}: more than {MAX_PIPE_BYTES:,} bytes came from this pipe; write the results "
            "to a file"
        )
    return content


def _check_size(rows: Sequence[object], largest: int) -> None:
    """Check the length of all texts. A workbook can refer to one text any number of times."""
    cells = (value for row in rows if isinstance(row, Mapping) for value in row.values())
    if sum(len(value) for value in cells if isinstance(value, str)) > largest:
        raise ValueError(
            f"its texts have more than {largest:,} characters, which is too much for a file of "
            "this size; convert it to JSON lines"
        )


def _detected(path: Path) -> tuple[str, Callable[[], list[Any]]]:
    """The format of the file and a function that returns its rows."""
    with path.open("rb") as file:
        start = file.read(16)
    for magic, what in _UNUSABLE.items():
        if start.startswith(magic):
            raise ScoringError(f"{path}: this is {what}")
    if start.startswith(b"PAR1"):
        return "Parquet", partial(parquet_rows, path, largest_content(path))
    if start.startswith(b"PK"):
        return "a zip archive", partial(read_archive, path, largest_content(path))
    text = _text_of(path)
    header, _, others = text.lstrip().partition("\n")
    if not header:
        return "text", list
    if header[0] in "[{":
        if others.strip() and _is_json(header):
            return "JSON lines", partial(_parse_json_lines, text)
        return "JSON", partial(_parse_json_text, text)
    for delimiter, kind in (("\t", "TSV"), (max(",;", key=header.count), "CSV")):
        if delimiter in header:
            return kind, partial(_parse_table, text, delimiter)
    raise ScoringError(
        f"{path}: no known format, it begins with {header[:40]!r}; convert it to {_READABLE}"
    )


def _text_of(path: Path) -> str:
    """The text of the file in UTF-8, or in UTF-16 if it begins with the mark of that encoding."""
    content = path.read_bytes()
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ScoringError(
            f"{path}: neither text in UTF-8 nor a known binary format (byte {error.start:,} is "
            f"{content[error.start]:#04x}); convert it to {_READABLE}"
        ) from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def _parse_json_text(text: str) -> list[Any]:
    """The list in JSON text, its only value, or several values that are not one per line."""
    try:
        value = parse_json(text)
    except json.JSONDecodeError:
        try:
            value = parse_json(_TRAILING_COMMA.sub(lambda match: match.group(1) or "", text))
        except json.JSONDecodeError as error:
            with suppress(ValueError):
                if len(values := _parse_json_lines(text)) > 1:
                    return values
            raise error from None
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True, slots=True)
class _CutOff:
    """The number of the last line, which is not complete."""

    line: int


def _parse_json_lines(text: str) -> list[Any]:
    """The values in `text`, one after another, and a `_CutOff` for a value that is not complete.

    A run that was killed leaves half of its last line.
    """
    rows: list[Any] = []
    position = 0
    while start := _NOT_SPACE.search(text, position):
        try:
            value, position = JSON_DECODER.raw_decode(text, start.start())
        except ValueError as error:
            line = 1 + text.count("\n", 0, start.start())
            is_cut_off = isinstance(error, json.JSONDecodeError) and (
                error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())
            )
            if rows and is_cut_off and "\n" not in text[start.start() :].strip():
                return [*rows, _CutOff(line)]
            raise ValueError(f"line {line}: {error}") from error
        rows.append(value)
    return rows


def _parse_table(text: str, delimiter: str) -> list[Any]:
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns = next(reader)
    check_names(columns)
    rows = []
    for fields in reader:
        if len(fields) > len(columns):
            raise ValueError(f"line {reader.line_num}: more fields than columns")
        if fields:
            rows.append(TableRow(zip(columns, fields, strict=False)))
    return rows
