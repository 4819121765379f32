"""Tables are read as pandas reads their texts, and those that pandas writes as JSON."""

import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest

from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.files import read_rows_of
from videomme_pipeline.formats.score_file import ScoreOptions, score_file

TEXTS = [
    "plain",
    'with "quotes"',
    "two\nlines",
    "carriage\rreturn",
    "tab\tand, comma",
    " spaces ",
    "حرف D",
    "",
    "NA",
    "None",
    "nan",
    "null",
    "N/A",
    "0",
    "x" * 200_000,
]


@pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".csv", ","), (".csv", ";")])
def test_tables_are_read_as_pandas_reads_them(tmp_path: Path, suffix: str, separator: str) -> None:
    path = tmp_path / f"results{suffix}"
    table = pd.DataFrame({"id": [str(n) for n in range(len(TEXTS))], "response": TEXTS})
    table.to_csv(path, sep=separator, index=False)
    expected = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    rows, _ = read_rows_of(path)
    assert [row["id"] for row in rows] == list(expected["id"])
    assert [row.get("response", "") for row in rows] == list(expected["response"].fillna(""))


@pytest.mark.parametrize(
    "text", ["a,b\n1,2,3\n", 'a,b\n"1,2\n'], ids=["too many fields", "open quote"]
)
def test_damaged_tables_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(ScoringError, match=r"results\.csv: not readable as CSV"):
        read_rows_of(path)


QUESTIONS = pd.DataFrame(
    {
        "question_id": [f"00{video}-{number}" for video in (1, 2) for number in (1, 2)],
        "video_id": ["001", "001", "002", "002"],
        "question": ["Which?", "Who?", "Why?", "How?"],
        "options": [["Red", "None"]] * 4,
        "answer": ["A", "B", "B", "A"],
    }
)
Orient = Literal["records", "split", "index", "columns", "table"]
ORIENTS: tuple[Orient, ...] = ("records", "split", "index", "columns", "table")


def outcomes(path: Path, **options: Any) -> dict[str, str]:
    rows = score_file(path, ScoreOptions(**options)).rows
    return {row.question_id: row.outcome.value for row in rows}


EXPECTED = dict(
    zip(QUESTIONS["question_id"], ["correct", "correct", "incorrect", "failed"], strict=True)
)


@pytest.mark.parametrize("orient", ORIENTS)
@pytest.mark.parametrize("label", [None, "question_id"])
def test_every_orient_of_pandas_that_names_columns_is_read(
    tmp_path: Path, orient: Orient, label: str | None
) -> None:
    path, annotations = tmp_path / "results.json", tmp_path / "dataset.json"
    questions = QUESTIONS.set_index(label) if label and orient != "records" else QUESTIONS
    responses = ["A", "B", "A", ""]
    questions.assign(prediction=responses).to_json(path, orient=orient)
    assert outcomes(path) == EXPECTED
    # The same tables with the questions in one file, and the responses in the other.
    questions.to_json(annotations, orient=orient)
    questions[[]].assign(prediction=responses).to_json(path, orient=orient)
    if label and orient != "records":
        assert outcomes(path, annotations=annotations) == EXPECTED


def test_values_without_names_of_columns_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    QUESTIONS.assign(prediction="A").to_json(path, orient="values")
    with pytest.raises(ScoringError, match="nothing names the columns") as failed:
        outcomes(path)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    "content",
    [
        {"columns": ["answer"], "data": [[1, 2]]},
        {"columns": 1, "data": 2},
        {"columns": ["id", "id", "prediction"], "data": [["1", "1", "A"]]},
        {"schema": {}, "data": 3},
        {"answer": {"a": "A"}, "prediction": {"b": "A"}},
        {"answer": {}, "prediction": {}},
        {"columns": [], "data": [], "index": 7},
    ],
)
def test_an_object_that_only_looks_like_a_table_is_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ScoringError):
        outcomes(path)
