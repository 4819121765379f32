"""Explanations that were cut off before their answer, at any character: no letter is read.

A limit of tokens ends responses at any place, and an option that is discussed is not yet chosen.
"""

from collections.abc import Sequence

import pytest

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.careful import read_careful

HAT = ("A rabbit", "A scarf", "A dove", "A card")
PIER = ("He missed the ferry.", "He greets a friend.", "He sells tickets.", "He films a bird.")
SHEEP = ("Two", "Three", "Four", "Five")
REMARKS: dict[tuple[str, ...], tuple[str, ...]] = {
    HAT: (
        "There is no rabbit in any of the frames.",
        "No scarf is shown.",
        "A dove flies out of the hat in frame 3.",
        "The frames do not show a card.",
    ),
    PIER: (
        "The ferry is far out when he waves.",
        "However, no friend is seen in the frames.",
        "There is no sign of tickets.",
        "A bird is not mentioned.",
    ),
    SHEEP: (
        "There are more than two sheep.",
        "Three sheep are near the gate, but there are others.",
        "One more sheep is beside the tree, which makes four.",
        "The frames do not show five sheep.",
    ),
}
BEGINNINGS = (
    "Let's analyze each option:\n\n",
    "Now, let's consider the options:\n",
    "Frame 1: a magician shows a hat.\nFrame 2: he taps it.\n\nLet's discuss each option:\n\n",
    "### Discussion of the options\n\n",
    "Let's go through the options one by one.\n\n",
)
ITEMS = (
    "{letter}. {option}: {remark}\n",
    "{letter}. {option}\n- {remark}\n\n",
    "**{letter}. {option}**\n{remark}\n\n",
    "- **{letter}. {option}**: {remark}\n",
    "({letter}) {option}: {remark}\n",
    "{number}. **{letter}. {option}**\n   - {remark}\n",
    "{number}. **Option {letter}: {option}** - {remark}\n",
    "**Option {letter}: {option}**\n{remark}\n\n",
    "- Option {letter}: {option} - {remark}\n",
    "{letter}) {option} - {remark}\n",
)
CONCLUSIONS = (
    "\nTherefore, the correct answer is C.",
    "\nBased on this analysis, the answer is:\n\n**C. {option}**",
    "\nThe final answer is (C).",
)
FRAMES = (
    "{number}. **Frame {number}**: {text}.\n",
    "Frame {number}: {text}.\n",
    "{number}. **Frame {number}: {text}.**\n   - This frame shows that {text}.\n\n",
    "- Frame {number} shows {text}.\n",
    "{number}. In Frame {number}, {text}.\n",
)
CLIP = ("a man runs along a pier", "he waves", "he missed the ferry", "a friend greets him")
HAT_CLIP = ("a magician shows a hat", "he taps it", "a dove flies out", "a card falls")


def letter(response: str, options: Sequence[str]) -> str | None:
    return read_careful(response, tuple(Letter)[: len(options)], options).letter


def discussion(item: str, options: tuple[str, ...]) -> str:
    return "".join(
        item.format(letter=letter, number=number, option=option.rstrip("."), remark=remark)
        for number, (letter, option, remark) in enumerate(
            zip("ABCD", options, REMARKS[options], strict=True), 1
        )
    )


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("options", REMARKS)
def test_a_discussion_of_the_options_has_no_answer_before_its_conclusion(
    item: str, options: tuple[str, ...]
) -> None:
    items = discussion(item, options)
    for step, beginning in enumerate(BEGINNINGS):
        text = beginning + items + CONCLUSIONS[0]
        ends = range(len(beginning) + step, len(text) - len("C."), 11)
        assert [text[:end] for end in ends if letter(text[:end], options)] == []


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("options", REMARKS)
def test_the_conclusion_of_a_discussion_is_read(item: str, options: tuple[str, ...]) -> None:
    items = discussion(item, options)
    for beginning in BEGINNINGS:
        for conclusion in CONCLUSIONS:
            text = beginning + items + conclusion.format(option=options[2])
            assert letter(text, options) == "C", text


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(("clip", "options"), [(CLIP, PIER), (HAT_CLIP, HAT)])
def test_a_list_of_frames_has_no_answer(
    frame: str, clip: Sequence[str], options: Sequence[str]
) -> None:
    beginning = "To answer the question, let's analyze each frame step by step:\n\n"
    text = beginning + "".join(
        frame.format(number=number, text=text) for number, text in enumerate(clip, 1)
    )
    ends = range(len(beginning), len(text), 3)
    assert [text[:end] for end in ends if letter(text[:end], options)] == []


@pytest.mark.parametrize(
    "remark",
    [
        "This option is correct because a dove flies out of the hat.",
        "This is the correct answer. A dove flies out.",
        "This is the most logical choice, since it flies out in frame 3.",
    ],
)
def test_the_only_option_that_a_discussion_calls_right_is_chosen(remark: str) -> None:
    text = (
        "Let's analyze each option:\n\n**Option A: A rabbit**\nNo rabbit is shown.\n\n"
        f"**Option C: A dove**\n{remark}\n\n**Option D: A card**\nThis option is incorrect, as the"
    )
    assert letter(text, HAT) == "C"


def test_an_answer_before_a_discussion_counts() -> None:
    assert letter("The answer is C.\n\nLet's analyze each option:\n\n1. **A", HAT) == "C"
    assert (
        letter("Let's discuss the options. (A) is unlikely.\n(C) fits.\n(D) too.\n\nC", HAT) == "C"
    )


