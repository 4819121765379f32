"""`videomme gate` on results files: exit status, JUnit XML and the files of GitHub Actions."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.cli import videomme
from tests.support.paths import GOLDEN

BASELINE = GOLDEN / "scores" / "v1_responses.json"

Change = Callable[[dict[str, Any], int], str | None]


@pytest.fixture(autouse=True)
def outside_of_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_ACTIONS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)


def changed(path: Path, change: Change) -> str:
    """The baseline in `path`, with other responses."""
    videos = json.loads(BASELINE.read_text())
    for number, video in enumerate(videos):
        for question in video["questions"]:
            question["response"] = change(question, number)
    path.write_text(json.dumps(videos))
    return str(path)


def never_right(question: dict[str, Any], _: int) -> str:
    return "B" if question["answer"] == "A" else "A"


def always_right(question: dict[str, Any], _: int) -> str:
    return str(question["answer"])


def test_a_worse_candidate_fails_and_a_better_one_passes(tmp_path: Path) -> None:
    worse = changed(tmp_path / "worse.json", never_right)
    ended = videomme("gate", str(BASELINE), worse)
    assert ended.status == 1
    assert ended.out.startswith("Gate failed\naccuracy: worse, -")
    assert videomme("gate", worse, str(BASELINE)).status == 0
    assert videomme("gate", worse, str(BASELINE), "--fail-if", "not-equivalent").status == 1


def test_the_mean_of_several_runs_of_the_baseline_is_compared(tmp_path: Path) -> None:
    wrong = changed(tmp_path / "wrong.json", never_right)
    right = changed(tmp_path / "right.json", always_right)
    gates = [
        videomme("gate", right, wrong, *more, "--json").json["checks"][0]["difference"]
        for more in ((), ("--baseline-run", wrong), 2 * ("--baseline-run", right))
    ]
    assert gates == [-100, -50, -100]


def test_a_folder_is_one_run_and_its_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "README.md").write_text("notes")
    shutil.copy(BASELINE, tmp_path / "run")
    ended = videomme("gate", str(tmp_path / "run"), str(BASELINE), "--margin", "6")
    assert ended.status == 0
    assert "README.md" in ended.err


def test_the_margin_decides_if_equal_answers_are_equivalent_or_undecided() -> None:
    same = ("gate", str(BASELINE), str(BASELINE))
    equivalent = videomme(*same, "--margin", "6", "--json")
    assert (equivalent.status, equivalent.json["verdict"]) == (0, "equivalent")
    assert videomme(*same, "--margin", "2").status == 3
    assert videomme(*same, "--margin", "2", "--allow-undecided").status == 0
    assert videomme(*same, "--margin", "2", "--fail-if", "undecided").status == 1


@pytest.mark.parametrize("kept", ["a third of the videos", "right answers"])
def test_a_candidate_that_lost_answers_is_not_evaluated(tmp_path: Path, kept: str) -> None:
    videos = json.loads(BASELINE.read_text())
    for number, video in enumerate(videos):
        video["questions"] = [
            question
            for question in video["questions"]
            if question["response"]
            and (number % 3 == 0 if "third" in kept else question["response"] == question["answer"])
        ]
    candidate = tmp_path / "part.json"
    candidate.write_text(json.dumps(videos))
    whole = str(BASELINE)
    for pair in ((whole, str(candidate)), (str(candidate), whole)):
        ended = videomme("gate", *pair)
        assert ended.status == 4
        assert "questions have no answer in" in ended.err
    common = videomme("gate", whole, str(candidate), "--common", "--margin", "20", "--json")
    assert common.status == 0
    assert common.json["failed"] == 0
    left = sum(len(video["questions"]) for video in videos)
    assert common.json["compared"] == common.json["questions"] == left
    assert common.json["same_answers"]
    assert "All answers are the same." in videomme("gate", whole, whole, "--margin", "20").out


def test_wrong_usage_has_its_own_status() -> None:
    for wrong in (
        ("gate", str(BASELINE)),
        ("gate", str(BASELINE), "missing.json"),
        ("gate", str(BASELINE), str(BASELINE), "--fail-if", "slower"),
        ("gate", str(BASELINE), str(BASELINE), "--junit", "no-such-folder/gate.xml"),
    ):
        ended = videomme(*wrong)
        assert ended.status == 2, wrong
        assert "Traceback" not in ended.err


def test_a_candidate_without_answers_is_not_evaluated(tmp_path: Path) -> None:
    silent = changed(tmp_path / "silent.json", lambda _question, _video: "")
    report = tmp_path / "gate.xml"
    ended = videomme("gate", str(BASELINE), silent, "--junit", str(report))
    assert ended.status == 4
    suite = ElementTree.parse(report).getroot()[0]
    assert (suite.get("errors"), suite[0][0].tag) == ("1", "error")
    partly = changed(
        tmp_path / "partly.json",
        lambda question, video: "" if video % 4 == 0 else question["answer"],
    )
    assert videomme("gate", str(BASELINE), partly).status == 4
    assert videomme("gate", str(BASELINE), partly, "--max-failed", "0.5").status == 0


def test_junit_has_a_case_per_check(tmp_path: Path) -> None:
    worse, report = changed(tmp_path / "worse.json", never_right), tmp_path / "gate.xml"
    junit = ("--facet", "duration", "--junit", str(report))
    assert videomme("gate", str(BASELINE), worse, *junit).status == 1
    suite = ElementTree.parse(report).getroot()[0]
    assert [case.get("name") for case in suite] == [
        "accuracy",
        "duration: short",
        "duration: medium",
        "duration: long",
    ]
    assert suite.get("tests") == "4"
    assert suite.get("failures") == str(len(list(suite.iter("failure"))))
    assert suite[0][0].tag == "failure"


def test_github_actions_gets_a_summary_outputs_and_an_annotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = changed(tmp_path / "worse.json", never_right)
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ended = videomme("gate", str(BASELINE), worse)
    text = summary.read_text()
    assert text.startswith("before\n### ")
    assert "| accuracy | worse | -" in text
    values = dict(line.split("=") for line in output.read_text().splitlines())
    assert (values["verdict"], values["outcome"]) == ("worse", "failed")
    assert float(values["high"]) < 0
    (annotation,) = (line for line in ended.err.splitlines() if line.startswith("::error"))
    assert annotation.startswith("::error title=videomme gate::accuracy: worse")
    passed = videomme("gate", worse, changed(tmp_path / "right.json", always_right))
    assert (passed.status, "::error" in passed.err) == (0, False)
