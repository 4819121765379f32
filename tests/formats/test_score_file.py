"""Scores of results files in every format, against the recorded official v2 numbers."""

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.paths import GOLDEN
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.official import Rating
from videomme_pipeline.formats.score_file import (
    ScoreOptions,
    ScoreReport,
    parse_durations,
    score_file,
)
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import Outcome
from videomme_pipeline.scoring.statistics.groups import GroupRule

GOLDEN_SCORES = GOLDEN / "scores"
ROWS: list[dict[str, Any]] = json.loads((GOLDEN_SCORES / "v2_responses.json").read_text())
CASES = {
    case["name"].split(" ")[0]: case
    for case in json.loads((GOLDEN_SCORES / "v2_official_scores.json").read_text())["cases"]
}
VLMEVALKIT = json.loads((GOLDEN_SCORES / "v2_vlmevalkit.json").read_text())["dataset_case"]
IN_MEMORY = CASES["official_no_csv_roundtrip"]["rating"]
THROUGH_CSV = CASES["official_main_path"]["rating"]


def write(rows: list[dict[str, Any]], path: Path) -> Path:
    match path.suffix:
        case ".json":
            path.write_text(json.dumps(rows))
        case ".jsonl":
            path.write_text("\n".join(json.dumps(row) for row in rows))
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case ".tsv":
            pd.DataFrame(rows).to_csv(path, sep="\t", index=False)
        case ".csv":
            pd.DataFrame(rows).to_csv(path, index=False)
    return path


def score_v2(
    path: Path,
    reader: ReaderName = ReaderName.OFFICIAL_V2,
    rule: GroupRule = GroupRule.OFFICIAL,
) -> ScoreReport:
    return score_file(path, ScoreOptions(benchmark="videomme_v2", reader=reader, group_rule=rule))


def assert_equal(rating: Rating | None, recorded: dict[str, dict[str, float]]) -> None:
    assert rating is not None
    assert rating.keys() == recorded.keys()
    for part, scores in recorded.items():
        assert rating[part] == pytest.approx(scores, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("rows.json", IN_MEMORY),
        ("rows.jsonl", IN_MEMORY),
        ("rows.parquet", IN_MEMORY),
        ("rows.tsv", THROUGH_CSV),
        ("rows.csv", THROUGH_CSV),
    ],
)
def test_official_v2_ratings_equal_the_recorded_ones(
    tmp_path: Path, name: str, recorded: dict[str, Any]
) -> None:
    assert_equal(score_v2(write(ROWS, tmp_path / name)).rating, recorded)


def test_row_order_does_not_change_the_official_v2_numbers(tmp_path: Path) -> None:
    shuffled = ROWS.copy()
    random.Random(1).shuffle(shuffled)
    assert_equal(score_v2(write(shuffled, tmp_path / "rows.json")).rating, IN_MEMORY)


def test_the_corrected_rule_counts_unreadable_answers_as_wrong(tmp_path: Path) -> None:
    case = CASES["failures_counted_as_0"]
    report = score_v2(write(ROWS, tmp_path / "rows.json"), rule=GroupRule.CORRECTED)
    assert_equal(report.rating, case["rating"])
    assert report.breakdowns["overall"][0].accuracy == pytest.approx(
        case["question_accuracy"] / 100
    )


def test_null_predictions_are_failed_and_have_the_recorded_score(tmp_path: Path) -> None:
    case, before = CASES["none_predictions"], CASES["official_no_csv_roundtrip"]["scores"]
    rows = [
        row | ({"prediction": None} if mark == -1 != earlier else {})
        for row, mark, earlier in zip(ROWS, case["scores"], before, strict=True)
    ]
    report = score_v2(write(rows, tmp_path / "rows.json"))
    assert_equal(report.rating, case["rating"])
    failed = sum(row.outcome is Outcome.FAILED for row in report.rows)
    assert failed == sum(not row["prediction"] for row in rows)


