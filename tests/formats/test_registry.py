"""Results files in the formats of other evaluators, written and read again."""

import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import cast

import pandas as pd
import pytest

from tests.support.paths import GOLDEN
from tests.support.scored_rows import questions_of, scored, v1_evaluation, v2_evaluation
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.dataset_rows import dataset_row
from videomme_pipeline.formats.files import read_rows_of
from videomme_pipeline.formats.registry import FORMATS, write_results
from videomme_pipeline.formats.results_format import ResultsFormat
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import ScoredQuestion

WRITTEN = {name: form for name, form in FORMATS.items() if form.rows is not None}
V1, V2 = v1_evaluation(5), v2_evaluation(5)
V1_ROWS = [dataset_row(question) for question in questions_of(V1)]


def compared(rows: Sequence[ScoredQuestion]) -> list[tuple[object, ...]]:
    return [
        (
            row.question_id,
            row.video_id,
            row.outcome,
            row.facets,
        )
        for row in rows
    ]


@pytest.mark.parametrize("form", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize(("benchmark", "rows"), [("videomme", V1), ("videomme_v2", V2)])
def test_a_written_file_scores_like_its_evaluation(
    tmp_path: Path, form: ResultsFormat, benchmark: str, rows: list[ScoredQuestion]
) -> None:
    path = tmp_path / "results"
    path.write_text(write_results(questions_of(rows), rows, form))
    report = score_file(path, ScoreOptions(benchmark=benchmark, reader=ReaderName.OFFICIAL_V1))
    assert compared(report.rows) == compared(rows)


@pytest.mark.parametrize("form", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize(("benchmark", "rows"), [("videomme", V1), ("videomme_v2", V2)])
def test_a_file_of_a_blocked_score_has_the_reason_and_scores_the_same(
    tmp_path: Path, form: ResultsFormat, benchmark: str, rows: list[ScoredQuestion]
) -> None:
    path = tmp_path / "results"
    path.write_text(write_results(questions_of(rows), rows, form, not_citable="2 failed"))
    objects, _ = read_rows_of(path)
    assert {row["not_citable"] for row in objects} == {"2 failed"}
    scored_again = score_file(
        path, ScoreOptions(benchmark=benchmark, reader=ReaderName.OFFICIAL_V1)
    )
    assert compared(scored_again.rows) == compared(rows)
    assert "not_citable" not in write_results(questions_of(rows), rows, form)


def test_the_official_template_has_the_official_keys() -> None:
    videos = json.loads(write_results(questions_of(V1), V1, FORMATS["official"]))
    golden = GOLDEN / "scores" / "v1_responses.json"
    theirs = json.loads(golden.read_text())
    assert list(videos[0]) == list(theirs[0])
    assert list(videos[0]["questions"][0]) == list(theirs[0]["questions"][0])
    responses = [question["response"] for video in videos for question in video["questions"]]
    assert all(isinstance(text, str) for text in responses)
    assert "" in responses  # a failed request; the official script fails on null


def test_a_video_without_answers_is_marked_missing() -> None:
    rows = [row for row in V1 if row.video_id != "002"]
    videos = json.loads(write_results(questions_of(V1), rows, FORMATS["official"]))
    assert [video["video_id"] for video in videos if video["missing"]] == ["002"]


def test_lmms_eval_lines_have_its_keys() -> None:
    lines = write_results(questions_of(V1), V1, FORMATS["lmms_eval"]).splitlines()
    golden = GOLDEN / "scores" / "lmms_eval_aggregate.json"
    theirs = json.loads(golden.read_text())
    assert set(json.loads(lines[0])["videomme_perception_score"]) == set(theirs["v1"]["rows"][0])
    line = json.loads(write_results(questions_of(V2), V2, FORMATS["lmms_eval"]).splitlines()[0])
    assert set(line["videomme_v2_overall_score"]) == set(theirs["v2"]["rows"][0])


def test_the_vlmevalkit_table_has_its_columns() -> None:
    table = pd.read_csv(
        StringIO(write_results(questions_of(V2), V2, FORMATS["vlmevalkit"])), sep="\t", dtype=str
    )
    golden = GOLDEN / "scores" / "v2_vlmevalkit.json"
    theirs = json.loads(golden.read_text())["dataset_case"]["rows"][0]
    assert set(table.columns) - {"url"} == set(theirs)
    assert list(table["question"]) == [question.question for question in questions_of(V2)]


def test_a_registered_format_is_recognized_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(
        questions: Sequence[Question], answers: Mapping[str, ScoredQuestion]
    ) -> list[dict[str, object]]:
        return [{"row": row, "text": answers[row["question_id"]].raw_output} for row in V1_ROWS]

    custom = ResultsFormat(
        name="custom",
        recognizes=lambda row: "text" in row,
        read=lambda row: [{**row["row"], "prediction": row["text"]}],
        rows=rows,
        text=json.dumps,
    )
    monkeypatch.setitem(cast(dict[str, ResultsFormat], FORMATS), custom.name, custom)
    path = tmp_path / "results.json"
    path.write_text(write_results(questions_of(V1), V1, custom))
    report = score_file(path, ScoreOptions(reader=ReaderName.OFFICIAL_V1))
    assert [row.outcome for row in report.rows] == [row.outcome for row in V1]


def test_rows_of_another_benchmark_are_rejected() -> None:
    with pytest.raises(ScoringError, match="belong to none of 90 questions"):
        write_results(questions_of(V1), [scored("999-1")], FORMATS["official"])
