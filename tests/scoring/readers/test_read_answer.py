"""The published readers equal their evaluators, and `careful` reads the intended letters.

`tests/golden/extraction.jsonl` contains made-up responses. Each has the letters that the published
evaluators read (recorded by running them), and the letters that a careful person reads with four
and with eight options.
"""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agreement import counts, labelled_responses, letter_read
from tests.support.paths import GOLDEN, ROOT
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.read_answer import READERS, ReaderName, read_answer
from videomme_pipeline.scoring.response_lines import read_lines

EXTRACTION = GOLDEN / "extraction.jsonl"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in EXTRACTION.read_text("utf-8").splitlines()
]
FOUR = tuple(Letter)[:4]
EIGHT = tuple(Letter)[:8]
ALL = tuple(Letter)


def letter(reader: ReaderName, response: str, letters: tuple[Letter, ...] = FOUR) -> str:
    return read_answer(reader, response, letters=letters).letter or ""


@pytest.mark.parametrize(
    ("column", "reader", "letters"),
    [
        ("official_v2", ReaderName.OFFICIAL_V2, EIGHT),
        ("vlmevalkit", ReaderName.VLMEVALKIT, FOUR),
        ("vlmevalkit_v2", ReaderName.VLMEVALKIT, EIGHT),
        ("lmms_eval_v1", ReaderName.LMMS_EVAL, FOUR),
    ],
)
def test_a_published_reader_equals_its_evaluator_on_every_row(
    column: str, reader: ReaderName, letters: tuple[Letter, ...]
) -> None:
    rows = [row for row in ROWS if column in row]
    assert len(rows) >= 293
    differing = [
        (row["response"], row[column])
        for row in rows
        if letter(reader, row["response"], letters) != row[column]
    ]
    assert differing == []


@pytest.mark.parametrize(
    ("column", "letters"), [("vlmevalkit_final", FOUR), ("vlmevalkit_v2_final", EIGHT)]
)
def test_vlmevalkit_scores_unreadable_responses_as_z(
    column: str, letters: tuple[Letter, ...]
) -> None:
    for row in ROWS:
        if column in row:
            reading = read_answer(ReaderName.VLMEVALKIT, row["response"], letters=letters)
            assert (reading.letter or "Z") == row[column]


def test_official_v1_equals_a_release_of_the_official_script_on_every_row() -> None:
    """The recorded column mixes two releases of the script, which differ on "Answer:"."""
    for row in ROWS:
        releases = (ReaderName.OFFICIAL_V1, ReaderName.OFFICIAL_V1_FIRST_RELEASE)
        assert row["official_v1"] in {letter(reader, row["response"]) for reader in releases}


def test_official_v1_differs_from_the_column_only_in_rows_of_the_first_release() -> None:
    differing = [
        row["response"]
        for row in ROWS
        if letter(ReaderName.OFFICIAL_V1, row["response"]) != row["official_v1"]
    ]
    assert len(differing) == 14
    assert all("Answer:" in response for response in differing)


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ("Best answer: D", "B"),
        ("The best option is D", "D"),
        ("Answer: D", "D"),
        ("THE ANSWER IS C", "A"),
        ("Dogs run", "D"),
        ("Final Answer: H. Cannot be determined.", "C"),
        ("answer = d", ""),
    ],
)
def test_official_v1_has_the_quirks_of_its_script(response: str, read: str) -> None:
    assert letter(ReaderName.OFFICIAL_V1, response) == read


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ("A man is riding", "A"),
        ("Consider A, then D", "D"),
        ("I choose (B) or Dog", "D"),
        ("(A) or B) first", "A"),
        ("NBA. Both", "A"),
        ("Apples are red", "A"),
        ("answer = d", ""),
        ("(A) fits. The answer is B, but the answer is unclear", "B"),  # the first phrase counts
    ],
)
def test_lmms_eval_reads_with_the_quirks_of_that_evaluator(response: str, read: str) -> None:
    """The letters are those that lmms-eval 0.7.3 reads."""
    assert letter(ReaderName.LMMS_EVAL, response) == read


