"""A last line that is only a letter is the answer, whatever the text before it discusses."""

import pytest

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer

FOUR = tuple(Letter)[:4]


@pytest.mark.parametrize("last", ["C", "(C)", "**C**", "[[C]]", "C.", "`C`"])
@pytest.mark.parametrize(
    "discussion",
    [
        "(A) is unlikely.\n(B) is the most fitting.\n(D) is true, but not the main reason.\n\n",
        "While others touch on parts (like movement – D), they miss the focus.\n\n",
        "It could be a match (A), the text points strongly to a purpose.\n\n",
        "The best answer is (A) loud, and (D) sudden.\n\n",
        "Option A is correct about the dog.\nThe best choice is option D, I think.\n",
        "I choose B because it is red.\n\n",
        "Looking again, the answer is B.\n\n",
    ],
)
def test_a_last_line_that_is_only_a_letter_is_the_answer(discussion: str, last: str) -> None:
    assert read_answer(ReaderName.CAREFUL, discussion + last, letters=FOUR).letter is Letter.C


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The answer is B.\nIt shows the letters X and\nA", Letter.B),
        ("The answer is B, not\nA", Letter.B),
        ("The answer is B.\n\nC. Pears are on the table.", Letter.B),
        ("Answer: B\nSecond best: C", Letter.B),
        ("B. Apples\n\nNot only that: the second best option, which is C, is green.", Letter.B),
        ("The second best is C, so the answer is B.", Letter.B),
    ],
)
def test_a_letter_inside_of_a_sentence_is_no_last_line(response: str, letter: Letter) -> None:
    assert read_answer(ReaderName.CAREFUL, response, letters=FOUR).letter is letter