@pytest.mark.parametrize("empty", [None, "", "None"])
def test_level_and_heads_may_be_only_in_the_last_row(tmp_path: Path, empty: str | None) -> None:
    labels = dict.fromkeys(("level", "second_head", "third_head"), empty)
    rows = [row if row["question_id"].endswith("-4") else row | labels for row in ROWS]
    assert_equal(score_v2(write(rows, tmp_path / "rows.json")).rating, IN_MEMORY)


def test_vlmevalkit_ratings_equal_the_recorded_ones(tmp_path: Path) -> None:
    path = write(VLMEVALKIT["rows"], tmp_path / "rows.json")
    report = score_v2(path, ReaderName.VLMEVALKIT, GroupRule.CORRECTED)
    assert_equal(report.rating, VLMEVALKIT["vlmevalkit_rating"])
    assert_equal(score_v2(path).rating, VLMEVALKIT["official_rating_emptystring"])
    through_tsv = score_v2(write(VLMEVALKIT["rows"], tmp_path / "rows.tsv"))
    assert_equal(through_tsv.rating, VLMEVALKIT["official_rating_via_tsv"])


def test_a_missing_row_removes_only_the_score_of_the_group(tmp_path: Path) -> None:
    report = score_v2(write(ROWS[:-1], tmp_path / "rows.json"))
    assert [group.video_id for group in report.unscored_groups] == [ROWS[-1]["video_id"]]
    assert any("is not scored: 3 questions" in note for note in report.notes)
    whole = score_v2(write(ROWS[:-4], tmp_path / "whole.json"))
    assert report.rating == whole.rating


def test_a_group_with_an_unknown_structure_has_no_score(tmp_path: Path) -> None:
    rows = [
        row | ({"group_structure": "[1,[2,3,4]]"} if row["video_id"] == "001" else {})
        for row in ROWS
    ]
    report = score_v2(write(rows, tmp_path / "rows.json"))
    assert [group.video_id for group in report.unscored_groups] == ["001"]
    assert "[1,[2,3,4]]" in report.unscored_groups[0].reason


def test_videos_marked_missing_are_left_out_with_the_flag_of_the_official_script() -> None:
    path = GOLDEN_SCORES / "v1_responses.json"
    counted = score_file(path, ScoreOptions())
    assert len(counted.rows) == 180
    assert counted.notes[0].startswith(
        "5 videos are marked missing and counted (--skip_missing leaves them out): "
    )
    assert len(score_file(path, ScoreOptions(skip_missing=True)).rows) == 165


def test_a_partial_set_is_scored_with_a_note() -> None:
    report = score_file(
        GOLDEN_SCORES / "v1_responses.json",
        ScoreOptions(durations=(Duration.LONG,), skip_missing=True),
    )
    assert "18 long videos, but the benchmark has 300" in report.notes
    assert any("5 of 54 answers are missing" in note for note in report.notes)


@pytest.mark.parametrize(
    "notation",
    ["short,long", "short, long", "['short', 'long']", '["short","long"]', "SHORT LONG"],
)
def test_all_notations_of_durations_are_understood(notation: str) -> None:
    assert parse_durations(notation) == (Duration.SHORT, Duration.LONG)


def test_an_unknown_duration_suggests_the_nearest() -> None:
    with pytest.raises(ScoringError, match="did you mean `medium`"):
        parse_durations("short,medum")
    with pytest.raises(ScoringError, match="name one or more of short, medium, long"):
        parse_durations("[]")


QUESTION = {
    "video_id": "001",
    "question_id": "001-1",
    "duration": "short",
    "domain": "Knowledge",
    "sub_category": "Law",
    "task_type": "Counting Problem",
    "question": "?",
    "options": ["A. 1", "B. 2", "C. 3", "D. 4"],
    "answer": "A",
    "prediction": "A",
}


@pytest.mark.parametrize(
    ("broken", "note"),
    [
        ({"answer": "Z"}, "`answer` is 'Z'"),
        ({"options": None}, "no `options`"),
        ({"video_id": None}, "it has no `video_id`"),
        ({"options": "['A. 1"}, "`options` is not a list"),
        ({"answer": "F"}, "`answer` is F, but there are only 4 options"),
        ({"duration": "tiny"}, "`duration` is 'tiny', not short, medium, long"),
    ],
)
def test_an_unusable_row_is_reported_and_the_others_are_scored(
    tmp_path: Path, broken: dict[str, Any], note: str
) -> None:
    path = write([QUESTION, QUESTION | {"question_id": "001-2"} | broken], tmp_path / "rows.json")
    report = score_file(path, ScoreOptions())
    assert len(report.rows) == 1
    assert any("row 2 (001-2) left out" in line and note in line for line in report.notes)