@pytest.mark.parametrize(("column", "letters"), [("intended_4", FOUR), ("intended_8", EIGHT)])
def test_careful_reads_the_intended_letters(column: str, letters: tuple[Letter, ...]) -> None:
    read = [(row[column], letter(ReaderName.CAREFUL, row["response"], letters)) for row in ROWS]
    false_letters = sum(1 for intended, got in read if got and got != intended)
    missed_letters = sum(1 for intended, got in read if intended and not got)
    assert false_letters == 0
    assert missed_letters <= 5


FORMS = [
    json.loads(line) for line in (EXTRACTION.parent / "answer_forms.jsonl").open(encoding="utf-8")
]
"""894 further responses in many styles and languages, written without looking at any rule."""
FALSE_LETTERS = {"E. coli"}
"""Known errors: the name of a species looks like option E."""


def test_careful_reads_forms_that_were_written_without_looking_at_its_rules() -> None:
    false, missed = set(), set()
    for form in FORMS:
        read = read_answer(
            ReaderName.CAREFUL,
            form["response"],
            letters=[Letter(letter) for letter in form.get("letters", "ABCD")],
            options=form.get("options", ()),
        ).letter
        if read and read != form["intended"]:
            false.add(form["response"])
        elif form["intended"] and not read:
            missed.add(form["response"])
    assert false == FALSE_LETTERS
    assert len(missed) <= 8


OPTION_FORMS = [
    json.loads(line) for line in (EXTRACTION.parent / "option_forms.jsonl").open(encoding="utf-8")
]
"""414 responses with the options of their question."""


def test_careful_reads_responses_that_repeat_options() -> None:
    false, missed = set(), set()
    for form in OPTION_FORMS:
        options = form["options"]
        read = read_answer(
            ReaderName.CAREFUL, form["response"], letters=ALL[: len(options)], options=options
        ).letter
        if read and read != form["intended"]:
            false.add(form["response"])
        elif form["intended"] and not read:
            missed.add(form["response"])
    assert not false
    assert len(missed) <= 7


@pytest.mark.parametrize(
    ("part", "false", "wrong", "missed"),
    [
        (slice(1_158), 2, 0, 24),
        (slice(1_158, 1_546), 5, 0, 17),
        (slice(1_546, 2_042), 4, 0, 4),
        (slice(2_042, 2_666), 2, 0, 11),
        (slice(2_666, 3_043), 4, 0, 1),
        (slice(3_043, 3_277), 3, 0, 3),
        (slice(3_277, 3_677), 2, 0, 7),
        (slice(3_677, 4_079), 3, 0, 9),
        (slice(4_079, 4_821), 4, 0, 33),
        (slice(4_821, 5_031), 3, 0, 1),
        (slice(5_031, 5_519), 2, 0, 4),
        (slice(5_519, 5_976), 2, 0, 6),
        (slice(5_976, 6_370), 1, 1, 6),  # "The answer is F", whose text is then denied
        (slice(6_370, 6_907), 0, 0, 3),
        (slice(6_907, 7_292), 0, 0, 2),
        (slice(7_292, 7_546), 0, 0, 1),
        (slice(7_546, 8_017), 0, 0, 2),
        (slice(8_017, 8_433), 0, 0, 2),
        (slice(8_433, 8_838), 0, 0, 3),
        (slice(8_838, 9_243), 0, 0, 3),
        (slice(9_243, 9_648), 0, 0, 4),
        (slice(9_648, None), 0, 0, 4),  # first read by version 40
    ],
)
def test_careful_reads_responses_about_videos(
    part: slice, false: int, wrong: int, missed: int
) -> None:
    """The 10,053 responses of docs/reader-accuracy.md. The last 8,895 are all of small models."""
    rows = labelled_responses(EXTRACTION.parent / "video_responses.jsonl")[part]
    read = counts((letter_read(ReaderName.CAREFUL, row), row["intended"]) for row in rows)
    assert read["wrong"] == wrong
    assert read["false"] <= false
    assert read["missed"] <= missed


