"""Lists of the options in a response, whose labels are not answers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from videomme_pipeline.scoring.readers import answer_words as words_of
from videomme_pipeline.scoring.readers.response_text import Span

_LABEL = re.compile(
    rf"(?<![{words_of.WORD_LETTER}'.])([A-Za-z])(?![{words_of.WORD_LETTER}])"
    r"[*_`\"')\]]{0,3}[ \t]?(?:[.):|=]|(?<=[)\]])(?=[ \t]))"
    r"|(?:(?<=\n)|(?<=- ))([A-Za-z])(?=[ \t][^\w\s])"
)
_FIRST_NUMBER = re.compile(r"(?:^|\n)[^\w\n]*1[.)][^\w\n]*$")
_UNFINISHED = re.compile(r"[^\n]*[.:][^\w\n]+\w[^.!?\n]*\Z(?<![.!?*\"')])")
_YES_OR_NO = re.compile(r"\W*(?:yes|no|true|false)\W*", re.IGNORECASE)
_LONGEST_ITEM = 160
_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class ListItem:
    """An item of a list of options. `start` is the position of its letter."""

    letter: str
    start: int
    is_marked_right: bool
    """True if the response calls the item correct: "B. Pears ✓"."""


def list_items(text: str) -> list[ListItem]:
    """The items of all lists of options in `text`.

    A list is two labels from A on, or three, in alphabetical order ("A. … B. …"). "A. No, B." is a
    correction, not a list. "1. A. … The man" is a list that was cut off in its first item.
    """
    labels = list(_LABEL.finditer(text))
    listed = _in_sequence(text, labels)
    if labels and _is_cut_off(text, labels[-1]):
        listed.add(len(labels) - 1)
    spans = {index: _content(text, labels, index) for index in sorted(listed)}
    contents = [text[start:end] for start, end in spans.values()]
    are_options = len(contents) == 2 and all(map(_YES_OR_NO.fullmatch, contents))
    return [
        ListItem(
            letter=_letter(labels[index]),
            start=labels[index].start(labels[index].lastindex or 1),
            is_marked_right=not are_options and _is_marked_right(content),
        )
        for index, content in zip(spans, contents, strict=True)
    ]


def _letter(label: re.Match[str]) -> str:
    return (label[1] or label[2]).upper()


def _in_sequence(text: str, labels: Sequence[re.Match[str]]) -> set[int]:
    """Indexes of the labels of all lists."""
    listed: set[int] = set()
    run: list[int] = []
    for index in range(len(labels)):
        if not (run and _continues(text, labels[run[-1]], labels[index])):
            run = []
        run.append(index)
        if len(run) > 2 or (len(run) == 2 and _letter(labels[run[0]]) == "A"):
            listed.update(run)
    return listed


def _is_cut_off(text: str, label: re.Match[str]) -> bool:
    """True if `label` is the first of a numbered list, and a sentence after it is not finished."""
    before = text[max(0, label.start() - _LONGEST_NUMBER) : label.start()]
    return (
        _letter(label) == "A"
        and _FIRST_NUMBER.search(before) is not None
        and _UNFINISHED.match(text, label.end()) is not None
    )


def _continues(text: str, label: re.Match[str], following: re.Match[str]) -> bool:
    """True if `following` is the next label of the alphabet and corrects nothing."""
    is_next = ord(_letter(following)) - ord(_letter(label)) == 1
    return is_next and not words_of.CORRECTION.search(text, label.end(), following.start())


def _content(text: str, labels: Sequence[re.Match[str]], index: int) -> Span:
    """The span of an item up to the next label or the end of the line."""
    start = labels[index].end()
    end = labels[index + 1].start() if index + 1 < len(labels) else len(text)
    line_end = text.find("\n", start, end)
    return start, min(start + _LONGEST_ITEM, line_end if line_end >= 0 else end)


def _is_marked_right(content: str) -> bool:
    return words_of.RIGHT.search(content) is not None and words_of.WRONG.search(content) is None
