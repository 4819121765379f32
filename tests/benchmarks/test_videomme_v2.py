"""Reading v2: options in one text, groups of four, levels that may be missing."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.published_data import LOGIC_STRUCTURES, V2, read, table, v2_rows
from videomme_pipeline.benchmarks.columns import Columns, question_and_options
from videomme_pipeline.benchmarks.question import Letter, Question, videos_of
from videomme_pipeline.errors import AnnotationError
from videomme_pipeline.rows import from_table, to_table


def split_options(text: str) -> tuple[str, ...]:
    """The options in a text with one per line, or none if it has no options."""
    columns = Columns(
        video_id="id",
        question="question",
        options="options",
        options_are="lines",
        answer="answer",
    )
    try:
        return tuple(question_and_options({"question": "?", "options": text}, columns)[1])
    except ValueError:
        return ()


def one_group(**changes: Any) -> pa.Table:
    """The four rows of one video, with changes to the first one."""
    rows = v2_rows(1)
    rows[0] |= changes
    return table(rows)


def test_the_published_table_has_3200_questions_in_groups_of_four() -> None:
    questions = read("videomme_v2", table(v2_rows()))
    assert len(questions) == 3200
    assert len(videos_of(questions)) == 800
    assert {question.youtube_id for question in questions} == {None}
    assert {question.facets.get("group_structure") for question in questions} == {
        "4",
        *LOGIC_STRUCTURES,
    }


def test_every_column_is_read_into_its_field() -> None:
    question = read("videomme_v2", table(v2_rows(1)), videos=1)[1]
    assert (question.question_id, question.video_id) == ("001-2", "001")
    assert question.options[0] == "A. option of 001-2."
    assert len(question.options) == 8
    assert question.facets == {
        "level": 3,
        "second_head": "Order",
        "third_head": "Event Sequence Ordering",
        "group_type": "logic",
        "group_structure": "[1,2,3,4]",
    }
    assert question.duration is None


def test_fewer_than_eight_options_are_kept_as_they_are() -> None:
    questions = read("videomme_v2", table(v2_rows()))
    few = [question for question in questions if question.video_id == "005"]
    assert {question.letters for question in few} == {(Letter.A, Letter.B, Letter.C)}


def test_an_answer_beyond_the_options_is_rejected() -> None:
    with pytest.raises(AnnotationError, match="the answer 'D' matches none of the options A, B"):
        read("videomme_v2", one_group(options="A. yes\nB. no", answer="D"), videos=1)


def test_an_option_may_contain_newlines() -> None:
    assert split_options("A. first\nand more\n\nB. second\nC. third") == (
        "A. first\nand more\n",
        "B. second",
        "C. third",
    )


def test_only_the_next_letter_begins_an_option() -> None:
    assert split_options("A. see\nC. is not the next one\nB. second") == (
        "A. see\nC. is not the next one",
        "B. second",
    )


def test_text_that_does_not_begin_with_option_a_has_no_options() -> None:
    assert split_options("B. second") == ()
    with pytest.raises(AnnotationError, match="must be one text with lines"):
        read("videomme_v2", one_group(options="yes or no"), videos=1)


@given(st.text())
def test_joining_the_options_restores_the_text(text: str) -> None:
    options = split_options(text)
    assert not options or "\n".join(options) == text.lstrip("\n")


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["C"]), min_size=1).filter(str.strip),
        min_size=2,
        max_size=8,
    )
)
def test_options_of_one_line_each_are_found(texts: list[str]) -> None:
    options = [f"{letter}. {text}" for letter, text in zip(Letter, texts, strict=False)]
    assert split_options("\n".join(options)) == tuple(options)


@pytest.mark.parametrize(
    ("published", "level"),
    [("1", 1), ("3", 3), ("2.0", 2), ("Level 2", 2), ("level_1", 1), ("", None), (None, None)],
)
def test_a_level_is_read_from_text(published: str | None, level: int | None) -> None:
    question = read("videomme_v2", one_group(level=published), videos=1)[0]
    assert question.facets.get("level") == level


def test_a_first_release_with_levels_on_the_last_row_only_is_read() -> None:
    empty = {"level": None, "second_head": "", "third_head": None}
    rows = [row | empty if row["question_id"][-1] != "4" else row for row in v2_rows(2)]
    questions = read("videomme_v2", table(rows), videos=2)
    assert [question.facets.get("level") for question in questions] == [None, None, None, 2] * 2
    assert [question.facets.get("second_head") for question in questions] == [
        None,
        None,
        None,
        "Order",
    ] * 2


def test_numeric_levels_with_missing_ones_are_read() -> None:
    rows = [row | {"level": float(row["level"])} for row in v2_rows(1)]
    rows[0]["level"] = float("nan")
    questions = read("videomme_v2", table(rows), videos=1)
    assert [question.facets.get("level") for question in questions] == [None, 3, 1, 2]


@pytest.mark.parametrize("published", ["[1, [2, 3], 4]", " [1,[2,3],4] "])
def test_spaces_in_a_group_structure_do_not_matter(published: str) -> None:
    question = read("videomme_v2", one_group(group_structure=published), videos=1)[0]
    assert question.facets.get("group_structure") == "[1,[2,3],4]"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"group_structure": "[4,3,2,1]"}, "`group_structure` of a logic group"),
        ({"group_structure": None}, "`group_structure` of a logic group"),
        ({"group_type": "相关性"}, "`group_type` is '相关性', not one of relevance, logic"),
        ({"level": "4"}, "`level` is '4', not one of 1, 2, 3"),
        ({"video_id": "../001"}, "`video_id`: '../001' is not usable as a file name"),
    ],
)
def test_a_wrong_cell_is_reported_with_its_question(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read("videomme_v2", one_group(**changes), videos=1)
    assert "question 001-1" in str(caught.value)
    assert problem in str(caught.value)
    assert str(V2.hub.revision) in str(caught.value)


def test_the_error_names_a_group_without_four_questions() -> None:
    with pytest.raises(AnnotationError, match="videos without 4 questions: 002"):
        read("videomme_v2", table(v2_rows(2)[:-1]), videos=None)


@given(
    st.sampled_from(sorted(v2_rows(1)[0])),
    st.none()
    | st.booleans()
    | st.integers(0, 9)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.text(max_size=5), max_size=9)
    | st.binary(max_size=5),
)
def test_any_value_of_a_column_is_read_or_reported(column: str, value: object) -> None:
    changed = table([row | {column: value} for row in v2_rows(1)])
    try:
        questions = read("videomme_v2", changed, videos=1)
    except AnnotationError:
        return
    assert from_table(to_table(questions, Question), Question) == list(questions)