@pytest.mark.parametrize(
    "phrase", ["As a result", "To conclude", "Based on this", "I would say", "I think"]
)
def test_the_option_after_a_phrase_of_conclusion_is_the_answer(phrase: str) -> None:
    options = ("A. A red car.", "B. A blue boat.", "C. A green bus.", "D. A dog.")
    text = f"The video shows a car. {phrase}, a blue boat is shown."
    assert read_answer(ReaderName.CAREFUL, text, letters=FOUR, options=options).letter == "B"


OPTIONS = ("A. A red umbrella.", "B. Gray", "C. A man in a red hat.", "D. Red")


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ("A red umbrella.", "A"),
        ("a red umbrella", "A"),
        ("red umbrella", "A"),
        ("Gray", "B"),
        ("gray.", "B"),
        ("**Gray**", "B"),
        ("The answer is gray.", "B"),
        ("The correct answer is: A red umbrella", "A"),
        ("The man in the middle holds a red umbrella.", "A"),
        ("It is a man in a red hat.", "C"),
        ("Red", "D"),
        ("Gray or red", ""),
        ("It is not gray.", ""),
        ("I cannot tell whether it is gray.", ""),
        ("If it is gray", ""),
        ("Blue", ""),
        ("umbrella", ""),
        ("The answer is C.", "C"),
        ("C. Gray", "C"),
        ("<think>Gray</think>A red umbrella", "A"),
        ("<answer>Gray</answer>", "B"),
        ("<think>It rains.\n<answer>It is gray.</answer>", "B"),
        ("D.\n\n---\n\n2) Who sings?\nThe answer is B.", "D"),
    ],
)
def test_the_text_of_an_option_is_read_without_its_letter(response: str, read: str) -> None:
    reading = read_answer(ReaderName.CAREFUL, response, letters=FOUR, options=OPTIONS)
    assert (reading.letter or "") == read
    if read and reading.rule == "option_text":
        assert reading.span is not None
        assert response[slice(*reading.span)].lower() in OPTIONS[FOUR.index(Letter(read))].lower()


def test_an_option_text_that_occurs_twice_is_not_read() -> None:
    reading = read_answer(
        ReaderName.CAREFUL, "Gray", letters=FOUR, options=("A. Gray", "B. Gray", "C. Red", "D. Tan")
    )
    assert reading.letter is None


def test_options_in_another_script_are_recognized() -> None:
    options = ("A. 跑步", "B. 游泳", "C. 睡觉", "D. 吃饭")
    reading = read_answer(ReaderName.CAREFUL, "他在游泳。", letters=FOUR, options=options)
    assert (reading.letter, reading.span) == (Letter.B, (2, 4))


