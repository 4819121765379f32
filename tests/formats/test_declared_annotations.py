"""`--annotations` with a benchmark's own published file, before any run."""

import json
from pathlib import Path

import pytest

from tests.support.registered import registered
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, score_file

LVBENCH = {
    "key": "film",
    "type": "sports",
    "qa": [
        {
            "uid": f"{number}",
            "question": "Which?\n(A) Red\n(B) Blue\n(C) Green\n(D) Pink",
            "answer": "AB"[number],
            "question_type": ["reasoning"],
        }
        for number in range(2)
    ],
}


def test_the_nested_file_of_lvbench_is_read_by_its_declaration(tmp_path: Path) -> None:
    annotations, log = tmp_path / "video_info.meta.jsonl", tmp_path / "log.jsonl"
    annotations.write_text(json.dumps(LVBENCH) + "\n")
    rows = [{"uid": f"{number}", "prediction": "A"} for number in range(2)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ScoreOptions(
        benchmark="lvbench", annotations=annotations, columns={"question_id": "uid"}
    )
    with registered():
        report = score_file(log, options)
        assert [row.outcome.value for row in report.rows] == ["correct", "incorrect"]
        assert report.rows[0].facets["question_type_reasoning"] == "reasoning"
        annotations.write_text(json.dumps({"key": "film"}) + "\n")
        with pytest.raises(ScoringError, match="not the annotations of lvbench"):
            score_file(log, options)


LVB = {
    "id": "film_0",
    "video_id": "film",
    "video_path": "film.mp4",
    "question": "Which?",
    "candidates": ["2", "3", "1", "0"],
    "correct_choice": 2,
    "subtitle_path": "film_en.json",
    "starting_timestamp_for_subtitles": 0,
    "duration_group": 15,
    "question_category": "S2E",
    "topic_category": "KH",
}


def test_an_index_beside_options_that_are_numbers_is_read_by_the_declaration(
    tmp_path: Path,
) -> None:
    annotations, log = tmp_path / "lvb_val.json", tmp_path / "log.json"
    annotations.write_text(json.dumps([LVB]))
    log.write_text(json.dumps([{"id": "film_0", "prediction": "C"}]))
    with registered():
        options = ScoreOptions(benchmark="longvideobench_val", annotations=annotations)
        (row,) = score_file(log, options).rows
    assert (row.answer, row.outcome.value) == ("C", "correct")


def test_a_row_of_the_dataset_in_a_log_has_no_option_for_its_mark(tmp_path: Path) -> None:
    """lmms-eval writes the options of LongVideoBench into columns, and fills them with N/A."""
    annotations, log = tmp_path / "lvb_val.json", tmp_path / "samples.jsonl"
    annotations.write_text(json.dumps([LVB]))
    doc = {k: v for k, v in LVB.items() if k != "candidates"} | {"duration": 12.5}
    doc["level"] = "L1-Perception"  # a number in Video-MME-v2
    doc |= {f"option{n}": text for n, text in enumerate([*LVB["candidates"], "N/A"])}  # type: ignore[misc]
    sample = {"doc_id": 0, "doc": doc, "target": "2", "filtered_resps": ["C"]}
    log.write_text(json.dumps(sample) + "\n")
    with registered():
        for given in (None, annotations):
            report = score_file(
                log, ScoreOptions(benchmark="longvideobench_val", annotations=given)
            )
            assert [row.outcome.value for row in report.rows] == ["correct"]
            assert not any("differ from the dataset" in note for note in report.notes)


@pytest.mark.parametrize(
    "row",
    [
        {"video": "film.mp4", "question": "which? ", "response": "(A) Red", "answer": "A"},
        {"video_path": "/data/film.mp4", "question": "Which?", "pred": "(A) Red"},
        {
            "question_id": "0",
            "prompt": "Pick one.\nWhich?\n(A) Red\n(B) Blue\n(C) Green\n(D) Pink\nAnswer:",
        }
        | {"response": "A", "answer": "A"},
    ],
    ids=["video and question", "path", "prompt"],
)
def test_a_row_is_joined_by_its_id_or_by_video_and_question(
    tmp_path: Path, row: dict[str, str]
) -> None:
    annotations, log = tmp_path / "video_info.meta.jsonl", tmp_path / "log.json"
    annotations.write_text(json.dumps(LVBENCH | {"qa": LVBENCH["qa"][:1]}) + "\n")
    log.write_text(json.dumps([row]))
    with registered():
        report = score_file(log, ScoreOptions(benchmark="lvbench", annotations=annotations))
    assert [(row.question_id, row.outcome.value) for row in report.rows] == [("0", "correct")]
    assert not any("differ from the dataset" in note for note in report.notes)


def test_options_inside_of_a_prompt_need_no_annotations(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    prompt = "Pick one.\nWhich?\nA. Red\nB. Blue\nAnswer with the letter."
    rows = [
        {"id": f"001-{n}", "prompt": prompt, "answer": "B", "response": text}
        for n, text in enumerate(["The answer is B.", "Blue", "Answer with the letter."])
    ]
    log.write_text(json.dumps(rows))
    scored = score_file(log, ScoreOptions()).rows
    assert [row.outcome.value for row in scored] == ["correct", "correct", "unreadable"]
    assert {row.video_id for row in scored} == {"001"}
