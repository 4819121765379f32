"""Made-up files of the benchmarks of engines, of EvalScope, and of runs that were killed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import videomme
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, audited_file, score_file

OMNI_ITEMS = [
    {"question_id": "001-1", "video_id": "001", "gold_normalized": "B", "predicted": "B"},
    {"question_id": "001-2", "video_id": "001", "gold_normalized": "C", "predicted": "A"},
    {"question_id": "002-1", "video_id": "002", "gold": "C", "predicted": None, "error": "timeout"},
    {"question_id": "002-2", "video_id": "002", "gold": "C", "predicted": None}
    | {"parse_failed": True},
]
OMNI = {"videomme_accuracy": 0.5, "videomme_eval_items": OMNI_ITEMS}
SAMPLES = [
    {"sample_id": "001-1", "expected": "B", "predicted": "B", "raw_response": "The answer is B."}
    | {"is_success": True, "is_mc_fallback": False, "error": ""},
    {"sample_id": "001-2", "expected": "C", "predicted": "C", "raw_response": "unclear"}
    | {"is_success": True, "is_mc_fallback": True, "error": ""},
    {"sample_id": "002-1", "expected": "C", "predicted": "", "raw_response": "503"}
    | {"is_success": False, "is_mc_fallback": False, "error": "503"},
]
SGLANG = {"summary": {"failed": 1}, "per_sample": SAMPLES}


def outcomes(path: Path, content: str) -> dict[str, str]:
    path.write_text(content)
    rows = score_file(path, ScoreOptions()).rows
    return {row.question_id: row.outcome.value for row in rows}


def test_the_items_of_vllm_omni_need_no_option(tmp_path: Path) -> None:
    assert outcomes(tmp_path / "a.json", json.dumps(OMNI)) == {
        "001-1": "correct",
        "001-2": "incorrect",
        "002-1": "failed",
        "002-2": "unreadable",
    }


def test_the_random_letters_of_sglang_omni_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "videomme_results.json"
    assert outcomes(path, json.dumps(SGLANG)) == {
        "001-1": "correct",
        "001-2": "unreadable",
        "002-1": "failed",
    }
    run = audited_file(path, ScoreOptions())
    assert run.stored.letters["001-2", 0] == "C"
    assert list(run.stored.failures.values()) == ["error: 503"]


@pytest.mark.parametrize(
    ("content", "column"),
    [(OMNI, "videomme_eval_items.*.predicted"), (SGLANG, "per_sample.*.predicted")],
)
def test_each_item_that_a_column_names_is_one_row(
    tmp_path: Path, content: Any, column: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    report = score_file(path, ScoreOptions(columns={"prediction": column}))
    items = next(value for value in content.values() if isinstance(value, list))
    assert len(report.rows) == len(items)
    assert not any("copies" in note for note in report.notes)


@pytest.mark.parametrize("content", [OMNI, SGLANG], ids=["vllm-omni", "sglang-omni"])
def test_two_files_of_an_engine_pass_a_gate_without_options(tmp_path: Path, content: Any) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = (str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    ended = videomme("gate", *files, "--max-failed", "0.5", "--json")
    assert ended.status == 3, "two videos cannot decide anything"
    assert ended.json["same_answers"]


def test_rows_of_sglang_omni_need_no_summary(tmp_path: Path) -> None:
    rows = "".join(json.dumps(sample) + "\n" for sample in SAMPLES)
    read = outcomes(tmp_path / "a.jsonl", rows)
    assert list(read.values()) == ["correct", "unreadable", "failed"]


@pytest.mark.parametrize("last", ["b", "429 Too Many Requests"])
def test_most_letters_are_enough(tmp_path: Path, last: str) -> None:
    keys = ["A", "(B)", "<answer>C</answer>", "D"]
    answers = ["A.", "(B)", "<answer>C</answer>", last]
    rows = [
        {"question_id": f"001-{n}", "answer": key, "prediction": answer}
        for n, (key, answer) in enumerate(zip(keys, answers, strict=True))
    ]
    read = outcomes(tmp_path / "a.json", json.dumps(rows))
    outcome = "incorrect" if last == "b" else "failed"
    assert list(read.values()) == [*["correct"] * 3, outcome]


def test_reasoning_parts_of_evalscope_are_no_answer(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "The answer is A."}, {"type": "text", "text": "C"}]
    row = {
        "model_output": {"choices": [{"message": {"content": parts}}]},
        "messages": [],
        "metadata": {"question_id": "001-1", "answer": "C"},
    }
    assert outcomes(tmp_path / "a.jsonl", json.dumps(row)) == {"001-1": "correct"}


def test_errors_beside_the_text_of_a_sample_are_failures(tmp_path: Path) -> None:
    answered = {"choices": [{"message": {"content": "B"}}]}
    shared = {"target": "B", "choices": ["Red", "Blue"], "epoch": 1, "mine": "B"}
    samples = [
        {"id": "001-1", "output": {"choices": []}, "error": {"message": "429"}} | shared,
        {"id": "001-2", "output": answered, "error": None} | shared,
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    for columns in ({}, {"prediction": "mine"}):
        report = score_file(path, ScoreOptions(columns=columns))
        assert [row.outcome.value for row in report.rows] == ["failed", "correct"]
    instance = {
        "sample_id": "001-1",
        "input": {"raw": "Which?", "reference": ["B"], "choices": ["Red", "Blue"]},
        "output": {"raw": ["B"]},
        "answer_attribution": [{"extracted_value": "B"}],
        "error": "timeout",
    }
    assert outcomes(tmp_path / "a.jsonl", json.dumps(instance)) == {"001-1": "failed"}


def test_letters_on_both_sides_of_a_table_are_enough(tmp_path: Path) -> None:
    lines = ["id,answer,prediction", "001-1,A,A", "001-2,B,C", "002-1,C,C", "002-2,D,"]
    for separator in ",;":
        content = "\n".join(lines).replace(",", separator)
        assert list(outcomes(tmp_path / "a.csv", content).values()) == [
            "correct",
            "incorrect",
            "correct",
            "failed",
        ]
    rows = score_file(tmp_path / "a.csv", ScoreOptions()).rows
    assert [row.video_id for row in rows] == ["001", "001", "002", "002"]
    texts = "\n".join(["id,answer,prediction", "1,A,the red one", "2,B,the dog", "3,B,B"])
    with pytest.raises(ScoringError, match="--annotations"):
        outcomes(tmp_path / "b.csv", texts)


def test_predictions_of_evalscope_are_joined_by_their_ids(tmp_path: Path) -> None:
    annotations = tmp_path / "dataset.json"
    questions = [
        {"video_id": "001", "question_id": f"001-{n}", "question": f"Which {n}?"}
        | {"options": ["Red", "Blue"], "answer": "B"}
        for n in (1, 2)
    ]
    annotations.write_text(json.dumps(questions))
    rows = [
        {
            "index": 0,
            "model_output": {"choices": [{"message": {"content": "ANSWER: B"}}], "error": None},
            "messages": [],
            "metadata": {"question_id": "001-1", "answer": "B"},
        },
        {
            "index": 1,
            "model_output": {"choices": [], "error": "timeout"},
            "messages": [],
            "metadata": {"question_id": "001-2", "answer": "B"},
        },
    ]
    path = tmp_path / "predictions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for options in (ScoreOptions(), ScoreOptions(annotations=annotations)):
        report = score_file(path, options)
        assert [row.outcome.value for row in report.rows] == ["correct", "failed"]
        assert report.rows[1].error == "error: timeout"
        assert any("only letters are read" in remark for remark in report.remarks) is (
            options.annotations is None
        )


LINE = json.dumps({"question_id": "001-1", "answer": "A", "prediction": "A"})
OTHER = LINE.replace("001-1", "001-2")
REORDERED = json.dumps({"answer": "A", "question_id": "001-2", "prediction": "A"})
NESTED = json.dumps({"question_id": "002-1", "parts": [{"question_id": "a"}], "answer": "A"})


@pytest.mark.parametrize(
    ("content", "read", "is_cut_off"),
    [
        (f"{LINE}\n{OTHER}\n" + LINE[:20], 2, True),
        (f"{LINE}{OTHER}", 2, False),
        (
            json.dumps(json.loads(LINE), indent=1) + json.dumps(json.loads(OTHER), indent=1),
            2,
            False,
        ),
        (f"\n{LINE}\n\n{OTHER}\n\n", 2, False),
        (f"{LINE},\n{OTHER},\n", 2, False),
        (f"[{LINE}]\n[{OTHER}]", 2, False),
        (f"{LINE}\n{LINE[:20]}{OTHER}\n", 2, True),
        (f'{LINE}\n{LINE[:20]}\n{OTHER[:-1]}, "seconds": 2}}\n', 2, True),
        (f"{LINE}\n{LINE[:20]}\n{REORDERED}\n", 2, True),
        (f'{LINE}\n{LINE[:20]}{OTHER[:-1]}, "seconds": 2}}\n', 2, True),
        (f"{LINE}\n{NESTED[:-8]}{OTHER}\n", 2, True),
        (f"{LINE}\n{OTHER}\n" + "\0" * 20, 2, True),
        (f"{LINE}\n{OTHER}\nTraceback: out of memory", 2, True),
    ],
    ids=[
        "torn last line",
        "one line",
        "indented",
        "blank lines",
        "commas",
        "lists",
        "torn row before the next one",
        "torn row on its line",
        "torn row before other keys",
        "torn row before more keys",
        "torn row with a whole object in it",
        "zeros of a full disk",
        "message of another program",
    ],
)
def test_complete_rows_of_an_own_log_count(
    tmp_path: Path, content: str, read: int, is_cut_off: bool
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    report = score_file(path, ScoreOptions())
    assert len(report.rows) == read
    assert any("cut off and left out" in remark for remark in report.remarks) is is_cut_off


def test_a_log_that_ends_inside_of_a_character_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(f"{LINE}\n{OTHER[:-2]} 红".encode()[:-1])
    report = score_file(path, ScoreOptions())
    assert [row.question_id for row in report.rows] == ["001-1"]
    assert any(remark.endswith("left out: line 2") for remark in report.remarks)


@pytest.mark.parametrize(
    "content", [f"{LINE[:20]}\n{OTHER}", LINE[:20], f"{LINE}\n" + 200 * f"{LINE[:20]}\n"]
)
def test_a_file_without_a_whole_first_row_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    with pytest.raises(ScoringError, match="not readable as JSON"):
        score_file(path, ScoreOptions())
