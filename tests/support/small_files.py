"""Results files of at most 1 MB that cost much time or memory in a careless reader."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MEGABYTE = 1_000_000
ROW = {
    "video_id": "001",
    "question_id": "001-1",
    "question": "?",
    "options": ["A. 1", "B. 2"],
    "answer": "A",
    "prediction": "A",
}
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def _rows(count: int, **columns: object) -> bytes:
    return json.dumps([ROW | columns | {"question_id": f"q{n}"} for n in range(count)]).encode()


def _archive(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def workbook(rows: bytes, shared: bytes = b"") -> bytes:
    sheet = f"<worksheet {_MAIN}><sheetData>".encode() + rows + b"</sheetData></worksheet>"
    texts = f"<sst {_MAIN}>".encode() + shared + b"</sst>"
    return _archive(
        **{
            "xl/workbook.xml": b"<workbook/>",
            "xl/worksheets/sheet1.xml": sheet,
            "xl/sharedStrings.xml": texts,
        }
    )


def _log(sample: bytes) -> bytes:
    return _archive(**{"header.json": b"{}", "samples/1_epoch_1.json": sample})


def _parquet(**columns: "pa.Array[Any]") -> bytes:
    packed = io.BytesIO()
    pq.write_table(pa.table(columns), packed, compression="zstd")
    return packed.getvalue()


def cell(column: str, text: str) -> bytes:
    return f'<c r="{column}1" t="inlineStr"><is><t>{text}</t></is></c>'.encode()


def _wide(rows: int, columns: int) -> bytes:
    cells = b"".join(cell("", f"c{n}") for n in range(columns))
    return b"<row>" + cells + b"</row>" + b"<row><c><v>1</v></c></row>" * rows


_HEADER = b"".join(cell("", name) for name in ("video_id", "prediction"))

SMALL_FILES: Mapping[str, Callable[[], bytes]] = {
    "an open text of escapes": lambda: b'[{"a": "' + rb"\"" * 450_000,
    "commas before no bracket": lambda: b"[1" + b", " * 490_000,
    "open brackets": lambda: b"[" * 900_000,
    "open objects": lambda: b'{"a":' * 190_000,
    "empty objects": lambda: b"[" + b"{}," * 300_000 + b"{}]",
    "empty lists": lambda: b"[" + b"[]," * 300_000 + b"[]]",
    "a number of a million digits": lambda: b'[{"video_id": ' + b"1" * 990_000 + b"}]",
    "an infinite level": lambda: _rows(1).replace(b'"video_id"', b'"level": 1e999, "video_id"'),
    "options of open brackets": lambda: _rows(1, options="[" * 900_000),
    "options of signs": lambda: _rows(1, options="[" + "-" * 900_000 + "1]"),
    "options of empty lists": lambda: _rows(1, options="['" + "',['" * 200_000 + "]"),
    "a million options": lambda: _rows(1, options="\n" * 100_000 + "A\n" * 200_000),
    "letters": lambda: _rows(9, prediction="A B C D " * 12_000),
    "letters in brackets": lambda: _rows(9, prediction="(A) " * 24_000),
    "labels": lambda: _rows(9, prediction="A. x B. y " * 10_000),
    "answers": lambda: _rows(9, prediction="The answer is A. " * 5_800),
    "boxes": lambda: _rows(9, prediction=r"\boxed{" * 13_000),
    "tags": lambda: _rows(9, prediction="<answer>" * 12_000),
    "reasoning": lambda: _rows(9, prediction="<think>" * 14_000),
    "open quotes": lambda: _rows(9, prediction='"reason": "\\' * 6_000),
    "spaces": lambda: _rows(9, prediction=" " * 100_000 + "x"),
    "line breaks": lambda: _rows(9, prediction="\n" * 50_000 + "x"),
    "questions": lambda: _rows(9, prediction="B. x\n" + "a" * 300 + "?" * 90_000),
    "numbers": lambda: _rows(9, prediction="7 " * 50_000, options=["A. 7", "B. 8"]),
    "texts of options": lambda: _rows(
        9, prediction="ab " * 30_000, options=["A. " + "ab " * 300, "B. " + "ab " * 299]
    ),
    "short answers": lambda: _rows(5_500, prediction="A or B"),
    "a table with short rows": lambda: (
        b",".join(b"c%d" % n for n in range(70_000)) + b"\n1" * 250_000
    ),
    "a table of one open text": lambda: b'a,b\n"' + b'""' * 490_000,
    "a workbook of a long cell reference": lambda: workbook(
        b'<row><c r="' + b"A" * 300_000 + b'1"/></row>'
    ),
    "a workbook of rows": lambda: workbook(b"<row/>" * 10_000_000),
    "a workbook of cells": lambda: workbook(b"<row>" + b"<c/>" * 15_000_000 + b"</row>"),
    "a workbook of some rows": lambda: workbook(b"<row/>" * 1_660_000),
    "a workbook of some cells": lambda: workbook(b"<row>" + b"<c/>" * 2_490_000 + b"</row>"),
    "a workbook of cells in many rows": lambda: workbook(
        (b"<row>" + b"<c/>" * 90 + b"</row>") * 26_000
    ),
    "a workbook of spaces": lambda: workbook(b" " * 100_000_000),
    "a workbook with short rows": lambda: workbook(_wide(100_000, 16_000)),
    "a workbook of one shared text": lambda: workbook(
        b"<row>" + _HEADER + b"</row>" + b'<row><c/><c t="s"><v>0</v></c></row>' * 200_000,
        b"<si><t>" + b"A or B " * 100_000 + b"</t></si>",
    ),
    "a log with a large sample": lambda: _log(b"[" + b"[]," * 20_000_000 + b"[]]"),
    "a log with lists": lambda: _log(b'{"id": [' + b"[]," * 3_330_000 + b"[]]}"),
    "a log with a list for a sample": lambda: _log(b"[]"),
    "a column of one text": lambda: _parquet(
        prediction=pa.DictionaryArray.from_arrays(
            pa.array([0] * 500_000, pa.int32()), pa.array(["A" * 400_000])
        )
    ),
    "a column of nothing": lambda: _parquet(prediction=pa.nulls(30_000_000, pa.int8())),
}
"""Content of the files by their description. Some are built from 100 MB."""
