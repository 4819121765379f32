"""Results files as other tools write them (see `tests/golden/results/README.md`)."""

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import GOLDEN
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.archives import read_archive
from videomme_pipeline.formats.files import read_rows_of
from videomme_pipeline.formats.score_file import ScoreOptions, score_file

RESULTS = GOLDEN / "results"
ANNOTATIONS = RESULTS / "annotations.json"
QUESTIONS: list[dict[str, Any]] = json.loads(ANNOTATIONS.read_text())
OUTCOMES = ["correct", "correct", "incorrect", "correct", "correct"]
"""Outcomes of the first five questions. The sixth response is "NA"."""


def outcomes(path: Path, annotations: Path | None = None) -> list[str]:
    return [
        row.outcome.value for row in score_file(path, ScoreOptions(annotations=annotations)).rows
    ]


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_an_inspect_log_is_read_with_all_epochs(tmp_path: Path, name: str) -> None:
    path = tmp_path / "renamed.txt"
    shutil.copy(RESULTS / name, path)
    assert outcomes(path) == [*OUTCOMES, "unreadable"] * 2
    rows = score_file(path, ScoreOptions()).rows
    assert [row.repeat for row in rows] == [0] * 6 + [1] * 6


def test_a_workbook_of_vlmevalkit_is_read_like_pandas_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    shutil.copy(RESULTS / "vlmevalkit.xlsx", path)
    assert outcomes(path) == [*OUTCOMES, "failed"]


def test_lmms_eval_samples_without_doc_are_joined_with_the_annotations(tmp_path: Path) -> None:
    path = RESULTS / "lmms_eval.jsonl"
    assert outcomes(path, ANNOTATIONS) == [*OUTCOMES, "unreadable"]
    assert outcomes(path) == [*OUTCOMES, "unreadable"], "all responses are letters"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    for sample in samples:
        del sample["videomme_perception_score"]  # the only place of the question id
    without_id = tmp_path / "samples.jsonl"
    without_id.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    assert outcomes(without_id, ANNOTATIONS) == [*OUTCOMES, "unreadable"]


