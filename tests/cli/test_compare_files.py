"""`videomme compare` with results files, outside a project."""

import json
from pathlib import Path

import pytest

from tests.support.cli import videomme
from tests.support.paths import GOLDEN

RESULTS = GOLDEN / "results"
LOG = RESULTS / "inspect.json"


@pytest.fixture
def worse(tmp_path: Path) -> Path:
    """The first epoch of the log, with a wrong first answer instead of the right one."""
    log = json.loads(LOG.read_text())
    log["samples"] = [sample for sample in log["samples"] if sample["epoch"] == 1]
    log["samples"][0]["output"]["choices"][0]["message"]["content"] = "A"
    path = tmp_path / "worse.log"
    path.write_text(json.dumps(log))
    return path


def test_b_is_compared_with_a(worse: Path) -> None:
    comparison = videomme("compare", str(LOG), str(worse), "--json").json
    assert (comparison["evaluation_a"], comparison["evaluation_b"]) == (str(LOG), str(worse))
    assert comparison["accuracy"]["difference"]["mean"] == pytest.approx(-1 / 6)
    assert (comparison["won"], comparison["lost"]) == ([], ["001-1"])
    assert comparison["changed_settings"] == []


def test_the_terminal_shows_the_same_direction(worse: Path) -> None:
    shown = videomme("compare", str(LOG), str(worse)).out
    assert "Accuracy B − A  not significant: -16.7 points" in shown
    assert "1 correct only in A, 0 correct only in B" in shown


def test_questions_without_an_id_are_paired_by_their_texts(tmp_path: Path) -> None:
    rows = [
        {"video_id": f"{n // 3:03d}", "question": f"Which {n}?", "options": ["A. a", "B. b"]}
        | {"answer": "AB"[n % 2], "prediction": "A"}
        for n in range(90)
    ]
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    others = [row | {"answer": "A"} for row in rows]
    for path, own in zip(paths, (rows, rows[:0:-1], others), strict=True):
        path.write_text(json.dumps(own))
    first, fewer, other_keys = map(str, paths)
    comparison = videomme("compare", first, fewer, "--json").json
    assert (comparison["different"], comparison["n"]) == ([], 89)
    failed = videomme("compare", first, other_keys).failed_with
    assert failed.startswith("45 questions have different right answers in a and c: ")
    assert failed.endswith("give the dataset with --annotations")


def test_two_files_of_one_run_are_named(tmp_path: Path) -> None:
    rows = [
        {
            "video_id": f"{n // 3:03d}",
            "question_id": f"{n // 3:03d}-{n % 3}",
            "question": "Which?",
            "options": ["A. a", "B. b", "C. c", "D. d"],
            "answer": "A",
            "prediction": "ABCD"[n % 4],
        }
        for n in range(600)
    ]
    others = [row | {"prediction": "ACDB"["ABCD".index(str(row["prediction"]))]} for row in rows]
    paths = [tmp_path / name for name in ("a.jsonl", "copy.jsonl", "other.jsonl")]
    for path, answers in zip(paths, (rows, rows, others), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in answers))
    first, copy, other = map(str, paths)
    note = "have the same letter in all but 0 of 450 answers that one of them got wrong"
    assert note in videomme("compare", first, copy).err
    assert note in videomme("compare", first, copy, "--json").json["same_answers"]
    assert videomme("compare", first, other, "--json").json["same_answers"] is None


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with one column per model: `good` is always right, `bad` in one of three rows."""
    path = tmp_path / "models.tsv"
    rows = ["video_id\tquestion_id\tquestion\toptions\tanswer\tgood\tbad"]
    for n in range(30):
        bad = "B" if n % 3 else "A"
        rows.append(f"{n // 3:03d}\t{n // 3:03d}-{n % 3}\tWhich?\t['a', 'b']\tA\tA\t{bad}")
    path.write_text("\n".join(rows) + "\n")
    return path


COLUMNS = ("--columns", "prediction=good", "--columns-b", "prediction=bad")


def test_two_models_in_one_table_are_compared(table: Path) -> None:
    comparison = videomme("compare", str(table), str(table), *COLUMNS, "--json").json
    assert comparison["evaluation_a"] == f"{table}, good"
    assert comparison["evaluation_b"] == f"{table}, bad"
    assert comparison["accuracy"]["difference"]["mean"] == pytest.approx(-2 / 3)


def test_a_gate_reads_two_models_in_one_table(table: Path) -> None:
    decided = videomme("gate", str(table), str(table), *COLUMNS, "--json")
    assert (decided.status, decided.json["verdict"]) == (1, "worse")


def test_columns_without_a_name_are_explained(table: Path) -> None:
    ended = videomme("compare", str(table), str(table), "--columns-b", "bad")
    assert "bad: write NAME=COLUMN, for example prediction=GPT-4o" in ended.failed_with


def test_notes_count_questions_and_not_their_repeats(tmp_path: Path) -> None:
    row = {"video_id": "001", "question": "Which?", "options": ["A. a", "B. b"], "answer": "A"}
    rows = [{**row, "prediction": "A", "repeat": repeat} for repeat in range(5)]
    path = tmp_path / "repeats.json"
    path.write_text(json.dumps(rows))
    notes = videomme("score", str(path), "--report", "json").json["notes"]
    assert any(note.startswith("1 questions have no domain") for note in notes)
    table = videomme("score", str(path), "--report", "plain").out.splitlines()
    names, numbers = (line.split("\t") for line in table[:2])
    assert numbers[names.index("n")] == "1"
