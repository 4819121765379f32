"""Columns inside of objects and lists, in made-up files of every structure that real files have."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import videomme
from videomme_pipeline.cli.arguments import renamed_columns
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, score_file

OPTIONS = ["News", "Film", "Cooking show", "TV show"]
ANSWERS = {"q1": "D", "q2": "A", "q3": "D"}
GIVEN = {"q1": "D", "q2": "B", "q3": "(D) TV show"}
RIGHT = {"q1": True, "q2": False, "q3": True}
IDS = tuple(ANSWERS)


def text_of(letter: str) -> str:
    return f"({letter}) {OPTIONS['ABCD'.index(letter)]}"


def whole(question_id: str, **others: Any) -> dict[str, Any]:
    """The columns of a question with all that is needed to score an answer to it."""
    answer = ANSWERS[question_id]
    question = {"question_id": question_id, "video_id": "v1", "question": f"What is {question_id}?"}
    row = {**question, "options": OPTIONS, "answer": answer}
    return {name: value for name, value in {**row, **others}.items() if value is not None}


STRUCTURES: Mapping[str, tuple[Any, str]] = {
    "metric and submission": (
        [
            {
                "lvb_acc": {
                    "id": name,
                    "duration_group": 600,
                    "answer": ANSWERS[name],
                    "parsed_pred": GIVEN[name],
                },
                "submission": {name: GIVEN[name]},
            }
            for name in IDS
        ],
        "id=lvb_acc.id,response=submission.*",
    ),
    "task, response and ground truth": (
        [
            {"task": "genre", "uid": name, "response": GIVEN[name], "ground_truth": ANSWERS[name]}
            for name in IDS
        ],
        "id=uid,answer=ground_truth",
    ),
    "predictions with annotations": (
        {
            "predictions": [
                {"prediction": GIVEN[name], "annotation": {"qid": name, "gt": ANSWERS[name]}}
                for name in IDS
            ]
        },
        "id=predictions.*.annotation.qid,response=predictions.*.prediction",
    ),
    "response by question": (GIVEN | {f"x{n}": "A" for n in range(30)}, "response=*"),
    "record by question": (
        {name: {"pred": GIVEN[name], "gt": text_of(ANSWERS[name])} for name in IDS},
        "id=*,response=*.pred",
    ),
    "answers as indices": (
        [{"qid": name, "pred": GIVEN[name], "target": "ABCD".index(ANSWERS[name])} for name in IDS],
        "id=qid,response=pred,answer=target",
    ),
}
"""Files without options, and the columns that they need."""
WHOLE: Mapping[str, tuple[Any, str]] = {
    "video, dimension, list": (
        {
            "v1": {
                "genre": [whole("q1", video_id=None, prediction=GIVEN["q1"])],
                "time": [whole("q2", video_id=None, prediction=GIVEN["q2"])],
            },
            "v2": {"genre": [whole("q3", video_id=None, prediction=GIVEN["q3"])]},
        },
        "response=*.*.*.prediction,video_id=*,task_type=*.*",
    ),
    "candidates and texts": (
        [
            {
                "qid": name,
                "video": "v1",
                "question": "What?",
                "candidates": OPTIONS,
                "answer": text_of(ANSWERS[name]),
                "pred": GIVEN[name],
            }
            for name in IDS
        ],
        "id=qid,video_id=video,options=candidates,response=pred",
    ),
    "candidates and indices": (
        [
            {
                "qid": name,
                "video": "v1",
                "candidates": OPTIONS,
                "answer": "ABCD".index(ANSWERS[name]),
                "pred": GIVEN[name],
            }
            for name in IDS
        ],
        "id=qid,video_id=video,options=candidates,response=pred",
    ),
}
"""Files with everything that a score needs."""


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps([whole(name) for name in IDS]))
    return path


def scored(path: Path, columns: Sequence[str], annotations: Path | None = None) -> dict[str, bool]:
    options = ScoreOptions(columns=renamed_columns(columns), annotations=annotations)
    return {row.question_id: row.is_correct for row in score_file(path, options).rows}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_nested_column_is_joined_by_question_id(
    structure: str, tmp_path: Path, annotations: Path
) -> None:
    content, columns = STRUCTURES[structure]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    assert scored(path, [columns], annotations) == RIGHT


@pytest.mark.parametrize("structure", WHOLE)
def test_a_nested_file_can_have_the_questions(structure: str, tmp_path: Path) -> None:
    content, columns = WHOLE[structure]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    assert scored(path, [columns]) == RIGHT


USUAL = (
    "task, response and ground truth",
    "record by question",
    "answers as indices",
    "candidates and texts",
    "candidates and indices",
)
"""The files whose columns have usual names."""


def written(structure: str, folder: Path, annotations: Path) -> tuple[Path, Path | None]:
    """A file with `structure` in `folder`, and the annotations if the file needs them."""
    content, _ = {**STRUCTURES, **WHOLE}[structure]
    path = folder / "run.json"
    path.write_text(json.dumps(content))
    return path, annotations if structure in STRUCTURES else None


@pytest.mark.parametrize("structure", USUAL)
def test_columns_with_usual_names_need_no_option(
    structure: str, tmp_path: Path, annotations: Path
) -> None:
    path, dataset = written(structure, tmp_path, annotations)
    assert scored(path, [], dataset) == RIGHT


def test_a_column_that_is_read_under_another_name_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps([whole(name, answer=None, gt="A", output="A") for name in IDS]))
    remarks = score_file(path, ScoreOptions()).remarks
    assert "the column `gt` is read as `answer`" in remarks
    assert "the column `output` is read as `prediction`" in remarks


@pytest.mark.parametrize("structure", sorted({*STRUCTURES, *WHOLE}.difference(USUAL)))
def test_the_advice_for_a_nested_file_works(
    structure: str, tmp_path: Path, annotations: Path
) -> None:
    path, dataset = written(structure, tmp_path, annotations)
    with pytest.raises(ScoringError, match="would probably work: ") as failed:
        scored(path, [], dataset)
    words = shlex.split(str(failed.value).rpartition("work: ")[2])
    advised = [word for word in words if word != "--columns"]
    assert scored(path, advised, dataset) == RIGHT, advised


def test_the_command_reads_several_columns_in_one_option(tmp_path: Path, annotations: Path) -> None:
    content, columns = STRUCTURES["metric and submission"]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in content))
    ended = videomme("score", str(path), "--columns", columns, "--annotations", str(annotations))
    assert (ended.status, "66.7" in ended.out) == (0, True), ended
    named = tmp_path / "columns.yaml"
    named.write_text(columns.replace("=", ": ").replace(",", "\n"))
    again = videomme("score", str(path), "--columns", str(named), "--annotations", str(annotations))
    assert (again.status, again.out) == (0, ended.out)


def test_a_path_that_leads_nowhere_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(STRUCTURES["metric and submission"][0]))
    with pytest.raises(ScoringError, match=r"no row has the column 'lvb_acc.ids'; .*`lvb_acc.id`"):
        score_file(path, ScoreOptions(columns={"question_id": "lvb_acc.ids"}))
    columns = {"prediction": "submission.*", "question_id": "lvb_acc.*"}
    with pytest.raises(ScoringError, match="have `\\*` in different places"):
        score_file(path, ScoreOptions(columns=columns))


def test_a_column_without_a_name_is_no_error_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps([{"": 1, "a.b": "A"}, {"c": {"d": []}}, {"e": [[{"f": 1}], 2]}]))
    with pytest.raises(ScoringError, match=r"The first row has , a\.b; recognized: none"):
        score_file(path, ScoreOptions())
    with pytest.raises(ScoringError, match=r"no row has the column 'c\.\*\.x'"):
        score_file(path, ScoreOptions(columns={"answer": "c.*.x"}))


@pytest.mark.parametrize(
    ("answers", "read"),
    [
        ([0, 3], ["A", "D"]),
        ([1, 4], ["A", "D"]),
        (["a", "(d)"], ["A", "D"]),
        (["news ", "(D) TV show"], ["A", "D"]),
        ([1, 3], None),
        (["9" * 5_000, 0], None),
        (["Talk show", "Talk"], None),
    ],
)
def test_a_correct_answer_is_a_letter_an_option_or_an_index(
    answers: Sequence[object], read: Sequence[str] | None, tmp_path: Path
) -> None:
    rows = [whole(name, answer=given) for name, given in zip(IDS, answers, strict=False)]
    path = tmp_path / "run.json"
    path.write_text(json.dumps([{**row, "prediction": "A"} for row in rows]))
    if read is None:
        with pytest.raises(ScoringError, match="`answer` is "):
            score_file(path, ScoreOptions())
    else:
        assert [row.answer for row in score_file(path, ScoreOptions()).rows] == read