def test_samples_without_doc_have_the_facets_of_their_metric(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    facets = {"duration": "long", "category": "Knowledge", "score": 1.0}
    sample = {"doc_id": 0, "target": "B", "resps": ["B"]}
    metric = {"videomme_perception_score": {"question_id": "601-1", "answer": "B", **facets}}
    path.write_text(json.dumps(sample | metric) + "\n")
    (row,) = score_file(path, ScoreOptions()).rows
    assert (row.question_id, row.facets["duration"], row.is_correct) == ("601-1", "long", True)


def test_all_repeats_of_lmms_eval_samples_are_read() -> None:
    rows = score_file(
        RESULTS / "lmms_eval_repeats.jsonl", ScoreOptions(annotations=ANNOTATIONS)
    ).rows
    assert [row.repeat for row in rows] == [0, 1] * 6
    assert [row.outcome.value for row in rows[1::2]] == [*OUTCOMES, "unreadable"]


def test_annotations_of_another_order_are_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "samples.jsonl", tmp_path / "annotations.json"
    samples = [
        {"doc_id": n, "target": q["answer"], "resps": ["A"]} for n, q in enumerate(QUESTIONS)
    ]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    other.write_text(json.dumps(QUESTIONS[1:] + QUESTIONS[:1]))
    report = score_file(path, ScoreOptions(annotations=other))
    (note,) = [note for note in report.notes if "differ from the dataset" in note]
    assert "row 1 (001-2): the answer is C, and D in the dataset" in note
    assert len(report.rows) == len(QUESTIONS)


def test_the_whole_log_of_an_older_lmms_eval_is_read() -> None:
    """Three answers are about the first video, because that version sent it with each question."""
    older = outcomes(RESULTS / "lmms_eval_older.json")
    assert older == [*OUTCOMES[:3], "incorrect", "incorrect", "correct"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ((RESULTS / "vlmevalkit.pkl").read_bytes(), "Python pickle, and loading one can run"),
        (gzip.compress(b"[]"), "gzip"),
        (b"\xd0\xcf\x11\xe0" + b"0" * 512, "Excel 97"),
        (b"PK\x03\x04 broken", "zip archive is damaged"),
        (b'[{"a": "\xff"}]', "neither text in UTF-8"),
        (b"hello world", "no known format"),
        (b"[" * 100_000, "nested too deeply"),
        (ANNOTATIONS.read_bytes(), "no row has a column with a response"),
        (b"a,b\n1,2\n", "no row has a column with a response"),
    ],
    ids=[
        "pickle",
        "gzip",
        "old_excel",
        "damaged_zip",
        "not_utf_8",
        "prose",
        "nested",
        "annotations",
        "other_columns",
    ],
)
def test_the_error_for_an_unusable_file_says_what_to_do(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(ScoringError, match=message) as error:
        score_file(path, ScoreOptions())
    assert "codec" not in str(error.value)


def test_an_archive_larger_than_the_limit_is_rejected_before_it_is_decompressed() -> None:
    with pytest.raises(ValueError, match="more than the limit of 1,000"):
        read_archive(RESULTS / "inspect.eval", 1_000)


def test_an_archive_of_another_kind_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "results.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("results.json", "[]")
    with pytest.raises(ScoringError, match=r"neither an \.xlsx workbook nor an Inspect log"):
        read_rows_of(path)


def test_text_in_utf_16_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("video_id\tresponse\n001\tA\n", encoding="utf-16")
    assert read_rows_of(path)[0] == [{"video_id": "001", "response": "A"}]


def test_evalscope_reviews_are_joined_with_the_annotations_with_all_repeats() -> None:
    path = RESULTS / "evalscope.jsonl"
    rows = score_file(path, ScoreOptions(annotations=ANNOTATIONS)).rows
    assert [row.repeat for row in rows] == [0, 1] * 6
    assert [row.outcome.value for row in rows[::2]] == [*OUTCOMES, "unreadable"]
    assert outcomes(path) == [row.outcome.value for row in rows]


@pytest.mark.parametrize(
    "row",
    [
        {"epoch": 1, "target": "A", "output": {"choices": ["A"]}},
        {"epoch": "x", "target": "A", "output": {}},
        {"eval": {}, "samples": 3},
        {"sample_id": 1, "answer_attribution": [], "output": {"raw": 3}},
        {"model_configs": {}, "logs": 5},
    ],
)
def test_rows_of_another_structure_are_rejected(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps([row]))
    with pytest.raises(ScoringError, match=r"recognized as \w+, but"):
        score_file(path, ScoreOptions())


def test_a_sample_that_is_not_text_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1_epoch_1.json", b'{"id": "\xff"}')
    with pytest.raises(ScoringError, match="is not text in UTF-8"):
        read_rows_of(path)


def test_instances_that_every_eval_ever_converted_have_all_epochs() -> None:
    path = RESULTS / "every_eval_ever.jsonl"
    rows = score_file(path, ScoreOptions(annotations=ANNOTATIONS)).rows
    assert [row.outcome.value for row in rows] == [*OUTCOMES, "unreadable"] * 2
    assert [row.repeat for row in rows] == [0] * 6 + [1] * 6


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"results": {"videomme": {"alias": "videomme"}}, "configs": {}, "versions": {}},
            r"aggregate of lmms-eval.*samples.*--log_samples",
        ),
        (
            {"evaluation_id": "a", "source_metadata": {}, "evaluation_results": []},
            r"aggregate of Every Eval Ever.*instances",
        ),
    ],
)
def test_the_error_for_an_aggregate_names_the_file_with_answers(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content, indent=2))
    with pytest.raises(ScoringError, match=message):
        score_file(path, ScoreOptions())
