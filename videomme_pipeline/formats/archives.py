"""Rows in zip archives, with a limit on their size.

An `.xlsx` workbook contains XML; a log of Inspect (`.eval`) contains one JSON file per sample.
"""

import fnmatch
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from videomme_pipeline.benchmarks.columns import check_names, parse_json
from videomme_pipeline.formats.results_format import Row, TableRow

_MEGABYTE = 1_000_000
_MAX_RATIO = 10
_MAX_COLUMNS = 16_384
_DAMAGE = (zlib.error, struct.error, lzma.LZMAError)
_ZSTANDARD = 93
_NAME_LENGTHS = 26
"""Offset of the two lengths in the header before each member."""
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_CELL, _ROW = f"{_SHEET}c", f"{_SHEET}row"
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_REFERENCE = re.compile(r"([A-Z]{0,3})\d*")
"""The name of a cell."""


def largest_content(path: Path) -> int:
    """The number of bytes that may be unpacked from a file. Real results have less."""
    return _MAX_RATIO * max(_MEGABYTE, path.stat().st_size)


def read_archive(path: Path, largest_bytes: int) -> list[Any]:
    """The rows in a workbook (`.xlsx`, first sheet) or the samples in an Inspect log (`.eval`).

    ValueErrors describe archives that are damaged, too large or of another kind.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "xl/workbook.xml" in names:
                sheets = [name for name in names if name.startswith("xl/worksheets/sheet")]
                shared = [name for name in names if name == "xl/sharedStrings.xml"]
                members = _members(archive, path, [*shared, *sorted(sheets)[:1]], largest_bytes)
                texts = _shared_texts(members.pop(0)) if shared else []
                return list(_sheet_rows(members[0], texts)) if members else []
            if "header.json" in names or any(name.startswith("_journal/") for name in names):
                samples = fnmatch.filter(names, "samples/*.json")
                if not samples:
                    raise ValueError("the Inspect log has no samples; evaluate with --log-samples")
                return list(map(parse_json, _members(archive, path, samples, largest_bytes)))
    except UnicodeDecodeError:
        raise ValueError("a sample of the Inspect log is not text in UTF-8") from None
    except (zipfile.BadZipFile, RuntimeError, EOFError, *_DAMAGE) as error:
        raise ValueError(f"the zip archive is damaged or encrypted ({error})") from error
    except ElementTree.ParseError as error:
        raise ValueError(f"the workbook is damaged ({error})") from error
    raise ValueError(
        "the zip archive is neither an .xlsx workbook nor an Inspect log; unpack it and use one of "
        f"its files ({', '.join(names[:3])})"
    )


def _members(
    archive: zipfile.ZipFile, path: Path, names: list[str], largest_bytes: int
) -> list[bytes]:
    """The decompressed members. None is larger than its declared size, which is checked first."""
    members = [archive.getinfo(name) for name in names]
    size = sum(info.file_size for info in members)
    if size > largest_bytes:
        raise ValueError(
            f"decompressed, it has {size:,} bytes, more than the limit of {largest_bytes:,} "
            "for a file of this size; convert it to JSON lines or CSV"
        )
    return [
        _zstandard(path, info) if info.compress_type == _ZSTANDARD else archive.read(info)
        for info in members
    ]


def _zstandard(path: Path, info: zipfile.ZipInfo) -> bytes:
    """The member `info`, compressed by a method that `zipfile` does not have before Python 3.14."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    with path.open("rb") as file:
        file.seek(info.header_offset + _NAME_LENGTHS)
        file.seek(sum(struct.unpack("<HH", file.read(4))), 1)
        packed = pa.BufferReader(file.read(info.compress_size))
    with pa.CompressedInputStream(packed, "zstd") as stream:
        content = bytes(stream.read(info.file_size))
    if zlib.crc32(content) != info.CRC:
        raise ValueError(f"the zip archive is damaged ({info.filename} has another checksum)")
    return content


def _shared_texts(xml: bytes) -> list[str]:
    return [
        _text_of(element)
        for _, element in ElementTree.iterparse(BytesIO(xml))
        if element.tag == f"{_SHEET}si"
    ]


def _text_of(element: ElementTree.Element) -> str:
    """The text of a cell or a shared text, without the pronunciation that Excel may add."""
    runs = [*element.findall(f"{_SHEET}t"), *element.findall(f"{_SHEET}r/{_SHEET}t")]
    text = "".join(run.text or "" for run in runs)
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)


def _sheet_rows(xml: bytes, texts: list[str]) -> Iterator[Row]:
    """One row per line of the sheet. The first line has the names of the columns.

    A row has only the columns in which it has a cell, so that short rows need little memory.
    """
    columns: dict[int, str] = {}
    cells: dict[int, str | None] = {}
    number = 0
    for _, element in ElementTree.iterparse(BytesIO(xml)):
        if element.tag == _CELL:
            number = _column(element.get("r", "")) or number + 1  # the one to its right
            if number > _MAX_COLUMNS:
                raise ValueError(f"the workbook is damaged (it has a column {number:,})")
            if not columns or number in columns:
                cells[number] = _cell_text(element, texts) if len(element) else None
        elif element.tag == _ROW:
            element.clear()  # there may be millions of cells
            if cells and columns:
                yield TableRow((columns[column], text) for column, text in cells.items())
            elif cells:
                columns = {column: text for column, text in cells.items() if text}
                last = max(columns, default=0)
                check_names([columns.get(column, "") for column in range(1, last + 1)])
            cells, number = {}, 0


def _column(reference: str) -> int:
    """The number of the column of a cell such as "AA7", where A is 1; 0 without a reference."""
    if not reference:
        return 0
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(f"the workbook is damaged (a cell is called {reference[:20]})")
    number = 0
    for letter in match[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _cell_text(cell: ElementTree.Element, texts: list[str]) -> str | None:
    kind, value = cell.get("t"), cell.findtext(f"{_SHEET}v")
    if kind == "inlineStr":
        inline = cell.find(f"{_SHEET}is")
        return None if inline is None else _text_of(inline)
    if kind == "s" and value is not None:
        try:
            return texts[int(value)]
        except (IndexError, ValueError):
            raise ValueError(f"the workbook is damaged (it has no shared text {value})") from None
    return None if kind == "e" else value