@pytest.mark.parametrize(
    ("response", "rule", "text"),
    [
        ("B", "alone", "B"),
        ("The answer is B.", "declared", "B"),
        ("I choose B", "chosen", "B"),
        ("B. Swimming", "label", "B"),
        ("Option B", "named", "B"),
        ("<think>A</think><answer>Ｂ</answer>", "answer_tag", "Ｂ"),
        ("A or B", "several_letters", None),
        ("The answer is E", "letter_not_offered", "E"),
        ("The answer is A. Wait, that's wrong.", "withdrawn", None),
        ("<think>A or B", "reasoning_only", None),
        ("Error code: 429", "error_text", None),
        ('if a < b:\n    answer = "A"\nprint(answer)', "program", None),
        ("I'm sorry, I cannot help.", "refusal", "I'm sorry"),
        ("A man walks.", "no_letter", None),
        (" \n", "empty", None),
    ],
)
def test_a_reading_has_a_rule_and_a_span(response: str, rule: str, text: str | None) -> None:
    reading = read_answer(ReaderName.CAREFUL, response, letters=FOUR)
    assert reading.rule == rule
    if text is not None:
        assert reading.span is not None
        assert response[slice(*reading.span)] == text


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ("I", "I"),
        ("i.", "I"),
        ("(I)", "I"),
        ("The answer is I.", "I"),
        ("I. Berries", "I"),
        ("I think it is N.", "N"),
        ("I am sure. The answer is J", "J"),
        ("I'd say K", "K"),
        ("Option 14", "N"),
        ("The eighth option", "H"),
        ("m) berries", "M"),
        ("选项为L", "L"),
        ("O", ""),
        ("I do not know", ""),
        ("I cannot tell.", ""),
        ("I or J", ""),
    ],
)
def test_careful_reads_up_to_fourteen_letters(response: str, read: str) -> None:
    assert letter(ReaderName.CAREFUL, response, ALL) == read


def test_every_reader_is_registered() -> None:
    assert set(READERS) == set(ReaderName)


# --- Properties


_CHARACTERS = "ABCDEFGabcd .,:;()[]*\n|ＢА}"
_PHRASES = (
    *("The answer is ", "Option ", "not ", " or ", "wait, ", "Error ", "答案"),
    *("<think>", "</think>", "<answer>", "\\boxed{", '"answer": "'),
)
TEXTS = st.text(max_size=300) | st.lists(
    st.sampled_from([*_CHARACTERS, *_PHRASES]),
    max_size=30,
).map("".join)


@given(TEXTS, st.sampled_from(ReaderName), st.integers(1, 14), st.lists(st.text(), max_size=14))
def test_any_text_is_read_as_an_offered_letter_or_none_with_a_valid_span(
    response: str, reader: ReaderName, offered: int, options: list[str]
) -> None:
    letters = ALL[:offered]
    reading = read_answer(reader, response, letters=letters, options=options)
    if reader in (ReaderName.CAREFUL, ReaderName.LMMS_EVAL):
        assert reading.letter is None or reading.letter in letters
    if reading.span is not None:
        start, end = reading.span
        assert 0 <= start <= end <= len(response)
    if reading.letter and reader is not ReaderName.CAREFUL:
        assert reading.span is not None
        assert response[slice(*reading.span)] == reading.letter


@given(
    st.sampled_from(FOUR),
    st.sampled_from(["{}", "{}.", "({})", "The answer is {}.", "Answer: {}", "答案是{}。"]),
    st.text(alphabet=" \n\t", max_size=5),
    st.sampled_from(
        ["{}", "**{}**", "`{}`", "> {}", "- {}", "*{}*", '"{}"', "<answer>{}</answer>"]
    ),
)
def test_wrapping_a_clear_answer_does_not_change_it(
    intended: Letter, form: str, space: str, wrapper: str
) -> None:
    response = space + wrapper.format(form.format(intended)) + space
    assert letter(ReaderName.CAREFUL, response) == intended


@given(st.text(alphabet="abcdefgh ABCD.,\n", max_size=80), st.sampled_from(FOUR))
def test_closed_reasoning_never_changes_the_letter(thought: str, intended: Letter) -> None:
    assert letter(ReaderName.CAREFUL, f"<think>{thought}</think>{intended}") == intended


_UNITS = [
    *(
        "A ",
        "A or ",
        "The answer is ",
        "not ",
        "wait ",
        "(",
        "[{",
        " ",
        "\n",
        ".",
        "_",
        "'",
        "|",
        "-",
    ),
    *("B. Gray ", "B Gray\n", "\nQ: A\n", "Gray ", "B. Gray\nWho is it?\nA."),
    *(
        "A. ",
        "A\n",
        "\n-",
        "x.",
        "答",
        "Ａ ",
        "<think>",
        "</think>",
        "<answer>",
        "\\boxed{",
        '"reason":"',
    ),
]


