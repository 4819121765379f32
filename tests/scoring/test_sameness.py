"""Two evaluations with the same answers are noticed, unless there is a good reason for them."""

import random
from collections.abc import Sequence

import pytest

from tests.support.evidence import BENCHMARK, answer, question
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.citation import Answer, Evidence, Finding, Status
from videomme_pipeline.scoring.sameness import is_same, sameness_findings
from videomme_pipeline.scoring.scored_question import Outcome

LETTERS = tuple(Letter)[:4]
QUESTIONS = [question(f"{place // 3:03d}", place % 3 + 1) for place in range(900)]


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
) -> Evidence:
    """An evaluation with these letters. Equal `requests` have equal fingerprints."""

    def row(place: int, letter: Letter | None) -> Answer:
        asked = QUESTIONS[place]
        right = letter == asked.answer
        outcome = Outcome.CORRECT if right else Outcome.INCORRECT
        return answer(
            asked,
            extracted_answer=letter,
            outcome=outcome if letter else Outcome.UNREADABLE,
            request_fingerprint=f"{requests or name}/{asked.question_id}",
        )

    return Evidence(
        benchmark=BENCHMARK,
        evaluation=name,
        questions=QUESTIONS,
        question_fingerprints={},
        answers=[row(place, letter) for place, letter in enumerate(letters)],
        specification={"model": {"name": "m"}, "sampling": {"frames": frames}},
    )


def finding_of(*evaluations: Evidence) -> Finding:
    return sameness_findings(evaluations)[evaluations[0].evaluation]


def test_the_same_answers_to_other_frames_block_both() -> None:
    letters = letters_of(1, accuracy=0.55)
    found = sameness_findings(
        [
            evaluation("eight", letters),
            evaluation("sixteen", with_changes(letters, 0.001), frames=16),
            evaluation("other", letters_of(2, accuracy=0.55), frames=32),
        ]
    )
    assert [found[name].status for name in ("eight", "sixteen")] == [Status.BLOCKED] * 2
    assert found["other"].status is Status.OK
    assert "sixteen has the same letter" in found["eight"].summary
    assert "although other settings were used (sampling)" in found["eight"].summary


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
    assert finding_of(evaluation("eight", nothing), other).status is Status.BLOCKED


def test_small_sets_prove_nothing() -> None:
    assert not is_same(341, 0)
    assert is_same(342, 0)
    assert is_same(1_000, 7)
    assert not is_same(1_000, 8)


def test_a_single_evaluation_is_not_compared() -> None:
    assert sameness_findings([evaluation("only", letters_of(1, 0.5))]) == {}
