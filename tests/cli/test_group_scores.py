"""Group score and accuracy of Video-MME-v2 by every reader, and the published values they equal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import videomme
from videomme_pipeline.formats.score_file import ScoreOptions, audited_file
from videomme_pipeline.scoring.findings.checks import audit
from videomme_pipeline.scoring.findings.reader_scores import scores_by_reader
from videomme_pipeline.scoring.findings.run import PublishedCell, Runs

V2 = ("--benchmark", "videomme_v2")
NOT_READ = "I would rather not say."
"""A response from which no reader reads a letter."""


@pytest.fixture(autouse=True)
def outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(groups: list[list[str]]) -> str:
    """A results file of relevance groups whose right answers are E, F, G, H."""
    rows: list[dict[str, Any]] = [
        {
            "video_id": f"{video:03d}",
            "question_id": f"{video:03d}-{number}",
            "group_type": "relevance",
            "group_structure": "4",
            "level": video % 3 + 1,
            "question": "Which?",
            "options": "\n".join(f"{letter}. option {letter}" for letter in "ABCDEFGH"),
            "answer": answer,
            "prediction": text,
        }
        for video, texts in enumerate(groups, 1)
        for number, (answer, text) in enumerate(zip("EFGH", texts, strict=True), 1)
    ]
    Path("a.json").write_text(json.dumps(rows))
    return "a.json"


def by_reader(file: str) -> dict[str, dict[str, Any]]:
    rows = videomme("score", file, *V2, "--json").json["by_reader"]
    return {row["reader"]: row for row in rows}


def test_each_reader_counts_as_its_tool_does() -> None:
    rows = by_reader(write([["E", "F", "G", NOT_READ], ["E", "A", "A", "A"]]))
    assert rows.keys() == {"careful", "official_v2", "lmms_eval", "vlmevalkit"}
    for reader in ("careful", "lmms_eval", "vlmevalkit"):
        assert rows[reader]["group_rule"] == "corrected"
        assert rows[reader]["group_score"] == pytest.approx((56.25 + 6.25) / 2)
        assert rows[reader]["accuracy"] == pytest.approx(100 * 4 / 8)
    official = rows["official_v2"]  # -1 cancels one of three right answers
    assert official["group_rule"] == "official"
    assert official["group_score"] == pytest.approx((25 + 6.25) / 2)
    assert official["accuracy"] == pytest.approx(100 * 4 / 7)


def test_a_group_score_is_no_accuracy() -> None:
    file = write([["E", "F", "G", "H"], *[["A"] * 4] * 7])
    rows = by_reader(file)
    assert rows["careful"]["group_score"] == rows["careful"]["accuracy"] == 12.5
    equal = "Qwen3.5-122B-A10B-Instruct (frames: 64) without subtitles"
    assert equal in rows["careful"]["equal_group_score"]
    assert rows["careful"]["equal_accuracy"] == []
    plain = videomme("score", file, *V2).out.splitlines()
    assert plain[0].split("\t")[2:] == [
        "group score", "published group scores", "accuracy", "published accuracies",
    ]  # fmt: skip
    assert plain[1].split("\t")[1:3] == ["careful", "12.50"]
    findings = videomme("audit", file, *V2, "--json").json["findings"]
    (block,) = [row["summary"] for row in findings if row["check"] == "published_cell"]
    readers = "careful, official_v2, lmms_eval, vlmevalkit"
    assert block.startswith(f"group score by reader: {readers} 12.50 (equal to ")
    assert equal in block
    assert block.endswith(f"accuracy by reader: {readers} 12.50")


def test_all_parts_of_a_published_cell_are_named_with_their_chance() -> None:
    groups = [["E", "F", "G", "H"][: n % 5] + ["A"] * (4 - n % 5) for n in range(40)]
    run = audited_file(Path(write(groups)), ScoreOptions(benchmark="videomme_v2"))
    parts = {
        name: round(part.scores[0], 1) for name, part in scores_by_reader(run)[0].parts.items()
    }
    assert {"group_score", "accuracy", "level_1", "relevance"} <= parts.keys()
    other = PublishedCell("other", parts | {"level_1": 99.0})
    cells = [PublishedCell("the paper", parts), other]
    equal = [f for f in audit(Runs(runs=[run], published=cells)) if "all of these" in f.summary]
    assert {f.summary.partition(", read by")[0] for f in equal} == {
        "all of these are the published values of the paper"
    }
    assert all(f.chance is not None and f.chance < 0.05 for f in equal)


def test_a_recipe_compares_the_metric_that_it_publishes() -> None:
    file = write([["E", "F", "G", "H"], *[["A"] * 4] * 7])
    ended = videomme("recipe", "run", "qwen3-vl-8b-v2-moss-vl", "--from", file)
    assert ended.status == 3, "most of the questions have no answer"
    assert ended.out.splitlines()[0].startswith(
        "qwen3-vl-8b-v2-moss-vl, without_subtitles, group score, grade C: published 12.4, here 12.5"
    )
    other = "Another source says: qwen3-vl-8b-v2-internvideo3: 27.9 unknown (accuracy)"
    assert other in ended.out.splitlines()
    both = videomme("recipe", "run", "gpt-5-v2", "--from", file, "--json").json["values"]
    assert [value["part"] for value in both] == ["group_score", "accuracy"]
