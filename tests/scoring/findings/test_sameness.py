"""Two evaluations with the same answers are noticed, unless there is a good reason for them."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.evidence import BENCHMARK, answer, question
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import Finding, Status
from videomme_pipeline.scoring.findings.run import Run, Runs
from videomme_pipeline.scoring.findings.run_checks import sameness
from videomme_pipeline.scoring.findings.sameness import Sameness
from videomme_pipeline.scoring.scored_question import Answer, Outcome

LETTERS = tuple(Letter)[:4]
QUESTIONS = [question(f"{number // 3:03d}", number % 3 + 1) for number in range(900)]


SUMMARY = (
    "sixteen has the same letter in all but 0 of 396 answers that one of them got wrong (900 in "
    "all), although other settings were used (sampling)"
)


def letters_of(seed: int, accuracy: float) -> list[Letter]:
    """The letters of a model that answers this share of the questions correctly."""
    chance = random.Random(seed)
    return [
        asked.answer
        if chance.random() < accuracy
        else chance.choice([letter for letter in LETTERS if letter != asked.answer])
        for asked in QUESTIONS
    ]


def with_changes(letters: Sequence[Letter], share: float, seed: int = 9) -> list[Letter]:
    """`letters` with another letter in this share of them."""
    chance = random.Random(seed)
    return [
        chance.choice([other for other in LETTERS if other != letter])
        if chance.random() < share
        else letter
        for letter in letters
    ]


def evaluation(
    name: str, letters: Sequence[Letter | None], *, frames: int = 8, requests: str | None = None
) -> Run:
    """An evaluation with these letters. Equal `requests` have equal fingerprints."""

    def row(number: int, letter: Letter | None) -> Answer:
        asked = QUESTIONS[number]
        right = letter == asked.answer
        outcome = Outcome.CORRECT if right else Outcome.INCORRECT
        return answer(
            asked,
            extracted_answer=letter,
            outcome=outcome if letter else Outcome.UNREADABLE,
            request_fingerprint=f"{requests or name}/{asked.question_id}",
        )

    return Run(
        benchmark=BENCHMARK,
        name=name,
        questions={asked.question_id: asked for asked in QUESTIONS},
        answers=[row(number, letter) for number, letter in enumerate(letters)],
        specification={"model": {"name": "m"}, "sampling": {"frames": frames}},
    )


def findings_of(*evaluations: Run) -> dict[str, Finding]:
    """The finding about each evaluation, by name."""
    runs = Runs(runs=evaluations)
    return {run.name: finding for run in evaluations for finding in sameness(run, runs)}


def finding_of(*evaluations: Run) -> Finding:
    return findings_of(*evaluations)[evaluations[0].name]


def test_the_same_answers_to_other_frames_block_both() -> None:
    letters = letters_of(1, accuracy=0.55)
    findings = findings_of(
        evaluation("eight", letters),
        evaluation("sixteen", with_changes(letters, 0.001), frames=16),
        evaluation("other", letters_of(2, accuracy=0.55), frames=32),
    )
    assert [findings[name].status for name in ("eight", "sixteen")] == [Status.ERROR] * 2
    assert findings["other"].status is Status.OK
    assert findings["eight"].summary == SUMMARY


def test_every_pair_is_compared_and_only_by_answers_that_both_stored() -> None:
    letters = letters_of(1, accuracy=0.55)
    other, eight = evaluation("other", letters_of(2, accuracy=0.55)), evaluation("eight", letters)
    answers = [
        replace(row, outcome=Outcome.FAILED) if number < 50 else row
        for number, row in enumerate(evaluation("sixteen", letters, frames=16).answers)
    ]
    sixteen = replace(evaluation("sixteen", [], frames=16), answers=answers)
    findings = findings_of(other, eight, sixteen)
    assert findings["other"].status is Status.OK
    assert findings["sixteen"].status is Status.ERROR
    assert f"({len(QUESTIONS) - 50:,} in all" in findings["eight"].summary


def test_requests_that_are_not_stored_are_unknown() -> None:
    letters = letters_of(1, accuracy=0.55)
    eight, sixteen = evaluation("eight", letters), evaluation("sixteen", letters, frames=16)
    answers = [replace(row, request_fingerprint=None) for row in sixteen.answers]
    findings = findings_of(eight, replace(sixteen, answers=answers))
    assert [findings[name].status for name in ("eight", "sixteen")] == [Status.OK, Status.UNKNOWN]
    assert findings["sixteen"].summary == "the fingerprints of its requests are not stored"


def test_a_real_change_of_a_few_percent_passes() -> None:
    letters = letters_of(1, accuracy=0.55)
    changed = evaluation("sixteen", with_changes(letters, 0.04), frames=16)
    assert finding_of(evaluation("eight", letters), changed).status is Status.OK


def test_equal_requests_have_equal_answers_for_a_good_reason() -> None:
    letters = letters_of(1, accuracy=0.55)
    first = evaluation("first", letters, requests="same")
    assert finding_of(first, evaluation("second", letters, requests="same")).status is Status.OK


@pytest.mark.parametrize("accuracy", [0.95, 1.0])
def test_an_easy_benchmark_explains_equal_answers(accuracy: float) -> None:
    letters = letters_of(1, accuracy)
    other = evaluation("sixteen", letters, frames=16)
    assert finding_of(evaluation("eight", letters), other).status is Status.OK


def test_settings_that_may_have_no_effect_are_a_warning() -> None:
    letters = letters_of(1, accuracy=0.55)
    assert (
        finding_of(evaluation("one", letters), evaluation("two", letters)).status is Status.WARNING
    )


def test_a_model_that_answers_nothing_readable_is_the_same_everywhere() -> None:
    nothing = [None] * len(QUESTIONS)
    other = evaluation("sixteen", nothing, frames=16)
    assert finding_of(evaluation("eight", nothing), other).status is Status.ERROR


@pytest.mark.parametrize(
    ("informative", "different", "is_same"),
    [(341, 0, False), (342, 0, True), (1_000, 7, True), (1_000, 8, False)],
)
def test_small_sets_prove_nothing(informative: int, different: int, is_same: bool) -> None:
    compared = Sameness(answers=2_700, informative=informative, different=different)
    assert compared.is_same is is_same


def test_a_single_evaluation_is_not_compared() -> None:
    assert findings_of(evaluation("only", letters_of(1, 0.5))) == {}
