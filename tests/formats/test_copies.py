"""Padding, copies and the order of rows do not change the score of a results file."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scored_rows import questions_of, v1_evaluation, v2_evaluation
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.formats.registry import FORMATS, write_results
from videomme_pipeline.formats.score_file import ScoreOptions, ScoreReport, audited_file, score_file
from videomme_pipeline.reports.score_report import ReportKind, as_json, render
from videomme_pipeline.scoring.findings.run import Runs
from videomme_pipeline.scoring.findings.run_checks import stored_failures
from videomme_pipeline.scoring.readers.read_answer import ReaderName

V1, V2 = v1_evaluation(5), v2_evaluation(5)
ROWS = [
    json.loads(line)
    for line in write_results(questions_of(V1), V1, FORMATS["lmms_eval"]).splitlines()
]
DOCS = [dataset_row(question) for question in questions_of(V1)]


def scored(folder: Path, rows: list[dict[str, Any]], benchmark: str = "videomme") -> ScoreReport:
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return score_file(path, ScoreOptions(benchmark=benchmark, reader=ReaderName.OFFICIAL_V1))


def padded(sample: dict[str, Any], *others: str) -> dict[str, Any]:
    """`sample` as logs of several GPUs have it: more texts than answers."""
    (texts,) = sample["resps"]
    return sample | {"resps": [[*texts, *(others or texts)]]}


def test_a_padded_log_has_the_score_of_its_answers(tmp_path: Path) -> None:
    report = scored(tmp_path, [padded(row) if n % 7 == 0 else row for n, row in enumerate(ROWS)])
    plain = scored(tmp_path, ROWS)
    assert report.breakdowns == plain.breakdowns
    assert len(report.rows) == len(ROWS)
    assert report.notes == plain.notes
    copies = len(ROWS[::7])
    assert report.remarks[0].startswith(f"{copies} answers are copies of another answer")
    assert report.remarks[0] in render(report, ReportKind.PLAIN)
    assert as_json(report)["remarks"] == list(report.remarks)
    assert render(report, ReportKind.OFFICIAL) == render(plain, ReportKind.OFFICIAL)


@pytest.mark.parametrize(
    "failure", [{"prediction": None, "error": "timeout"}, {"prediction": "RateLimitError: 429"}]
)
def test_an_answer_counts_that_a_repeated_request_got(
    tmp_path: Path, failure: dict[str, Any]
) -> None:
    row = {"video_id": "001", "question_id": "001-1", "answer": "A", "options": ["A. 1", "B. 2"]}
    path = tmp_path / "retries.json"
    path.write_text(json.dumps([row | failure, row | {"prediction": "A"}]))
    report = score_file(path, ScoreOptions())
    assert [own.is_correct for own in report.rows] == [True]
    assert report.remarks == ()
    run = audited_file(path, ScoreOptions())
    assert list(stored_failures(run, Runs(runs=[run]))) == []


def test_padded_rows_keep_the_columns_that_the_user_names(tmp_path: Path) -> None:
    rows = []
    for number, row in enumerate(ROWS):
        doc = dict(row["doc"])
        doc["key"] = doc.pop("video_id")
        rows.append((padded(row) if number % 7 == 0 else row) | {"doc": doc})
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reader, columns = ReaderName.OFFICIAL_V1, {"video_id": "doc.key"}
    report = score_file(path, ScoreOptions(reader=reader, columns=columns))
    plain = scored(tmp_path, ROWS)
    assert (report.breakdowns, report.notes) == (plain.breakdowns, plain.notes)


def test_padding_without_filtered_texts_is_recognized_by_its_unequal_number(tmp_path: Path) -> None:
    raw = [{key: row[key] for key in row if key != "filtered_resps"} for row in ROWS]
    report = scored(tmp_path, [padded(row) if n % 7 == 0 else row for n, row in enumerate(raw)])
    assert report.breakdowns == scored(tmp_path, ROWS).breakdowns
    every = scored(tmp_path, [padded(row) for row in raw])
    assert {row.repeat for row in every.rows} == {0, 1}
    assert every.remarks == ()


def test_different_answers_to_one_question_are_no_answer_and_block_citation(tmp_path: Path) -> None:
    rows = [padded(ROWS[0], "E. Another"), *ROWS[1:]]
    report = scored(tmp_path, rows)
    row = next(row for row in report.rows if row.question_id == ROWS[0]["doc_id"])
    assert row.raw_output is None
    assert row.error == "2 different answers in the results file"
    assert any("1 questions have several different answers" in note for note in report.notes)
    assert len(report.rows) == len(ROWS)


def test_a_failed_row_does_not_contradict_an_answer(tmp_path: Path) -> None:
    rows = [row | {"prediction": "A"} for row in DOCS]
    report = scored(tmp_path, [DOCS[0] | {"prediction": None}, *rows])
    assert report.breakdowns == scored(tmp_path, rows).breakdowns


def test_numbered_repeats_with_equal_texts_are_repeats(tmp_path: Path) -> None:
    rows = [row | {"prediction": "A", "repeat": n} for n in range(3) for row in DOCS]
    report = scored(tmp_path, rows)
    assert len(report.rows) == 3 * len(DOCS)
    assert report.remarks == ()


def test_ids_within_a_video_are_told_apart(tmp_path: Path) -> None:
    rows = [row | {"question_id": row["question_id"][-1], "prediction": "A"} for row in DOCS]
    assert len(scored(tmp_path, rows).rows) == len(DOCS)


def test_copies_of_rows_without_ids_are_one_question(tmp_path: Path) -> None:
    rows = [{key: row[key] for key in row if key != "question_id"} for row in DOCS]
    rows = [row | {"prediction": "A", "question": f"{n}?"} for n, row in enumerate(rows)]
    report = scored(tmp_path, [*rows, *rows[:10]])
    assert len(report.rows) == len(DOCS)


def test_more_questions_than_the_benchmark_has_block_citation(tmp_path: Path) -> None:
    rows = [
        {**DOCS[0], "video_id": f"{video:03}", "question_id": f"{video:03}-{n}", "prediction": "A"}
        | {"duration": ("short", "medium", "long")[(video - 1) // 300]}
        for video in range(1, 901)
        for n in range(1, 4)
    ]
    assert scored(tmp_path, rows).notes == ()
    more = [*rows, rows[0] | {"question_id": "001-4"}]
    assert scored(tmp_path, more).notes == ("2,701 questions, but the benchmark has 2,700",)
    assert scored(tmp_path, rows[1:]).notes == ("2,699 questions, but the benchmark has 2,700",)


@pytest.mark.parametrize("form", ["lmms_eval", "contract", "vlmevalkit", "official"])
@pytest.mark.parametrize("benchmark", ["videomme", "videomme_v2"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=4)
def test_padding_copies_and_order_never_change_a_score(
    tmp_path_factory: pytest.TempPathFactory, form: str, benchmark: str, seed: int
) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("copies")
    answers = V1 if benchmark == "videomme" else V2
    options = ScoreOptions(benchmark=benchmark, reader=ReaderName.OFFICIAL_V1)
    plain = folder / "plain"
    plain.write_text(write_results(questions_of(answers), answers, FORMATS[form]))
    rows = FORMATS[form].rows
    assert rows is not None
    written = list(rows(questions_of(answers), {row.question_id: row for row in answers}))
    changed = [*written, *rng.choices(written, k=rng.randrange(1, 30))]
    rng.shuffle(changed)
    if form == "lmms_eval":
        changed = [padded(dict(row)) if rng.random() < 0.1 else row for row in changed]
    copies = folder / "copies"
    copies.write_text(FORMATS[form].text(changed))
    expected, report = score_file(plain, options), score_file(copies, options)
    assert len(report.rows) == len(expected.rows)
    assert {row.question_id: row.outcome for row in report.rows} == {
        row.question_id: row.outcome for row in expected.rows
    }
    overall, same = report.breakdowns["overall"][0], expected.breakdowns["overall"][0]
    assert overall.questions == same.questions
    assert overall.accuracy == pytest.approx(same.accuracy)
    assert overall.standard_error == pytest.approx(same.standard_error)
    groups, of_plain = (
        [row.group_score for row in part.group_breakdowns.get("group_score_overall", ())]
        for part in (report, expected)
    )
    assert groups == pytest.approx(of_plain)
