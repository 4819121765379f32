"""`videomme recipe list`, `show` and `run`."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import use, videomme


def rows(right: tuple[int, int, int], unreadable: int = 0) -> list[dict[str, Any]]:
    """2,700 answers, of which so many are right by duration, in a random order."""
    chance = random.Random(4)
    answers = []
    for part, (duration, count) in enumerate(zip(("short", "medium", "long"), right, strict=True)):
        is_right = [True] * count + [False] * (900 - count)
        chance.shuffle(is_right)
        for number, correct in enumerate(is_right, start=900 * part):
            answer = "ABCD"[number % 4]
            answers.append(
                {
                    "video_id": f"{number // 3:03d}",
                    "duration": duration,
                    "question_id": f"{number // 3:03d}-{number % 3 + 1}",
                    "question": "Which?",
                    "options": ["A. a", "B. b", "C. c", "D. d"],
                    "answer": answer,
                    "prediction": answer if correct else "BCDA"[number % 4],
                }
            )
    for row in answers[:unreadable]:
        row["prediction"] = "hm"
    return answers


@pytest.fixture(autouse=True)
def outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)


def test_a_published_number_is_reproduced_by_its_answers() -> None:
    Path("a.json").write_text(json.dumps(rows((667, 537, 467))))
    lines = videomme("recipe", "run", "streamforest", "--from", "a.json").out.splitlines()
    assert lines[0].startswith(
        "streamforest, without_subtitles, grade B: published 61.9, here 61.9, 95% CI 60."
    )
    assert [line.rsplit(": ")[-1] for line in lines[:4]] == ["consistent"] * 4
    assert "Not proven: engine: the script of the repository" in lines
    assert (
        "Not published: weights, frames, pixels, prompt, generation, reader, denominator" in lines
    )
    audit = videomme("audit", "a.json", "--json").json
    cells = [row["summary"] for row in audit["findings"] if row["check"] == "published_cell"]
    assert cells[0].endswith("667 of 900 + 537 of 900 + 467 of 900")
    assert "all of these are the published values of streamforest without_subtitles" in cells


def test_other_answers_are_not_consistent() -> None:
    Path("a.json").write_text(json.dumps(rows((500, 450, 400))))
    ended = videomme("recipe", "run", "streamforest", "--from", "a.json", "--json")
    assert ended.status == 3
    assert [row["is_consistent"] for row in ended.json["values"]] == [False] * 4
    shown = videomme("recipe", "run", "streamforest", "--from", "a.json").out
    assert "here 50.0" in shown
    assert "-11.9 points, not consistent" in shown


def test_few_answers_are_no_verdict() -> None:
    Path("a.json").write_text(json.dumps(rows((667, 537, 467))[:2_429]))
    ended = videomme("recipe", "run", "streamforest", "--from", "a.json")
    assert ended.status == 3
    assert ": undecided\n" in ended.out
    assert "consistent" not in ended.out
    assert "Undecided: only 2,429 of 2,700 questions have an answer, less than 90%" in ended.out
    Path("a.json").write_text(json.dumps(rows((667, 537, 467))[:2_430]))
    assert videomme("recipe", "run", "streamforest", "--from", "a.json").status == 0


def test_a_total_without_an_interval_is_no_verdict() -> None:
    """The score of groups that are all right has none."""
    dataset = {"level": 1, "second_head": "a", "third_head": "b", "options": ["A. 1", "B. 2"]}
    group = {"group_type": "relevance", "group_structure": None, "answer": "A", "prediction": "A"}
    answers = [
        {"video_id": f"{n:03d}", "question_id": f"{n:03d}-{k}", "question": f"{k}?"}
        | (dataset | group)
        for n in range(800)
        for k in range(4)
    ]
    Path("a.json").write_text(json.dumps(answers))
    ended = videomme("recipe", "run", "qwen3-vl-8b-v2-moss-vl", "--from", "a.json")
    assert "here 100.0: no interval" in ended.out
    assert ended.status == 3


def test_the_denominator_is_that_of_the_recipe() -> None:
    Path("a.json").write_text(json.dumps(rows((700, 600, 600), unreadable=300)))
    (value,) = videomme("recipe", "run", "gpt-4o", "--from", "a.json", "--json").json["values"]
    answers = json.loads(Path("a.json").read_text())
    right = sum(row["prediction"] == row["answer"] for row in answers)
    assert value["here"] == pytest.approx(100 * right / 2_400)


def test_contradictory_sources_name_each_other() -> None:
    Path("a.json").write_text(json.dumps(rows((700, 600, 600))))
    shown = videomme("recipe", "run", "llava-video-72b", "--from", "a.json").out
    assert (
        "Another source says: llava-video-72b-measured: 68.6 without_subtitles (accuracy)" in shown
    )


def test_recipes_are_listed_and_shown() -> None:
    listed = videomme("recipe", "list").out.splitlines()
    columns = ["recipe", "model", "track", "metric", "published", "grade", "compared", "frames"]
    assert listed[0].split("\t") == columns
    assert len(listed) > 25
    shown = yaml.safe_load(videomme("recipe", "show", "qwen3-vl-8b-script").out)
    assert shown["not_published"] == []
    assert shown["compared"] == "2026-11-28"
    assert yaml.safe_load(videomme("recipe", "show", "moss-vl-v2").out)["compared"] == (
        "not compared again"
    )
    assert videomme("recipe", "show", "gpt-4o", "--json").json["published"] == {
        "without_subtitles": {"overall": 71.9}
    }


def test_answers_come_from_a_file_or_a_model() -> None:
    assert "--from FILE" in videomme("recipe", "run", "gpt-4o").failed_with
    both = ("--from", "a.json", "--model", "x")
    assert "--model NAME" in videomme("recipe", "run", "gpt-4o", *both).failed_with
