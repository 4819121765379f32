"""The letter, the rule and the characters of a reading, where answers end or contradict."""

import pytest

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.careful import read_careful

LETTERS = tuple(Letter)[:4]
OPTIONS = ("A. Apples", "B. Bananas", "C. Berries", "D. Dates")
WORDS = "x " * 1_100
"""More characters than an answer tag can have."""


@pytest.mark.parametrize(
    ("response", "letter", "rule", "characters"),
    [
        pytest.param(r"\boxed{A}. The answer is B.", "A", "answer_tag", "A", id="box"),
        pytest.param(
            r"\boxed{\mathrm{Answer:}\ B}. The answer is C.", "B", "answer_tag", "B", id="nested"
        ),
        pytest.param(rf"\boxed{{{WORDS}The answer is B}}", "B", "declared", "B", id="long box"),
        pytest.param(
            f"<answer>{WORDS}The answer is B</answer>", "B", "declared", "B", id="long tag"
        ),
        pytest.param(
            "C. It is red.\n\nQuestion: What is blue?\nThe answer is D.", "C", "label", "C",
            id="another question",
        ),
        pytest.param(
            "<think>It is red. <answer>C. Berries</answer>", "C", "answer_tag", "C", id="cut off"
        ),
        pytest.param(r"\boxed{B} \boxed{._}", "B", "answer_tag", "B", id="empty box"),
        pytest.param("<answer>A or B</answer>", None, "several_letters", "A", id="two in a tag"),
        pytest.param(r"\boxed{A} \boxed{} \boxed{} \boxed{}", "A", "label", "A", id="early box"),
        pytest.param("x " * 60_000 + "The answer is B.", "B", "declared", "B", id="very long"),
        pytest.param(
            "A. It is red ✗\nB. It is blue ✓\nC. It is green ✗\nD. It is black ✗",
            "B", "declared", "B", id="marked list",
        ),
        pytest.param("The answer is A. Wait,B.", "B", "alone", "B", id="corrected at once"),
        pytest.param("The answer is A. Wait, no.", None, "withdrawn", "Wait", id="withdrawn"),
        pytest.param("The answer is A.\nWait", None, "withdrawn", "Wait", id="last word"),
        pytest.param("答案是 A。更正", None, "withdrawn", "更正", id="withdrawn in Chinese"),
        pytest.param("The answer is A or B.\nC", "C", "alone", "C", id="decided later"),
        pytest.param("The answer is A or B.", None, "several_letters", "A", id="one of two"),
        pytest.param("(A)(C)", None, "several_letters", None, id="only letters"),
        pytest.param(
            "It shows apples.\nA\nIt shows dates.\nD", None, "several_letters",
            "A\nIt shows dates.\nD", id="two lines",
        ),
        pytest.param(
            "C. It is red.\nB. It is blue.", None, "several_letters", "C. It is red.\nB",
            id="two labels",
        ),
        pytest.param("", None, "empty", None, id="empty"),
        pytest.param("I cannot see the video.", None, "refusal", "I cannot", id="refusal"),
        pytest.param("The answer is G.", None, "letter_not_offered", "G", id="not offered"),
    ],
)  # fmt: skip
def test_a_reading_has_its_rule_and_its_characters(
    response: str, letter: str | None, rule: str, characters: str | None
) -> None:
    reading = read_careful(response, LETTERS, OPTIONS)
    assert (reading.letter, reading.rule) == (letter, rule)
    decisive = None if reading.span is None else response[slice(*reading.span)]
    assert decisive == characters
