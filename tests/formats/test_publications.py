"""Files for the Hugging Face Hub."""

import json
import re
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from tests.support.made_up_results import PRIVATE_SETTINGS
from tests.support.scored_rows import questions_of, v1_evaluation, v2_evaluation
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.formats.hugging_face import EvaluationResults, write_eval_results
from videomme_pipeline.formats.registry import FORMATS, write_results
from videomme_pipeline.scoring.scored_question import Outcome

ONCE = v1_evaluation(5)
ROWS = [*ONCE, *(replace(row, repeat=1) for row in ONCE)]
SETTINGS = {"template": {"name": "contract_v1"}, "repeats": 2}
V1 = EvaluationResults(questions=questions_of(ONCE), rows=ROWS, settings=SETTINGS)
V2_ROWS = v2_evaluation(5)
V2 = EvaluationResults(questions=questions_of(V2_ROWS), rows=V2_ROWS, settings={})


def test_an_evaluation_without_an_answer_is_not_filed() -> None:
    never_asked = replace(ONCE[0], raw_output=None, error="timeout", outcome=Outcome.FAILED)
    with pytest.raises(ScoringError, match="none of 1 requests was answered"):
        write_eval_results(replace(V1, rows=[never_asked]))


def test_a_filed_score_has_no_address_path_or_price() -> None:
    settings = {**SETTINGS, "model": PRIVATE_SETTINGS, "judge": {"model": PRIVATE_SETTINGS}}
    text = write_eval_results(replace(V1, settings=settings))
    assert not re.search(r"private|PRIVATE|7\.7177", text)


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
    (row,) = yaml.safe_load(write_eval_results(scored))
    (entry,) = parse_eval_result_entries([row])
    assert entry.dataset_id == dataset
    assert set(row) <= HUB_KEYS
    assert 0 <= entry.value <= 100
    assert entry.notes is not None
    for part in ("without_subtitles, uniform_n-8", f"{metric}, 95% CI", "questions on", "asked"):
        assert part in entry.notes


def test_a_score_that_must_not_be_cited_or_has_no_dataset_is_not_filed() -> None:
    with pytest.raises(ScoringError, match="must not be cited"):
        write_eval_results(replace(V1, not_citable="2 failed"))
    smoke = replace(V1, rows=[replace(row, benchmark="smoke") for row in ROWS])
    with pytest.raises(ScoringError, match="smoke has no dataset on the Hugging Face Hub"):
        write_eval_results(smoke)


def test_a_results_file_with_one_of_several_repeats_says_so() -> None:
    line = write_results(V1.questions, ROWS, FORMATS["lmms_eval"]).splitlines()[0]
    assert json.loads(line)["repeats"] == "first of 2"
    assert "repeats" not in write_results(V1.questions, ONCE, FORMATS["lmms_eval"])