@pytest.mark.parametrize("characters", [700, 3_000])
@pytest.mark.parametrize("unit", _UNITS)
def test_reading_takes_linear_cpu_time(unit: str, characters: int) -> None:
    """Four times the text takes about four times the CPU time, not sixteen times."""

    def seconds(length: int) -> float:
        response = unit * (length // len(unit)) + "!"
        started = time.thread_time()
        read_answer(ReaderName.CAREFUL, response, letters=FOUR, options=OPTIONS)
        return time.thread_time() - started

    most = 10 * seconds(characters) + 0.05
    assert min(seconds(4 * characters) for _ in range(3)) < most


@pytest.mark.slow
@pytest.mark.measurement
@pytest.mark.parametrize("unit", _UNITS)
def test_a_megabyte_of_any_text_is_read_in_seconds_of_cpu_time(unit: str) -> None:
    response = unit * (1_000_000 // len(unit)) + "!"
    started = time.process_time()
    read_answer(ReaderName.CAREFUL, response, letters=FOUR, options=OPTIONS)
    assert time.process_time() - started < 15


# --- JSON lines


def test_lines_are_returned_with_letter_rule_and_span() -> None:
    lines = [
        '{"response": "The answer is B.", "question_id": "001-1"}\n',
        "\n",
        '{"response": "I am not sure"}',
        '{"response": null}',
        '{"response": "Swimming", "options": ["A. Walking.", "B. Swimming."]}',
    ]
    assert list(read_lines(lines, ReaderName.CAREFUL, FOUR)) == [
        {
            "response": "The answer is B.",
            "question_id": "001-1",
            "letter": "B",
            "rule": "declared",
            "span": [14, 15],
        },
        {"response": "I am not sure", "letter": "", "rule": "no_letter", "span": None},
        {"response": None, "letter": "", "rule": "no_response", "span": None},
        {
            "response": "Swimming",
            "options": ["A. Walking.", "B. Swimming."],
            "letter": "B",
            "rule": "option_text",
            "span": [0, 8],
        },
    ]


def test_the_options_of_a_line_decide_its_letters() -> None:
    options = [f"fruit {number}" for number in range(6)]
    lines = [
        json.dumps({"response": "The answer is F.", "options": options}),
        json.dumps({"response": "(B) Not shown", "options": ["Shown", "Not shown"]}),
        json.dumps({"response": "C", "options": ["Shown", "Not shown"]}),
        json.dumps({"response": "F"}),
        json.dumps({"response": "A", "options": options * 3}),
    ]
    *read, error = read_lines(lines, ReaderName.CAREFUL, FOUR)
    assert [item["letter"] for item in read] == ["F", "B", "", ""]
    assert error["error"] == "line 5 has 18 `options`, but there are 14 letters"


def test_an_unusable_line_is_reported_and_the_others_are_read() -> None:
    lines = ['{"response": "A"}', "{broken", "[]", '{"answer": "A"}', '{"response": 3}']
    lines += ['{"response": "A", "options": "A"}', '{"response": "B"}']
    read = list(read_lines(lines, ReaderName.CAREFUL, FOUR))
    assert [item.get("letter") for item in read] == ["A", None, None, None, None, None, "B"]
    assert [item["line"] for item in read[1:-1]] == [2, 3, 4, 5, 6]
    assert read[1]["error"].startswith("line 2 is not JSON")
    assert '{"response": "B."}' in read[3]["error"]


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python 3.11.2 keeps the characters of such a group's failed attempt: "A+" is then A."""
    texts = [path.read_text("utf-8") for path in (ROOT / "videomme_pipeline").rglob("*.py")]
    assert texts
    assert not re.findall(r"\)[*+?]\+", "".join(texts))
