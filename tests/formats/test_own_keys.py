"""Rows of a results file that differ from the questions of the dataset."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import videomme
from videomme_pipeline.formats.score_file import ScoreOptions, score_file

DATASET: list[dict[str, Any]] = [
    {
        "video_id": f"{number:03d}",
        "videoID": f"-youtube{number:03d}",
        "question_id": f"{number:03d}-1",
        "question": f"What is in box {number}?",
        "options": ["A. One.", "B. Two.", "C. Three.", "D. Four."],
        "answer": "ABCD"[number % 4],
    }
    for number in range(1, 9)
]


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(DATASET))
    return path


def score(path: Path, rows: list[dict[str, Any]], annotations: Path) -> Any:
    path.write_text(json.dumps(rows))
    return score_file(path, ScoreOptions(annotations=annotations))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda row: row | {"answer": "A"}, "the answer is A, and C in the dataset"),
        (lambda row: row | {"options": row["options"][::-1]}, "the options are others"),
        (lambda row: row | {"question": "Which?"}, "the question has another text"),
    ],
)
def test_the_key_of_the_dataset_counts_and_a_note_lists_the_row(
    tmp_path: Path,
    annotations: Path,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    difference: str,
) -> None:
    rows = [row | {"prediction": row["answer"]} for row in DATASET]
    rows[1] = change(rows[1])
    report = score(tmp_path / "rows.json", rows, annotations)
    assert [row.answer for row in report.rows] == [row["answer"] for row in DATASET]
    assert all(row.is_correct for row in report.rows)
    (note,) = [note for note in report.notes if "differ from the dataset" in note]
    assert note.startswith("1 rows differ")
    assert "row 2 (002-1): " in note
    assert difference in note
    document = videomme(
        "score", str(tmp_path / "rows.json"), "--annotations", str(annotations), "--json"
    ).json
    assert document["publishable"] is False


@pytest.mark.parametrize("left_out", [["answer"], ["video_id"], ["answer", "video_id"]])
def test_own_options_are_compared_in_rows_that_are_not_complete(
    tmp_path: Path, annotations: Path, left_out: list[str]
) -> None:
    rows = [row | {"prediction": row["answer"]} for row in DATASET]
    rows[1]["options"] = ["D. Four.", "A. One.", "B. Two.", "C. Three."]
    rows = [{name: row[name] for name in row if name not in left_out} for row in rows]
    report = score(tmp_path / "rows.json", rows, annotations)
    assert len(report.rows) == 8
    (note,) = [note for note in report.notes if "differ from the dataset" in note]
    assert "1 rows differ" in note
    assert "row 2 (002-1): the options are others in the dataset" in note


def test_the_text_of_a_question_is_worth_more_than_the_number_of_a_row(
    tmp_path: Path, annotations: Path
) -> None:
    dataset = [row | {"question_id": str(number)} for number, row in enumerate(DATASET)]
    annotations.write_text(json.dumps(dataset))
    rows = [
        {"question_id": str(number), "video_id": row["video_id"], "question": row["question"]}
        | {"prediction": row["answer"]}
        for number, row in enumerate(reversed(DATASET))
    ]
    report = score(tmp_path / "rows.json", rows, annotations)
    assert all(row.is_correct for row in report.rows)
    assert not [note for note in report.notes if "differ" in note]


def test_a_map_of_annotations_keeps_its_ids(tmp_path: Path, annotations: Path) -> None:
    """Also if not all of its rows have the same keys, and if the path of a video has a folder."""
    dataset = {
        row["question_id"]: {name: row[name] for name in row if name != "question_id"}
        | {"video_id": f"a/{row['video_id']}.mp4"}
        for row in reversed(DATASET)
    }
    dataset["001-1"]["note"] = "x"
    annotations.write_text(json.dumps(dataset))
    by_id = [{"question_id": q["question_id"], "prediction": q["answer"]} for q in DATASET]
    by_video = [
        {"video_id": f"/data/{q['video_id']}.mkv", "question": q["question"]}
        | {"prediction": q["answer"]}
        for q in DATASET
    ]
    for rows in (by_id, by_video):
        report = score(tmp_path / "rows.json", rows, annotations)
        assert [row.is_correct for row in report.rows] == [True] * 8


def test_other_spellings_are_no_difference(tmp_path: Path, annotations: Path) -> None:
    rows = [
        {
            "video_id": row["videoID"],
            "question": row["question"].upper() + " ",
            "options": [option.partition(". ")[2] for option in row["options"]],
            "answer": row["answer"],
            "prediction": row["answer"],
        }
        for row in reversed(DATASET)
    ]
    report = score(tmp_path / "rows.json", rows, annotations)
    assert [row.question_id for row in report.rows] == [
        row["question_id"] for row in reversed(DATASET)
    ]
    assert not [note for note in report.notes if "differ" in note]


def test_a_question_that_the_dataset_does_not_have_is_listed(
    tmp_path: Path, annotations: Path
) -> None:
    rows = [row | {"prediction": row["answer"]} for row in DATASET]
    rows.append(rows[0] | {"video_id": "099", "question_id": "099-1", "question": "Another?"})
    report = score(tmp_path / "rows.json", rows, annotations)
    assert len(report.rows) == 9
    assert any("row 9 (099-1): the dataset does not have" in note for note in report.notes)


def test_a_differing_answer_beside_an_id_is_listed_and_does_not_count(
    tmp_path: Path, annotations: Path
) -> None:
    rows = [
        {"question_id": row["question_id"], "answer": "A", "prediction": row["answer"]}
        for row in DATASET
    ]
    report = score(tmp_path / "rows.json", rows, annotations)
    assert all(row.is_correct for row in report.rows)
    assert any(note.startswith("6 rows differ from the dataset") for note in report.notes)
