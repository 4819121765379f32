"""Results files of strangers: odd or hostile ones are refused with one sentence.

Each file has nine questions, and each fault would change the score if nobody noticed it.
"""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import videomme
from tests.support.small_files import cell, workbook
from videomme_pipeline.benchmarks.columns import read_rows
from videomme_pipeline.errors import AnnotationError

ROWS = [
    {
        "question_id": f"{video}-{number}",
        "video_id": video,
        "question": f"Which one is number {number}?",
        "options": "A. This one\nB. That one",
        "answer": "AB"[number % 2],
        "response": "A",
    }
    for video in ("001", "002", "003")
    for number in range(3)
]
COLUMNS = [*ROWS[0], "response"]
TABLE = [[*row.values(), row["answer"]] for row in ROWS]
"""The rows with a second column `response`, which has only right answers."""


def _csv(delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([COLUMNS, *TABLE])
    return text.getvalue().encode()


def _parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([*map(pa.array, zip(*TABLE, strict=True))], COLUMNS), file)
    return file.getvalue()


def _object(row: list[str]) -> str:
    pairs = zip(map(json.dumps, COLUMNS), map(json.dumps, row), strict=True)
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"


def _workbook() -> bytes:
    rows = [b"".join(cell("", text) for text in texts) for texts in [COLUMNS, *TABLE]]
    return workbook(b"".join(b"<row>" + cells + b"</row>" for cells in rows))


FILES: dict[str, Callable[[], bytes]] = {
    "results.csv": lambda: _csv(","),
    "results.tsv": lambda: _csv("\t"),
    "results.xlsx": _workbook,
    "results.parquet": _parquet,
    "results.json": lambda: b"[" + ",".join(map(_object, TABLE)).encode() + b"]",
    "results.jsonl": lambda: "\n".join(map(_object, TABLE)).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_a_name_that_is_there_twice_is_an_error_with_both_places(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    message = videomme("score", str(path)).failed_with
    kind = "key" if "json" in name else "column"
    assert f"the {kind} 'response'" in message
    assert f"is there twice, as {kind} 6 and {kind} 7; rename or remove one of them" in message


@pytest.mark.parametrize("name", [name for name in FILES if name != "results.xlsx"])
def test_annotations_of_own_benchmarks_are_checked_alike(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    with pytest.raises(AnnotationError, match=rf"{name}: the \w+ 'response'.* is there twice"):
        read_rows(path)


COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "score": lambda path: ("score", path),
    "audit": lambda path: ("audit", path),
    "compare": lambda path: ("compare", path, path),
    "gate": lambda path: ("gate", path, path),
    "reproduce": lambda path: ("reproduce", "gpt-4o", "--from", path),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_repeated_columns(command: str, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_bytes(FILES["results.csv"]())
    ended = videomme(*COMMANDS[command](str(path)))
    assert ended.status != 0
    assert "the column 'response' is there twice" in ended.err


def _written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text(json.dumps(rows))
    return str(path)


def test_ids_that_differ_only_by_blanks_are_an_error(tmp_path: Path) -> None:
    padded = [{**row, "question_id": f"{row['question_id']} "} for row in ROWS]
    path = _written(tmp_path / "results.json", [*ROWS, *padded])
    message = videomme("score", path).failed_with
    assert "the ids '001-0' and '001-0 ' differ only by blanks; write them alike" in message


def test_annotations_with_one_id_for_two_questions_are_an_error(tmp_path: Path) -> None:
    other = {**ROWS[0], "question": "Which one is it?"}
    annotations = _written(tmp_path / "annotations.json", [*ROWS, other])
    answers = [{"question_id": row["question_id"], "response": "A"} for row in ROWS]
    path = _written(tmp_path / "results.json", answers)
    message = videomme("score", path, "--annotations", annotations).failed_with
    assert "annotations.json: two different questions have the id '001-0'" in message
