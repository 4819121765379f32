"""The printed reports of the official scripts, byte for byte, on the recorded cases."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.paths import GOLDEN
from tests.support.scored_rows import v1_evaluation
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.formats.official import official_report
from videomme_pipeline.formats.score_file import ScoreOptions, parse_durations, score_file
from videomme_pipeline.reports.score_report import ReportKind, render
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.statistics.groups import GroupRule

GOLDEN_SCORES = GOLDEN / "scores"
RESPONSES = GOLDEN_SCORES / "v1_responses.json"
CASES = {
    case["name"]: case
    for case in json.loads((GOLDEN_SCORES / "v1_official_reports.json").read_text())["cases"]
}
FLAGS = {
    "return_categories_accuracy": "domain",
    "return_sub_categories_accuracy": "sub_category",
    "return_task_types_accuracy": "task_type",
}
SAME = (
    "60v_skip_missing_short,medium,long",
    "60v_skip_missing_long",
    "60v_skip_missing_short,long",
    "60v_skip_missing_['medium', 'short']",
    "60v_defaults_flags",
    "err_dup_type",
)


def report(durations: str, path: Path = RESPONSES, columns: Collection[str] = ()) -> str:
    options = ScoreOptions(
        reader=ReaderName.OFFICIAL_V1,
        durations=parse_durations(durations),
        skip_missing=True,
    )
    return official_report(score_file(path, options).rows, options.durations, columns)


@pytest.mark.parametrize("name", SAME)
def test_the_v1_report_equals_the_official_one(name: str) -> None:
    kwargs: dict[str, Any] = CASES[name]["kwargs"]
    # By default, the function of the script prints categories and its command line does not.
    flags = {"return_categories_accuracy": True} | kwargs
    columns = [column for flag, column in FLAGS.items() if flags.get(flag)]
    assert report(str(kwargs["video_types"]), RESPONSES, columns) == CASES[name]["stdout"]


@pytest.mark.parametrize("notation", ['["short","medium","long"]', "short, medium, long"])
def test_the_notations_of_the_official_readme_have_the_same_report(notation: str) -> None:
    # The official script fails on both or finds no video.
    assert report(notation, RESPONSES, FLAGS.values()) == CASES[SAME[0]]["stdout"]


def test_without_flags_only_the_overall_lines_are_printed() -> None:
    text = report("short")
    assert "Video Categories" not in text
    assert text.count("Overall:  73.5%") == 2


def template(**question: Any) -> dict[str, Any]:
    return {
        "video_id": "001",
        "duration": "short",
        "domain": "Knowledge",
        "sub_category": "Astronomy",
        "questions": [
            {
                "question_id": "001-1",
                "task_type": "Counting Problem",
                "question": "How many, roughly, are in [a, b,]?",
                "options": ["A. 1", "B. 2", "C. 3", "D. 4"],
                "answer": "A",
                "response": "A",
            }
            | {"question_id": "001-2"},
            {
                "question_id": "001-3",
                "task_type": "Counting Problem",
                "question": "",
                "options": ["A. 1", "B. 2", "C. 3", "D. 4"],
                "answer": "A",
            }
            | question,
        ],
    }


@pytest.mark.parametrize(
    ("question", "overall"),
    [({}, "100.0"), ({"response": None}, "100.0"), ({"response": "B"}, "50.0")],
)
def test_an_absent_or_null_response_is_not_answered(
    tmp_path: Path, question: dict[str, Any], overall: str
) -> None:
    path = tmp_path / "responses.json"
    path.write_text(json.dumps([template(**question)]))
    assert f"Overall:  {overall}%" in report("short", path)


def test_the_template_may_have_trailing_commas(tmp_path: Path) -> None:
    path = tmp_path / "responses.json"
    text = json.dumps([template(response="A")], indent=2)
    path.write_text(text.replace("\n      }", ",\n      }").replace("}\n]", "},\n]"))
    with pytest.raises(json.JSONDecodeError):
        json.loads(path.read_text())
    options = ScoreOptions(reader=ReaderName.OFFICIAL_V1, durations=(Duration.SHORT,))
    scored = score_file(path, options)
    assert len(scored.rows) == 2
    assert report("short", path, ["task_type"]).count("Counting Problem") == 2


def test_an_empty_duration_is_reported_as_zeros() -> None:
    rows = [row for row in v1_evaluation(1) if row.facets["duration"] == Duration.SHORT]
    assert "Overall:  0.0%" in official_report(rows, [Duration.LONG, Duration.SHORT])


@pytest.mark.parametrize(
    ("name", "suffix"), [("official_no_csv_roundtrip", ".json"), ("official_main_path", ".tsv")]
)
def test_the_v2_report_equals_the_official_one(tmp_path: Path, name: str, suffix: str) -> None:
    recorded = json.loads((GOLDEN_SCORES / "v2_official_scores.json").read_text())["cases"]
    theirs = next(case["stdout"] for case in recorded if case["name"] == name)
    rows = json.loads((GOLDEN_SCORES / "v2_responses.json").read_text())
    path = tmp_path / f"rows{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        pd.DataFrame(rows).to_csv(path, sep="\t", index=False)
    options = ScoreOptions(
        benchmark="videomme_v2", reader=ReaderName.OFFICIAL_V2, group_rule=GroupRule.OFFICIAL
    )
    text = render(score_file(path, options), ReportKind.OFFICIAL)
    assert text == theirs.partition("\nRating saved")[0]
