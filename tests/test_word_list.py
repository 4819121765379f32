"""The word list of `make lint` finds unwanted words and no others."""

import pytest

from tests.support.word_list import offenders


@pytest.mark.parametrize(
    "line",
    [
        "What all answers hang on",
        "Every asset behind it is stale.",
        "# Whoever asks is answered.",
        "It is mended in one go.",
        "the licence of a benchmark",
        "The nights are compared.",
    ],
)
def test_unwanted_words_are_found(line: str) -> None:
    assert next(offenders("docs/page.md", f"fine\n{line}\n"))[0] == 2


@pytest.mark.parametrize(
    "line",
    [
        "A model behind an endpoint.",
        "The license is Apache-2.0, and we recommend reading it.",
        "an alarm in 60 nights",
        "select night from nights",
    ],
)
def test_plain_english_is_left_alone(line: str) -> None:
    assert list(offenders("docs/page.md", line)) == []


def test_names_are_checked_in_code_but_not_in_text() -> None:
    text = '"""The lock is held."""\n\nheld = 1\n'
    assert list(offenders("module.py", text)) == [(3, "the name 'held' (name the thing)")]


@pytest.mark.parametrize("name", ["videomme_pipeline/module.py", "tests/test_module.py"])
def test_variables_say_what_they_contain(name: str) -> None:
    code = "def f(one: int) -> None:\n    found, place = one, 2\n\n\nclass A:\n    each: bool\n"
    assert [line for line, _ in offenders(name, code)] == [1, 2, 2]


def test_docstrings_start_with_a_noun_or_an_imperative() -> None:
    assert list(offenders("module.py", '"""Number of frames: how many are sent."""')) == []
    assert next(offenders("module.py", '"""How many frames are sent."""'))[0] == 1
