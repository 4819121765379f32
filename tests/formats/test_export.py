"""Exports have the shapes of others and come back as they were."""

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from tests.support.paths import GOLDEN
from tests.support.scored_rows import questions_of, scored, v1_evaluation, v2_evaluation
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.export import ExportFormat, export
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import ScoredQuestion

V1, V2 = v1_evaluation(5), v2_evaluation(5)


def facts(rows: Sequence[ScoredQuestion]) -> list[tuple[object, ...]]:
    return [
        (
            row.question_id,
            row.video_id,
            row.outcome,
            row.duration,
            row.domain,
            row.task_type,
            row.group_type,
            row.group_structure,
            row.level,
            row.second_head,
        )
        for row in rows
    ]


@pytest.mark.parametrize("form", ExportFormat)
@pytest.mark.parametrize(("benchmark", "rows"), [("videomme", V1), ("videomme_v2", V2)])
def test_an_export_scores_as_the_evaluation_did(
    tmp_path: Path, form: ExportFormat, benchmark: str, rows: list[ScoredQuestion]
) -> None:
    path = tmp_path / f"results{form.suffix}"
    path.write_text(export(questions_of(rows), rows, form))
    found = score_file(path, ScoreOptions(benchmark=benchmark, reader=ReaderName.OFFICIAL_V1))
    assert facts(found.rows) == facts(rows)


def test_the_official_template_has_the_official_keys() -> None:
    videos = json.loads(export(questions_of(V1), V1, ExportFormat.OFFICIAL))
    golden = GOLDEN / "scores" / "v1_responses.json"
    theirs = json.loads(golden.read_text())
    assert list(videos[0]) == list(theirs[0])
    assert list(videos[0]["questions"][0]) == list(theirs[0]["questions"][0])
    responses = [question["response"] for video in videos for question in video["questions"]]
    assert all(isinstance(text, str) for text in responses)
    assert "" in responses  # a failed request: the official script stops on null


def test_a_video_that_was_not_asked_about_is_marked_missing() -> None:
    rows = [row for row in V1 if row.video_id != "002"]
    videos = json.loads(export(questions_of(V1), rows, ExportFormat.OFFICIAL))
    assert [video["video_id"] for video in videos if video["missing"]] == ["002"]


def test_lmms_evals_lines_have_its_names() -> None:
    lines = export(questions_of(V1), V1, ExportFormat.LMMS_EVAL).splitlines()
    golden = GOLDEN / "scores" / "lmms_eval_aggregate.json"
    theirs = json.loads(golden.read_text())
    assert set(json.loads(lines[0])["videomme_perception_score"]) == set(theirs["v1"]["rows"][0])
    line = json.loads(export(questions_of(V2), V2, ExportFormat.LMMS_EVAL).splitlines()[0])
    assert set(line["videomme_v2_overall_score"]) == set(theirs["v2"]["rows"][0])


def test_vlmevalkits_table_has_its_columns() -> None:
    table = pd.read_csv(
        StringIO(export(questions_of(V2), V2, ExportFormat.VLMEVALKIT)), sep="\t", dtype=str
    )
    golden = GOLDEN / "scores" / "v2_vlmevalkit.json"
    theirs = json.loads(golden.read_text())["dataset_case"]["rows"][0]
    assert set(table.columns) - {"url"} == set(theirs)
    assert list(table["question"]) == [question.question for question in questions_of(V2)]


def test_rows_of_another_benchmark_are_refused() -> None:
    with pytest.raises(ScoringError, match="belong to none of 90 questions"):
        export(questions_of(V1), [scored("999-1")], ExportFormat.OFFICIAL)
