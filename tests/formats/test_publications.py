"""Files for public collections of scores: Every Eval Ever and the Hugging Face Hub."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from tests.support.made_up_results import PRIVATE_SETTINGS
from tests.support.paths import GOLDEN
from tests.support.scored_rows import questions_of, v1_evaluation, v2_evaluation
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.registry import FORMATS, PUBLICATIONS, write_results
from videomme_pipeline.formats.results_format import EvaluationResults
from videomme_pipeline.formats.score_file import ScoreOptions, score_file
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.scored_question import Outcome

ONCE = v1_evaluation(5)
ROWS = [*ONCE, *(replace(row, repeat=1) for row in ONCE)]
SETTINGS = {"template": {"name": "contract_v1"}, "repeats": 2}
V1 = EvaluationResults(questions=questions_of(ONCE), rows=ROWS, settings=SETTINGS)
V2_ROWS = v2_evaluation(5)
V2 = EvaluationResults(questions=questions_of(V2_ROWS), rows=V2_ROWS, settings={})


NEVER_ASKED = replace(ONCE[0], raw_output=None, error="timeout", outcome=Outcome.FAILED)


@pytest.mark.parametrize(
    "scored",
    [
        V1,
        V2,
        replace(V1, not_citable="2 failed", settings={}),
    ],
    ids=["v1", "v2", "not citable"],
)
def test_both_files_satisfy_the_published_schemas(scored: EvaluationResults) -> None:
    aggregate, instance = (
        jsonschema.Draft7Validator(json.loads((GOLDEN / "schemas" / name).read_text()))
        for name in ("eval.schema.json", "instance_level_eval.schema.json")
    )
    aggregate.validate(json.loads(PUBLICATIONS["every_eval_ever"](scored)))
    for line in PUBLICATIONS["every_eval_ever_instances"](scored).splitlines():
        instance.validate(json.loads(line))


@pytest.mark.slow
@pytest.mark.parametrize("scored", [V1, V2], ids=["v1", "v2"])
def test_the_validator_of_every_eval_ever_accepts_both_files(
    scored: EvaluationResults, tmp_path: Path
) -> None:
    """VIDEOMME_EVERY_EVAL_EVER is an environment with every-eval-ever, which needs Python 3.12."""
    folder = os.environ.get("VIDEOMME_EVERY_EVAL_EVER")
    program = folder and shutil.which("every_eval_ever", path=f"{folder}/bin")
    if not program:
        pytest.skip("VIDEOMME_EVERY_EVAL_EVER does not name an environment with every-eval-ever")
    named = replace(scored, rows=[replace(row, model="made-up/model") for row in scored.rows])
    aggregate = PUBLICATIONS["every_eval_ever"](named)
    instances = tmp_path / json.loads(aggregate)["detailed_evaluation_results"]["file_path"]
    instances.parent.mkdir(parents=True)
    instances.write_text(PUBLICATIONS["every_eval_ever_instances"](named))
    whole = instances.with_name(instances.name.replace("_samples.jsonl", ".json"))
    whole.write_text(aggregate)
    command = [
        program,
        "validate",
        *(str(path.relative_to(tmp_path)) for path in (whole, instances)),
    ]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_an_evaluation_without_an_answer_has_instances_and_no_aggregate() -> None:
    failed = replace(V1, rows=[NEVER_ASKED])
    (line,) = PUBLICATIONS["every_eval_ever_instances"](failed).splitlines()
    assert json.loads(line)["error"] == "timeout"
    with pytest.raises(ScoringError, match="none of 1 requests was answered"):
        PUBLICATIONS["every_eval_ever"](failed)


def test_instances_score_like_the_evaluation_with_all_repeats(tmp_path: Path) -> None:
    path = tmp_path / "instances"
    path.write_text(PUBLICATIONS["every_eval_ever_instances"](V1))
    scored_rows = score_file(path, ScoreOptions(reader=ReaderName.OFFICIAL_V1)).rows
    assert [(row.question_id, row.repeat, row.outcome, row.facets) for row in scored_rows] == [
        (row.question_id, row.repeat, row.outcome, row.facets) for row in ROWS
    ]


def test_published_files_have_no_address_path_or_price() -> None:
    settings = {**SETTINGS, "model": PRIVATE_SETTINGS, "judge": {"model": PRIVATE_SETTINGS}}
    failed = replace(NEVER_ASKED, error="http://gpu7.private.example:8000/v1 did not answer")
    scored = replace(V1, rows=[failed, *ROWS[1:]], settings=settings)
    for name, write in PUBLICATIONS.items():
        text = write(replace(scored, rows=ROWS) if name == "hugging_face" else scored)
        assert not re.search(r"private|PRIVATE|7\.7177", text), name
    assert json.loads(PUBLICATIONS["every_eval_ever"](scored))["evaluation_results"]


def test_an_instance_says_how_its_letter_was_read() -> None:
    row = replace(
        ONCE[0], raw_output="It is B.", extracted_answer=Letter.B, span_start=6, span_end=7
    )
    scored = replace(V1, rows=[row])
    (line,) = PUBLICATIONS["every_eval_ever_instances"](scored).splitlines()
    instance = json.loads(line)
    assert instance["answer_attribution"] == [
        {
            "turn_idx": 0,
            "source": "output.raw[0][6:7]",
            "extracted_value": "B",
            "extraction_method": "reader careful, rule rule",
            "is_terminal": True,
        }
    ]
    text = instance["input"]["raw"] + instance["input"]["reference"][0]
    assert instance["sample_hash"] == hashlib.sha256(text.encode()).hexdigest()


def test_the_aggregate_belongs_to_its_instances() -> None:
    aggregate = json.loads(PUBLICATIONS["every_eval_ever"](V1))
    instance = json.loads(PUBLICATIONS["every_eval_ever_instances"](V1).splitlines()[0])
    (result,) = aggregate["evaluation_results"]
    instances = PUBLICATIONS["every_eval_ever_instances"](V1)
    checksum = aggregate["detailed_evaluation_results"]["checksum"]
    assert checksum == hashlib.sha256(instances.encode()).hexdigest()
    assert aggregate["evaluation_id"] == instance["evaluation_id"]
    assert result["evaluation_result_id"] == instance["evaluation_result_id"]
    correct = sum(row.is_correct for row in ROWS)
    assert result["score_details"]["score"] == pytest.approx(correct / len(ROWS))
    assert "asked 2 times" in result["score_details"]["details"]["coverage"]


HUB_KEYS = {
    "dataset", "value", "verifyToken", "date", "source", "evaluation_framework", "notes"
}  # fmt: skip
"""Keys of an entry in the documentation of the hub, which has no schema file for them."""


@pytest.mark.parametrize(
    ("scored", "dataset", "metric"),
    [
        (V1, "lmms-eval/Video-MME", "accuracy"),
        (V2, "MME-Benchmarks/Video-MME-v2", "group score"),
    ],
)
def test_a_score_is_filed_under_the_dataset_of_its_benchmark(
    scored: EvaluationResults, dataset: str, metric: str
) -> None:
    (row,) = yaml.safe_load(PUBLICATIONS["hugging_face"](scored))
    (entry,) = parse_eval_result_entries([row])
    assert entry.dataset_id == dataset
    assert set(row) <= HUB_KEYS
    assert 0 <= entry.value <= 100
    assert entry.notes is not None
    for part in ("without_subtitles, uniform_n-8", f"{metric}, 95% CI", "questions on"):
        assert part in entry.notes


def test_a_score_that_must_not_be_cited_or_has_no_dataset_is_not_filed() -> None:
    with pytest.raises(ScoringError, match="must not be cited"):
        PUBLICATIONS["hugging_face"](replace(V1, not_citable="2 failed"))
    smoke = replace(V1, rows=[replace(row, benchmark="smoke") for row in ROWS])
    with pytest.raises(ScoringError, match="smoke has no dataset on the Hugging Face Hub"):
        PUBLICATIONS["hugging_face"](smoke)


def test_a_results_file_with_one_of_several_repeats_says_so() -> None:
    line = write_results(V1.questions, ROWS, FORMATS["lmms_eval"]).splitlines()[0]
    assert json.loads(line)["repeats"] == "first of 2"
    assert "repeats" not in write_results(V1.questions, ONCE, FORMATS["lmms_eval"])
