"""Rows of results files. The first bytes of a file decide how it is read, not its name."""

import csv
import glob
import json
import os
import re
import select
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from videomme_pipeline.benchmarks import columns
from videomme_pipeline.errors import DamagedFileError, ScoringError, StorageError, listed
from videomme_pipeline.formats.archives import largest_content, read_archive
from videomme_pipeline.formats.results_format import Row, TableRow

FIRST_BYTE_SECONDS = 30.0
"""Time until a pipe must have the first byte of the results."""
MAX_PIPE_BYTES = 1 << 28
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]++|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)
_VALUE = re.compile(r"[^\s,]")
_MAX_CUT_OFF = 100
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

    ScoringError if the file is missing, unreadable or not a list of objects.
    """
    if path.is_fifo():
        with TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            copy.write_bytes(_read_pipe(path))
            return read_rows_of(copy)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ScoringError(f"{path}: this is a device or a socket; save the results as a file")
    kind, remarks = "a results file", list[str]()
    try:
        kind, parse = _detected(path, remarks)
        published = parse()
        _check_size(published, largest_content(path))
        rows: list[Any] = columns.whole_characters(published)
    except FileNotFoundError:
        raise ScoringError(f"{path}: no such file") from None
    except RecursionError:
        raise ScoringError(f"{path}: not readable as {kind}: it is nested too deeply") from None
    except (OSError, ValueError, csv.Error, DamagedFileError, StorageError) as error:
        raise ScoringError(f"{path}: not readable as {kind}: {error}") from error
    if not all(isinstance(row, Mapping) for row in rows):
        raise ScoringError(
            f"{path}: expected a list of objects, one per video or question; in other lists, "
            "nothing names the columns (in pandas, write orient='records')"
        )
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


def _detected(path: Path, remarks: list[str]) -> tuple[str, Callable[[], list[Any]]]:
    """The format of the file and a function that returns its rows and appends `remarks`."""
    with path.open("rb") as file:
        start = file.read(16)
    for magic, what in _UNUSABLE.items():
        if start.startswith(magic):
            raise ScoringError(f"{path}: this is {what}")
    if start.startswith(b"PAR1"):
        return "Parquet", partial(columns.parquet_rows, path, largest_content(path))
    if start.startswith(b"PK"):
        return "a zip archive", partial(read_archive, path, largest_content(path))
    text = _text_of(path)
    header = text.lstrip().partition("\n")[0]
    if not header:
        return "text", list
    if header[0] in "[{":
        return "JSON", partial(_parse_json_text, text, remarks)
    if not {*"\t,;"}.isdisjoint(header):
        return "CSV or TSV", lambda: list(map(TableRow, columns.table_rows(text)))
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
        if error.reason == "unexpected end of data":  # the run was killed inside a character
            return content.decode(encoding, "replace")
        raise ScoringError(
            f"{path}: neither text in UTF-8 nor a known binary format (byte {error.start:,} is "
            f"{content[error.start]:#04x}); convert it to {_READABLE}"
        ) from None


def _parse_json_text(text: str, remarks: list[str]) -> list[Any]:
    """The list in JSON text, its only value, or its values if there are several."""
    try:
        value = columns.parse_json(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return _parse_values(text, remarks)
        try:
            value = columns.parse_json(_TRAILING_COMMA.sub(lambda match: match[1] or "", text))
        except json.JSONDecodeError:
            raise error from None
    return value if isinstance(value, list) else [value]


def _parse_values(text: str, remarks: list[str]) -> list[Any]:
    """The values in `text`, one after another, and a remark on those that are not complete.

    A run that was killed leaves a part of a row, after which the next run may append its own rows.
    After such a part, the next row begins a line, or has the keys of the first row.
    """
    rows: list[Any] = []
    cut_off: list[int] = []
    opening = re.compile(rf"(?<=\n)\{{|{re.escape(text[: text.find(':')].strip())}")
    position, is_after_part = 0, False
    while position >= 0 and (start := _VALUE.search(text, position)):
        try:
            value, position = columns.JSON_DECODER.raw_decode(text, start.start())
        except json.JSONDecodeError:
            if len(cut_off) >= _MAX_CUT_OFF or not rows or not isinstance(rows[0], Mapping):
                raise
            value, position, is_after_part = None, start.end(), True
        if is_after_part and not (
            isinstance(value, Mapping)
            and (text[start.start() - 1] == "\n" or value.keys() >= rows[0].keys())
        ):
            cut_off.append(start.start())
            next_row = opening.search(text, position)
            position = next_row.start() if next_row else -1
            continue
        is_after_part = False
        rows += value if isinstance(value, list) else [value]
    if cut_off:
        lines = dict.fromkeys(f"{1 + text.count(chr(10), 0, start):,}" for start in cut_off)
        remarks.append(f"rows that are cut off and left out: line {listed(list(lines))}")
    return rows