def test_a_row_without_an_answer_is_left_out_of_a_file_of_indices(tmp_path: Path) -> None:
    rows = [
        QUESTION
        | {"question_id": f"001-{index}", "question": f"{index}?", "answer": answer}
        | {"options": ["red", "blue", "green", "pink"]}
        for index, answer in enumerate([0, 1, None, 3])
    ]
    report = score_file(write(rows, tmp_path / "rows.json"), ScoreOptions())
    assert [row.answer for row in report.rows] == ["A", "B", "D"]
    assert any("row 3 (001-2) left out" in note for note in report.notes)


def test_videos_without_questions_are_reported(tmp_path: Path) -> None:
    whole = {"video_id": "001", "questions": [QUESTION, "no question"]}
    report = score_file(
        write(
            [whole, {"video_id": "002"}, {"video_id": "003", "questions": {}}], tmp_path / "t.json"
        ),
        ScoreOptions(),
    )
    assert len(report.rows) == 1
    assert any("2 videos have no list of `questions`: 002, 003" in note for note in report.notes)
    assert any("row 2 (no id) left out" in note for note in report.notes)


def test_an_unknown_label_is_reported_and_counts_overall(tmp_path: Path) -> None:
    path = write([QUESTION | {"task_type": "Counting Problems"}], tmp_path / "rows.json")
    report = score_file(path, ScoreOptions())
    assert report.breakdowns["overall"][0].responses == 1
    assert any("did you mean 'Counting Problem'" in note for note in report.notes)


def test_lmms_eval_sample_lines_are_read(tmp_path: Path) -> None:
    doc = {key: value for key, value in QUESTION.items() if key != "prediction"}
    line = {"doc_id": 0, "doc": doc, "target": "A", "resps": [["A. 1"]], "filtered_resps": ["A"]}
    for name in ("samples.jsonl", "samples.json"):
        path = tmp_path / name
        path.write_text(f"{json.dumps(line)}\n" * 2)
        report = score_file(path, ScoreOptions())
        assert [row.raw_output for row in report.rows] == ["A. 1"]
        assert report.rows[0].outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.json", None, "no such file"),
        ("empty.json", "[]", "contains no results"),
        ("broken.json", "[{", "not readable as JSON"),
        ("blank.json", "", "contains no results"),
        ("broken.jsonl", '{oops\n{"video_id": "001"}', "line 1"),
        (
            "groups.json",
            json.dumps([QUESTION | {"group_type": "logic"}]),
            "--benchmark videomme_v2",
        ),
        ("words.json", '["A", "B"]', "expected a list of objects"),
        ("long.json", json.dumps([QUESTION | {"duration": "long"}]), "no question on short"),
    ],
)
def test_the_error_for_a_file_that_cannot_be_scored_has_the_reason(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ScoringError, match=message):
        score_file(tmp_path / name, ScoreOptions(durations=(Duration.SHORT,)))


HALF = "\ud83d"
"""The first half of an emoji, as a limit on tokens leaves it."""


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_half_an_emoji_is_replaced_with_a_remark(tmp_path: Path, suffix: str) -> None:
    path = write(
        [
            QUESTION | {"prediction": f"A {HALF}", "domain": f"Know{HALF}"},
            QUESTION | {"question_id": f"001-2{HALF}"},
        ],
        tmp_path / f"rows{suffix}",
    )
    report = score_file(path, ScoreOptions())
    assert [row.raw_output for row in report.rows] == ["A \ufffd", "A"]
    assert [row.question_id for row in report.rows] == ["001-1", "001-2\ufffd"]
    assert "rows with a text cut inside a character, which is now U+FFFD: 2" in report.remarks
