"""Annotations in the form of the benchmark contract's input records."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.published_data import read, v1_rows
from tests.support.scored_rows import scored
from videomme_pipeline.benchmarks.declaration import Declaration
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.benchmarks.inspection import inspect_folder
from videomme_pipeline.benchmarks.question import Question, split_option, videos_of
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.formats.registry import FORMATS, write_results
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.subtitles.cues import read_subtitles

SEGMENTS = [
    {"start": 0.0, "end": 1.5, "text": "Hello."},
    {"start": 1.5, "end": 3.0, "text": "This is a cat."},
]
SKILLS = ("perception", "reasoning", "temporal")


def record(row: dict[str, Any], skill: str) -> dict[str, Any]:
    """The contract's input record of a row of Video-MME."""
    return {
        "video_id": row["video_id"],
        "video_path": f"videos/{row['videoID']}.mp4",
        "question": row["question"],
        "options": {option[0]: split_option(option)[1] for option in row["options"]},
        "subtitles": SEGMENTS,
        "answer": row["answer"],
        "duration": row["duration"],
        "domain": row["domain"],
        "subcategory": row["sub_category"],
        "task_type": skill,
    }


def records() -> list[dict[str, Any]]:
    rows = v1_rows(2)
    return [record(row, SKILLS[number % 3]) for number, row in enumerate(rows)]


def nested(row: dict[str, Any]) -> dict[str, Any]:
    names = ("duration", "domain", "subcategory", "task_type")
    others = {name: value for name, value in row.items() if name not in names}
    return {**others, "metadata": {name: row[name] for name in names}}


def unlettered(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "options": list(row["options"].values())}


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def essence(question: Question) -> tuple[Any, ...]:
    facets = {name: question.facets[name] for name in ("duration", "domain", "sub_category")}
    ids = (question.question_id, question.video_id, question.youtube_id)
    return (*ids, question.question, question.options, question.answer, facets)


@pytest.mark.parametrize("form", [dict, nested, unlettered])
def test_records_of_the_contract_are_the_questions_of_video_mme(tmp_path: Path, form: Any) -> None:
    path = written(tmp_path / "annotations.json", [form(row) for row in records()])
    questions = read("videomme", path, videos=2)
    published = read("videomme", written(tmp_path / "published.json", v1_rows(2)), videos=2)
    assert list(map(essence, questions)) == list(map(essence, published))
    assert [question.facets["skill"] for question in questions] == [*SKILLS, *SKILLS]
    assert all("task_type" not in question.facets for question in questions)


def test_the_record_in_the_docs_is_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(\{.*?\})\n```", text, re.DOTALL)
    rows = [{**json.loads(example), "question": f"Question {number}?"} for number in range(3)]
    questions = read("videomme", written(tmp_path / "annotations.json", rows), videos=1)
    assert [question.question_id for question in questions] == ["001-1", "001-2", "001-3"]
    assert questions[0].options == ("A. A cat", "B. A dog", "C. A bird", "D. A fish")
    assert questions[0].facets["skill"] == "perception"


def test_a_task_category_is_the_task_type_of_the_dataset(tmp_path: Path) -> None:
    rows = [{**row, "task_category": "OCR Problems"} for row in records()]
    for question in read("videomme", written(tmp_path / "annotations.json", rows), videos=2):
        assert question.facets["task_type"] == "OCR Problems"
        assert question.facets["skill"] == "perception"


def test_a_record_without_a_task_type_is_still_an_error(tmp_path: Path) -> None:
    rows = [{**row, "task_type": None} for row in records()]
    with pytest.raises(Exception, match="`task_type` is empty"):
        read("videomme", written(tmp_path / "annotations.json", rows), videos=2)


def test_subtitles_in_the_annotations_are_those_of_the_video(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    (folder / "videos").mkdir(parents=True)
    for row in records():
        (folder / row["video_path"]).touch()
    written(folder / "annotations.json", records())
    declaration = tmp_path / "own.yaml"
    declaration.write_text(inspect_folder(folder, "Own"))
    source = DeclaredSource(
        "own",
        BenchmarkSettings(),
        tmp_path / "media",
        declaration=Declaration.read(declaration),
    )
    assert source.has_subtitles
    (folder / "annotations.json").unlink()  # a source reads it once
    for video in videos_of(source.questions()):
        path = source.subtitle(video)
        assert isinstance(path, Path)
        path.write_text("[]")
        assert source.subtitle(video) == path, "a damaged copy is written again"
        cues = read_subtitles(path).cues
        assert [(cue.start_seconds, cue.end_seconds, cue.text) for cue in cues] == [
            (segment["start"], segment["end"], segment["text"]) for segment in SEGMENTS
        ]


def test_a_published_benchmark_reads_subtitles_in_the_annotations_too(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    rows = [record(row, "perception") for row in v1_rows()]
    settings = BenchmarkSettings.model_validate(
        {
            "accept_license": True,
            "source": "folder",
            "folder": tmp_path,
            "annotations": written(tmp_path / "annotations.json", rows),
        }
    )
    source = find_benchmark("videomme").open_source(settings, tmp_path / "media")
    first = videos_of(source.questions())[0]
    (tmp_path / "videos" / f"{first.youtube_id}.mp4").touch()
    assert str(source.video_file(first)).endswith(f"{first.youtube_id}.mp4")
    subtitle = source.subtitle(first)
    assert subtitle is not None
    assert len(read_subtitles(subtitle).cues) == len(SEGMENTS)


def test_records_of_the_contract_are_exported_as_they_were_read(tmp_path: Path) -> None:
    path = written(tmp_path / "annotations.json", records())
    questions = read("videomme", path, videos=2)
    rows = [
        scored(question.question_id, video_id=question.video_id, **question.facets)
        for question in questions
    ]
    lines = write_results(questions, rows, FORMATS["contract"]).splitlines()
    exported = [json.loads(line) for line in lines]
    names = ("video_id", "answer", "duration", "domain", "subcategory", "task_type")
    assert [[row[name] for name in names] for row in exported] == [
        [row[name] for name in names] for row in records()
    ]


def test_a_results_file_is_scored_with_annotations_of_the_contract(tmp_path: Path) -> None:
    annotations = written(tmp_path / "annotations.json", records())
    results = written(
        tmp_path / "results.json",
        [{"doc_id": number, "prediction": row["answer"]} for number, row in enumerate(records())],
    )
    report = score_file(results, ScoreOptions(annotations=annotations))
    assert [row.is_correct for row in report.rows] == [True] * 6
    by_skill = {row.values[0]: row.questions for row in report.breakdowns["by_skill"]}
    assert by_skill == dict.fromkeys(SKILLS, 2)
