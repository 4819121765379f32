"""The question row: letters, option texts, and the videos that questions are about."""

from dataclasses import replace

import pytest

from videomme_pipeline.benchmarks.question import Letter, Question, videos_of
from videomme_pipeline.fetch.release import VideoReference

QUESTION = Question(
    benchmark="videomme",
    question_id="001-1",
    video_id="001",
    youtube_id="-abcdefghij",
    url=None,
    question="What is shown?",
    options=("A. Apples.", "(B) Pears: two", "C: A. Plums", "None of them"),
    answer=Letter.A,
)


@pytest.mark.parametrize(
    ("letter", "text"),
    [
        (Letter.A, "Apples."),
        (Letter.B, "Pears: two"),
        (Letter.C, "A. Plums"),
        (Letter.D, "None of them"),
    ],
)
def test_an_option_text_is_the_option_without_its_own_letter(letter: Letter, text: str) -> None:
    assert QUESTION.option_text(letter) == text


def test_an_option_text_keeps_its_newlines() -> None:
    question = replace(QUESTION, options=("A. one\ntwo\n", "B. three"))
    assert question.option_text(Letter.A) == "one\ntwo"


def test_a_question_offers_as_many_letters_as_options() -> None:
    assert replace(QUESTION, options=QUESTION.options[:3]).letters == tuple("ABC")


def test_a_letter_that_is_not_offered_has_no_text() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        QUESTION.option_text(Letter.E)


def test_videos_are_listed_once_in_order_of_first_appearance() -> None:
    second = replace(QUESTION, video_id="000", youtube_id=None)
    assert videos_of([QUESTION, second, QUESTION]) == (
        VideoReference("001", "-abcdefghij"),
        VideoReference("000", None),
    )


def test_files_are_named_after_the_youtube_id_if_there_is_one() -> None:
    first, second = videos_of([QUESTION, replace(QUESTION, video_id="002", youtube_id=None)])
    assert (first.file_stem, second.file_stem) == ("-abcdefghij", "002")
