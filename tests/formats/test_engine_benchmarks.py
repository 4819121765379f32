"""Made-up files of EvalScope, tables with letters only, and files of runs that were killed."""

import json
from pathlib import Path

import pytest

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, score_file


def outcomes(path: Path, content: str) -> dict[str, str]:
    path.write_text(content)
    rows = score_file(path, ScoreOptions()).rows
    return {row.question_id: row.outcome.value for row in rows}


def test_letters_on_both_sides_of_a_table_are_enough(tmp_path: Path) -> None:
    lines = ["id,answer,prediction", "001-1,A,A", "001-2,B,C", "002-1,C,C", "002-2,D,"]
    for separator in ",;":
        content = "\n".join(lines).replace(",", separator)
        assert list(outcomes(tmp_path / "a.csv", content).values()) == [
            "correct",
            "incorrect",
            "correct",
            "failed",
        ]
    rows = score_file(tmp_path / "a.csv", ScoreOptions()).rows
    assert [row.video_id for row in rows] == ["001", "001", "002", "002"]
    texts = "\n".join(["id,answer,prediction", "1,A,the red one", "2,B,the dog", "3,B,B"])
    with pytest.raises(ScoringError, match="--annotations"):
        outcomes(tmp_path / "b.csv", texts)


def test_predictions_of_evalscope_are_joined_by_their_ids(tmp_path: Path) -> None:
    annotations = tmp_path / "dataset.json"
    questions = [
        {"video_id": "001", "question_id": f"001-{n}", "question": f"Which {n}?"}
        | {"options": ["Red", "Blue"], "answer": "B"}
        for n in (1, 2)
    ]
    annotations.write_text(json.dumps(questions))
    rows = [
        {
            "index": 0,
            "model_output": {"choices": [{"message": {"content": "ANSWER: B"}}], "error": None},
            "messages": [],
            "metadata": {"question_id": "001-1", "answer": "B"},
        },
        {
            "index": 1,
            "model_output": {"choices": [], "error": "timeout"},
            "messages": [],
            "metadata": {"question_id": "001-2", "answer": "B"},
        },
    ]
    path = tmp_path / "predictions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = score_file(path, ScoreOptions(annotations=annotations))
    assert [row.outcome.value for row in report.rows] == ["correct", "failed"]
    assert report.rows[1].error == "error: timeout"


LINE = json.dumps({"question_id": "001-1", "answer": "A", "prediction": "A"})
OTHER = LINE.replace("001-1", "001-2")


@pytest.mark.parametrize(
    ("content", "read", "is_cut_off"),
    [
        (f"{LINE}\n{OTHER}\n" + LINE[:20], 2, True),
        (f"{LINE}{OTHER}", 2, False),
        (
            json.dumps(json.loads(LINE), indent=1) + json.dumps(json.loads(OTHER), indent=1),
            2,
            False,
        ),
        (f"\n{LINE}\n\n{OTHER}\n\n", 2, False),
    ],
    ids=["torn last line", "one line", "indented", "blank lines"],
)
def test_complete_rows_of_an_own_log_count(
    tmp_path: Path, content: str, read: int, is_cut_off: bool
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    report = score_file(path, ScoreOptions())
    assert len(report.rows) == read
    assert any("is cut off" in remark for remark in report.remarks) is is_cut_off


@pytest.mark.parametrize("content", [f"{LINE[:20]}\n{OTHER}", f"{LINE}\nend", LINE[:20]])
def test_a_broken_line_elsewhere_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    with pytest.raises(ScoringError, match="not readable as JSON"):
        score_file(path, ScoreOptions())
