"""A folder, or a pattern, is one run: its files are joined by question id."""

import json
from pathlib import Path

import pytest

from tests.support.paths import GOLDEN
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.score_file import ScoreOptions, audited_file, score_file

WHOLE = GOLDEN / "results" / "lmms_eval.jsonl"
OPTIONS = ScoreOptions(annotations=GOLDEN / "results" / "annotations.json")
LINES = WHOLE.read_text().splitlines()


def shards(folder: Path) -> Path:
    """The lines of a real file in two files. `doc_id` restarts in each, as in a task per file."""
    run = folder / "run"
    run.mkdir()
    for name, lines in (("a.jsonl", LINES[::2]), ("b.jsonl", LINES[1::2])):
        rows = [json.loads(line) | {"doc_id": number} for number, line in enumerate(lines)]
        (run / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def read(path: Path) -> dict[str, tuple[str, str | None]]:
    return {r.question_id: (r.outcome, r.raw_output) for r in score_file(path, OPTIONS).rows}


@pytest.mark.parametrize("pattern", ["", "*.jsonl"])
def test_the_shards_of_a_run_have_the_answers_of_the_whole_file(
    tmp_path: Path, pattern: str
) -> None:
    assert read(shards(tmp_path) / pattern) == read(WHOLE)


def test_files_without_answers_are_left_out_and_named(tmp_path: Path) -> None:
    run = shards(tmp_path)
    (run / "README.md").write_text("a run")
    (run / ".hidden.jsonl").write_text(LINES[0])
    (run / "results.json").write_text(json.dumps({"results": {}, "configs": {}}))
    report = score_file(run, OPTIONS)
    assert len(report.rows) == len(LINES)
    (remark,) = (text for text in report.remarks if "left out" in text)
    assert all(name in remark for name in ("README.md", ".hidden.jsonl", "results.json"))


def test_an_answer_in_two_files_counts_once_and_a_contradiction_does_not_count(
    tmp_path: Path,
) -> None:
    run = shards(tmp_path)
    copy = json.loads(LINES[0])
    (run / "c.jsonl").write_text(json.dumps(copy) + "\n")
    assert read(run) == read(WHOLE)
    assert audited_file(run, OPTIONS).stored.copies == 1
    copy["resps"] = copy["filtered_resps"] = [["something else"]]
    (run / "c.jsonl").write_text(json.dumps(copy) + "\n")
    assert audited_file(run, OPTIONS).stored.contradictions == 1
    assert any("several different answers" in note for note in score_file(run, OPTIONS).notes)


def test_the_files_of_a_run_have_one_format(tmp_path: Path) -> None:
    run = shards(tmp_path)
    (run / "c.jsonl").write_bytes((GOLDEN / "results" / "evalscope.jsonl").read_bytes())
    with pytest.raises(ScoringError, match=r"different formats .*lmms_eval.*evalscope"):
        score_file(run, OPTIONS)


def test_a_number_in_the_dataset_joins_no_shards(tmp_path: Path) -> None:
    run = shards(tmp_path)
    for file in run.iterdir():
        lines = [{"doc_id": n, "resps": [["A"]], "target": None} for n in range(2)]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ScoringError, match="`doc_id` restarts"):
        score_file(run, OPTIONS)


@pytest.mark.parametrize("benchmark", ["videomme", "longvideobench_val"])
def test_the_advice_for_unknown_columns_works(tmp_path: Path, benchmark: str) -> None:
    asked = {"video": "v", "choices": ["A. x", "B. y"], "gt": "A"}
    path = tmp_path / "own.json"
    path.write_text(json.dumps([{"qid": "1-1", "asked": asked, "pred": "A"}]))
    with pytest.raises(ScoringError, match=r"recognized: prediction, .*; this would") as caught:
        score_file(path, ScoreOptions(benchmark=benchmark))
    words = str(caught.value).rpartition("work: ")[2].replace("--columns ", "").split()
    columns = dict(word.split("=") for word in words)
    (scored,) = score_file(path, ScoreOptions(benchmark=benchmark, columns=columns)).rows
    assert (scored.question_id, scored.outcome) == ("1-1", "correct")
