"""`--annotations` with a benchmark's own published file, before any run."""

import json
from pathlib import Path

import pytest

from tests.support.registered import registered
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, score_file

LVBENCH = {
    "key": "film",
    "type": "sports",
    "qa": [
        {
            "uid": f"{number}",
            "question": "Which?\n(A) Red\n(B) Blue\n(C) Green\n(D) Pink",
            "answer": "AB"[number],
            "question_type": ["reasoning"],
        }
        for number in range(2)
    ],
}


def test_the_nested_file_of_lvbench_is_read_by_its_declaration(tmp_path: Path) -> None:
    annotations, log = tmp_path / "video_info.meta.jsonl", tmp_path / "log.jsonl"
    annotations.write_text(json.dumps(LVBENCH) + "\n")
    rows = [{"uid": f"{number}", "prediction": "A"} for number in range(2)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ScoreOptions(
        benchmark="lvbench", annotations=annotations, columns={"question_id": "uid"}
    )
    with registered():
        report = score_file(log, options)
        assert [row.outcome.value for row in report.rows] == ["correct", "incorrect"]
        assert report.rows[0].facets["question_type_reasoning"] == "reasoning"
        annotations.write_text(json.dumps({"key": "film"}) + "\n")
        with pytest.raises(ScoringError, match="not the annotations of lvbench"):
            score_file(log, options)