@pytest.mark.parametrize(
    "end",
    [
        "1. A hat is shown.\n\n2. **D",  # of "**Determine"
        "The frames show this:\n- A",
        "Here is what each option says:\n- A. A rabbit\n- B. A scarf\n- C",
        "A. A rabbit is not shown.\n\nB. A scarf is not shown.\n\nC.",
        "Final thoughts on the options follow.\n\nA. A rabbit - This is not related to the",
        "<think>\nThe options are:\nA. A rabbit\nB. A scarf\nC. A dove",
        "<think>\nThe options are:\nA. A rabbit\nB. A scarf\nC.",
        "**Option Analysis:**\n- Option A: The hat is empty.\n  - This cannot be told",
        "Let's analyze each option:\n\n1. **Option A: A rabbit**\n   - None is shown. Thus, this"
        " option is not related to the hat.\n\n2.",
        "1. **A rabbit**: None is shown in any of the frames.\n\n2. **",
        "1. **A rabbit**: It is not in the hat.",
    ],
)
def test_an_answer_that_was_cut_off_is_not_guessed(end: str) -> None:
    assert letter(f"The magician takes off his hat and bows.\n\n{end}", HAT) is None


@pytest.mark.parametrize(
    "response",
    [
        "<think>\nA dove flies out of the hat.\n<answer>C</answer",
        "Therefore, the correct answer is C: A",
        "The answer is C. A dove\n\nThe other options do not fit the scene:\n\nA. A rabbit",
        "The answer is C. A dove\n\nHere is why:\n\nA.",
        "Answer: C. A dove\n\nExplanation:\nIt flies out of the hat.\n\nA:",
        "A dove flies out. To arrive at this conclusion, I looked at the frames. A card is shown.",
    ],
)
def test_an_answer_before_the_end_of_a_response_is_read(response: str) -> None:
    assert letter(response, HAT) == "C"


def test_a_number_at_the_end_of_a_list_is_no_answer() -> None:
    text = "Let's count them:\n\n1. The first frame shows a gate.\n2. Nobody is there.\n"
    numbers = ("1", "2", "3", "4")
    assert letter(text + "3", numbers) is None
    assert letter("Let's count the sheep step by step.\n\n1", numbers) is None
    assert letter("Let's count the sheep.\n\nThe number is:\n3", numbers) == "C"


def test_a_combination_of_options_is_no_answer() -> None:
    text = "Step 1: The answer is C. A dove\n\nThe answer is a combination of both C. A dove and A."
    assert letter(text, HAT) is None


BOXES = ("7 boxes", "8 boxes", "11 boxes", "12 boxes")
STEPS = "To determine how many boxes are left, let's follow these steps:\n\n"


@pytest.mark.parametrize(
    "response",
    [
        STEPS + "1. **At the start:**\n   - There are 12 boxes.",
        STEPS + "Step 1: There are 12 boxes at the start.",
        STEPS + "1. **At the start**: A",
        STEPS + "1. **At the start**: There are 12 boxes.\n2. **Event 1**: A",
        "The clip shows it.\n- The only number is 11 boxes.\n\nAfter analyzing all options, the",
        STEPS + "1. The options are:\n   A. 7 boxes\n   B. 8 boxes\n   C",
        STEPS + "1. **Box A**: It is higher than box B.\n\n2. **D",  # of "**Distance"
        "A. 7 boxes\nB. 8 boxes\nC. 11 boxes\nD. 12 boxes\n\nStep 1: Name the number.\nA. 7 boxes",
        "\n\n".join(["A. 8 boxes\nC. 11 boxes\nD. 12 boxes"] * 4 + ["A. 7 boxes"]),
        STEPS + "There are 12 boxes.\n\n\\[ 12 - 1 = 1",
        "He counts:\n\\[\n   7 + 1 = 8\n\\]\n7",
        "What can be told:\n- **Option A: 7 boxes**\n   - It is not.\n- **Option B: A",
        "The truck brings 12 boxes.\n\nLet's look at each frame:\n\n- Frame 1: A man lifts one.",
        STEPS + "1. **Option A: 7 boxes**\n   - Nobody counts seven.",
        STEPS + "A. 7 boxes\n- Nobody counts seven.\n\nB",
        "<think>Let's see.\n\nA. 7 boxes\n- Nobody counts seven.\n\nB",
        "<think>Let's analyze each option:\n\nA. 7 boxes",
        "Now, let's consider the counts:\n\nA. 7 boxes.\n- Nobody counts seven.",
        "The frame shows a stack, which is a",
        "A. Seven\nB. Eight\nC. A",
        "1 box",
        "A: A clip about boxes.",
    ],
)
def test_an_answer_that_is_not_finished_names_no_option(response: str) -> None:
    assert letter(response, BOXES) is None


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (
            STEPS
            + "1. **At the start:**\n   - There are 12 boxes.\n\nTherefore, 11 boxes are left.",
            "C",
        ),
        (STEPS + "The driver takes one.\n\nThe number is:\n11 boxes", "C"),
        ("Selected: A", "A"),
        ("He counts them. The answer is a", "A"),
        ("A. Seven is too few.\nB. Eight is too few.\nC. So are eleven.\n\nD", "D"),
        ("Final Answer: A. 7 boxes\nReason:\nHe lifts 7.\nB. 8 is not true.\nC. No.\nD. No.", "A"),
        (
            "Final Answer: A. 8 boxes\nA. 7 - No.\nB. 8 - This is the correct answer.\nC. 11 - No.",
            "B",
        ),
        ("11 boxes", "C"),
        (
            "The answer is (A).\n\nStep 3: The third option is C.\nStep 6: The sixth option is D",
            "A",
        ),
        ("The answer is 7 boxes.\n\nStep 3: The count.\n\nD. 12 boxes\n\nD. 7 boxes", "D"),
    ],
)
def test_a_finished_answer_is_read(response: str, expected: str) -> None:
    assert letter(response, BOXES) == expected
