"""`videomme compare` and `score --against` with results files, outside a project."""

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


@pytest.mark.parametrize(
    "command",
    [
        ("compare", str(LOG), "WORSE", "--json"),
        ("score", "WORSE", "--against", str(LOG), "--report", "json"),
    ],
    ids=["compare", "score"],
)
def test_b_is_compared_with_a(
    worse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    comparison = videomme(*(str(worse) if word == "WORSE" else word for word in command)).json
    assert (comparison["evaluation_a"], comparison["evaluation_b"]) == (str(LOG), str(worse))
    assert comparison["accuracy"]["difference"]["mean"] == pytest.approx(-1 / 6)
    assert (comparison["won"], comparison["lost"]) == ([], ["001-1"])
    assert comparison["changed_settings"] == []


def test_the_terminal_shows_the_same_direction(worse: Path) -> None:
    shown = videomme("compare", str(LOG), str(worse)).out
    assert "Accuracy B − A  -16.7 points" in shown
    assert "1 correct only in A, 0 correct only in B" in shown


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
    assert note in videomme("score", copy, "--against", first).err
    assert videomme("compare", first, other, "--json").json["same_answers"] is None
