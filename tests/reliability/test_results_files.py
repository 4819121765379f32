"""Results files of strangers: odd or hostile ones are refused, and their names are data.

Each file has nine questions, and each fault would change the score if nobody noticed it.
"""

import csv
import io
import json
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from tests.support.cli import videomme
from tests.support.hostile_names import HOSTILE, is_safe
from tests.support.small_files import cell, workbook
from videomme_pipeline.assets.stages.metadata import MAX_PICTURE_BYTES, metadata_of
from videomme_pipeline.benchmarks.columns import read_rows
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.formats import files
from videomme_pipeline.project.nightly.alerts import URLS_VARIABLE, nightly_alert, send
from videomme_pipeline.scoring.nightly.assess import Assessment, NightlyFinding
from videomme_pipeline.scoring.nightly.policy import NightlyCheck, Severity
from videomme_pipeline.stages.facts import Picture

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
    "reproduce": lambda path: ("recipe", "run", "gpt-4o", "--from", path),
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


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the files of GitHub Actions."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for variable in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    return tmp_path


REPORTS = {
    "plain": ("score", "{}"),
    "markdown": ("score", "{}", "--report", "markdown"),
    "official": ("score", "{}", "--report", "official"),
    "json": ("score", "{}", "--json"),
    "audit": ("audit", "{}"),
    "compare": ("compare", "{}", "{}"),
    "gate": ("gate", "{}", "{}", "--facet", "domain", "--junit", "junit.xml"),
}


@pytest.mark.parametrize("report", REPORTS)
def test_no_name_in_a_file_is_a_command_a_row_or_an_escape_sequence(
    report: str, github: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(github)
    rows = [
        {**row, "domain": name, "task_type": name, "question_id": f"{name}{row['question_id']}"}
        for row, name in zip(2 * ROWS, HOSTILE, strict=True)
    ]
    path = _written(github / "a:x:b\n::error::c.json", rows)
    ended = videomme(*(word.format(path) for word in REPORTS[report]))
    assert "Traceback" not in ended.err
    lines = (ended.out + ended.err).split("\n")
    unsafe = [line for line in lines if not is_safe(line)]
    if unsafe:  # the annotation of the gate
        (unsafe_line,) = unsafe
        assert is_safe(unsafe_line.removeprefix("::error title=videomme gate::"))
    assert "❌" not in ended.out + ended.err
    for variable in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        if (github / variable).exists():
            text = (github / variable).read_text()
            assert all(map(is_safe, text.split("\n")))
            assert "<script>" not in text.replace("\\<", "")
    if (github / "junit.xml").exists():
        ElementTree.parse(github / "junit.xml")


def test_an_alert_is_plain_text_with_one_line_per_finding(
    sink: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, alerts = sink
    monkeypatch.setenv(URLS_VARIABLE, url)
    findings = [
        NightlyFinding(
            check=NightlyCheck.ACCURACY,
            severity=Severity.ERROR,
            passed=False,
            is_new=True,
            summary=f"{name} is lower",
        )
        for name in HOSTILE
    ]
    for name in HOSTILE:
        assessment = Assessment(
            evaluation=name,
            date="2026-11-02",
            findings=tuple(findings),
            against_reference=None,
            against_previous_run=None,
            detectable_drop=None,
        )
        alert = nightly_alert(assessment, "http://localhost:3000")
        assert alert is not None
        send(alert)
    assert len(alerts) == len(HOSTILE)
    for received in alerts:
        assert is_safe(received["title"])
        lines = received["message"].split("\n")
        assert len(lines) == len(HOSTILE) + 2
        assert all(map(is_safe, lines))


@pytest.mark.parametrize("name", HOSTILE)
def test_the_dagster_ui_shows_titles_of_pictures_as_they_are(name: str) -> None:
    pictures = [Picture(bytes(size), "image/png", name) for size in (1, MAX_PICTURE_BYTES + 1)]
    shown, left_out = metadata_of({str(n): picture for n, picture in enumerate(pictures)}).values()
    (image,) = MarkdownIt().parseInline(shown.md_str)[0].children or []
    assert (image.type, image.attrs["src"]) == ("image", "data:image/png;base64,AA==")
    parts = MarkdownIt().parseInline(left_out.md_str)[0].children or []
    assert {part.type for part in parts} <= {"text", "text_special"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_name_that_is_no_text_is_one_sentence(command: str, tmp_path: Path) -> None:
    path = _written(tmp_path / os.fsdecode(b"results\xff.json"), ROWS)
    ended = videomme(*COMMANDS[command](path))
    assert ended.status == 2
    assert ended.err.endswith("results\\udcff.json: not UTF-8; rename it\n")


def test_files_of_ci_that_cannot_be_written_are_one_sentence(
    github: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(github))
    path = _written(github / "results.json", ROWS)
    ended = videomme("gate", path, path)
    assert ended.status == 2
    assert f"Error: cannot write GITHUB_STEP_SUMMARY {github} (Is a directory)" in ended.err


@pytest.fixture
def in_folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    _written(tmp_path / "run" / "a.json", ROWS)
    return tmp_path / "run"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize("write", [_pipe, _device, _socket])
def test_a_folder_with_a_pipe_a_device_or_a_socket_is_refused_at_once(
    in_folder: Path, write: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(in_folder)  # the path of a socket is short
    write(Path("b.json"))
    for command in COMMANDS.values():
        ended = videomme(*command(str(in_folder)))
        assert ended.status != 0
        assert f"{in_folder / 'b.json'}: this is a " in ended.err
    with pytest.raises(AnnotationError, match="not a file"):
        read_rows(in_folder / "b.json")


def test_a_device_alone_is_refused_at_once() -> None:
    assert "/dev/zero: this is a device" in videomme("score", "/dev/zero").failed_with


def test_a_pipe_is_read_and_one_without_a_byte_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    with ThreadPoolExecutor() as threads:
        threads.submit(path.write_text, json.dumps(ROWS))
        assert videomme("score", str(path)).status == 0
    monkeypatch.setattr(files, "FIRST_BYTE_SECONDS", 0.1)
    assert "nothing was written to this pipe" in videomme("score", str(path)).failed_with
    monkeypatch.setattr(files, "MAX_PIPE_BYTES", 10)
    with ThreadPoolExecutor() as threads:
        threads.submit(path.write_text, json.dumps(ROWS)[:100])
        monkeypatch.setattr(files, "FIRST_BYTE_SECONDS", 10.0)
        assert "more than 10 bytes came" in videomme("score", str(path)).failed_with
