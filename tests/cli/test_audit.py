"""`videomme audit` with results files, outside of a project."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import videomme
from tests.support.paths import GOLDEN
from videomme_pipeline.benchmarks.questions import read_ids

RESULTS = GOLDEN / "results"


@pytest.fixture(autouse=True)
def outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(*predictions: str) -> list[dict[str, Any]]:
    return [
        {
            "video_id": f"{number:03d}",
            "question_id": f"{number:03d}-1",
            "question": "Which?",
            "options": ["A. a", "B. b", "C. c", "D. d"],
            "answer": "ABCD"[number % 4],
            "prediction": prediction,
        }
        for number, prediction in enumerate(predictions)
    ]


def test_one_line_is_one_finding_and_an_error_is_status_1() -> None:
    Path("a.json").write_text(json.dumps(rows(*["A"] * 60, "", "All 5 attempts failed")))
    ended = videomme("audit", "a.json")
    lines = ended.out.splitlines()
    assert ended.status == 1
    assert (
        lines[0]
        == "error   missing_questions  a.json: 62 of 2,700 questions of videomme are in the run; "
        "if other files have the rest, name them together: their folder, or a quoted pattern"
    )
    assert any(
        line.startswith("error   stored_failures  a.json: 1 answers are empty, and 1 are texts")
        for line in lines
    )
    assert any(
        "nearly all answers are one letter" in line and "by chance: p" in line for line in lines
    )
    assert lines[-1].startswith("3 errors, ")


def test_logs_of_other_tools_state_letters_tokens_and_reasons() -> None:
    annotations = ("--annotations", str(RESULTS / "annotations.json"))
    shutil.copy(RESULTS / "every_eval_ever.jsonl", "eee.jsonl")
    for file in (RESULTS / "inspect.json", RESULTS / "inspect.eval", Path("eee.jsonl")):
        document = videomme("audit", str(file), *annotations, "--json").json
        unchecked = {row["check"] for row in document["findings"] if row["status"] == "unknown"}
        assert "guessed_letters" not in unchecked, file


def test_the_wrong_questions_are_a_list_for_an_evaluation() -> None:
    Path("a.json").write_text(json.dumps(rows("A", "B", "A", "What?", "")))
    Path("audit.json").write_text(videomme("audit", "a.json", "--json").out)
    listed = {name: read_ids(Path("audit.json"), name) for name in ("incorrect", "unreadable")}
    assert listed == {"incorrect": ["002-1"], "unreadable": ["003-1"]}
    assert read_ids(Path("audit.json"), "failed") == ["004-1"]


def test_a_run_that_does_not_exist_is_explained() -> None:
    assert "missing.json: no such file" in videomme("audit", "missing.json").failed_with


def test_an_unreadable_file_does_not_stop_the_others() -> None:
    for name in ("a.json", "b.json"):
        Path(name).write_text(json.dumps(rows(*"ABCD" * 3)))
    Path("bad.json").write_text('[{"question_id": "001-1", "pred')
    ended = videomme("audit", "bad.json", "a.json", "b.json", "missing.json", "--json")
    findings = [(row["run"], row["check"], row["status"]) for row in ended.json["findings"]]
    assert ended.status == 1
    assert findings[0] == ("bad.json", "unreadable", "error")
    assert findings[-1] == ("missing.json", "unreadable", "error")
    read = {run for run, finding, _ in findings if finding == "missing_questions"}
    assert read == {"a.json", "b.json"}
    assert "not readable as JSON" in videomme("audit", "missing.json", "bad.json").failed_with


@pytest.mark.parametrize(
    ("text", "is_failure"),
    [
        ("None", True),
        ("503 Service Unavailable", True),
        ("Error code: 429", True),
        ("Traceback (most recent call last):", True),
        ("request timed out", True),
        ("None of them", False),  # the text of an option
        ("450 metres", False),
        ("Failed to open the door", False),
    ],
)
def test_a_text_of_a_failure_is_no_text_of_an_option(text: str, is_failure: bool) -> None:
    row = rows("A")[0] | {"prediction": text}
    row["options"] = ["A. Failed to open the door", "B. None of them", "C. 450 metres", "D. d"]
    Path("a.json").write_text(json.dumps([row]))
    findings = videomme("audit", "a.json", "--json").json["findings"]
    assert any(finding["check"] == "stored_failures" for finding in findings) is is_failure


def test_long_texts_are_read_in_linear_time() -> None:
    texts = ["<think>" * 20_000, "A" + " " * 100_000, "." * 100_000 + "A", "((" * 50_000]
    Path("a.json").write_text(json.dumps(rows(*texts)))
    findings = videomme("audit", "a.json", "--json").json["findings"]
    unfinished = [row["numbers"] for row in findings if row["check"] == "truncation"]
    assert unfinished[0]["unfinished"] == 1


def test_a_row_of_another_benchmark_is_named_as_in_the_score() -> None:
    other = rows("B")[0] | {"question_id": "other-1", "options": None, "answer": "Z"}
    Path("a.json").write_text(json.dumps([*rows("A", "B"), other]))
    left_out = "row 3 (other-1) left out: it has no `options`"
    assert left_out in videomme("score", "a.json", "--report", "plain").out
    facts = {f["summary"]: f for f in videomme("audit", "a.json", "--json").json["findings"]}
    assert facts[left_out]["check"] == "left_out"


def test_all_questions_of_one_duration_are_complete() -> None:
    long = [
        row
        | {"video_id": f"{n // 3:03d}", "question_id": f"{n // 3:03d}-{n % 3}", "duration": "long"}
        for n, row in enumerate(rows(*"ABDC" * 225))
    ]
    Path("long.json").write_text(json.dumps(long))
    Path("part.json").write_text(json.dumps(long[:850]))
    findings = videomme("audit", "long.json", "part.json", "--json").json["findings"]
    facts = {f["run"]: f for f in findings if f["check"] == "missing_questions"}
    assert facts["long.json"]["status"] == "note"
    assert facts["long.json"]["summary"].startswith("900 of 900 long questions of videomme")
    assert facts["part.json"]["status"] == "error"
    assert facts["part.json"]["summary"].startswith("850 of 900 long questions of videomme")


def test_a_copy_is_an_error_at_any_size() -> None:
    texts = [f"The answer is {letter}." for letter in "ABCDABCC"]
    Path("a.json").write_text(json.dumps(rows(*texts)))
    Path("copy.json").write_text(Path("a.json").read_text())
    Path("other.json").write_text(json.dumps(rows(*texts[:-1], "The answer is B.")))
    findings = videomme("audit", "a.json", "copy.json", "other.json", "--json").json["findings"]
    facts = {f["run"]: f["summary"] for f in findings if f["check"] == "sameness"}
    assert facts["a.json"] == "the same text in all 8 responses: copy.json"
    assert "copy.json" not in facts, "one group of equal runs is one finding"
    assert facts["other.json"].startswith("not checked: 8 answers are too few (342 are needed)")


def test_equal_letters_of_a_few_questions_are_no_copy() -> None:
    for name in ("a.json", "b.json"):
        Path(name).write_text(json.dumps(rows(*"ABCDABCC")))
    findings = videomme("audit", "a.json", "b.json", "--json").json["findings"]
    facts = [f["summary"] for f in findings if f["check"] == "sameness"]
    assert {fact.partition(":")[0] for fact in facts} == {"not checked"}
