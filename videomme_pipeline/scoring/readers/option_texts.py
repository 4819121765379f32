"""The texts of a question's options, and their spans in a response that repeats them.

Texts are compared word by word, without case, leading articles and marks. Comparing words instead
of compiling patterns keeps the time for thousands of different questions low.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.answer_words import PATTERNS, WORD_LETTER
from videomme_pipeline.scoring.readers.response_text import Span, blank_spans, fold

_WORD = re.compile(rf"(?<![^\W_])[-−]?\d+(?:[.,:/]\d+)*(?![{WORD_LETTER}])|[{WORD_LETTER}]+|[^\W_]")
"""A number, a word, or one character of a script without spaces."""
_PADDING = re.compile(r"(?<![\d.,])0+(?=\d)|,(?=\d{3}(?!\d))|:00$")
ARTICLES = frozenset(("the", "a", "an"))
_LETTER_OF_OPTION = re.compile(r"\s*\(?([A-Za-z])\s*[.):]\s*")
_LABEL = re.compile(rf"[A-Na-n](?![{WORD_LETTER}])(?<![{WORD_LETTER}].)")
_ANSWER_MARK = re.compile(r"(?:\s*A[ \t]*:)+|\s*A[ ](?=\([A-N]\))", re.IGNORECASE)
_BEGUN_ANSWER = re.compile(r"\nA:\s*\Z")
_LINE_START = re.compile(r"(?:^|\n)[^\w\n]*$")
_LINE_END = re.compile(r"[^\w\n]{0,20}(?:\n|$)")
_MAX_MARKS = 12
"""The number of marks that may be before a letter on its line."""


class Word(NamedTuple):
    """A word of a text in lower case, at `start`:`end`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class OptionText:
    """The words of one option without its letter. `core` are those without a leading article."""

    words: tuple[str, ...]
    core: tuple[str, ...]

    @classmethod
    def of(cls, option: str, letter: Letter) -> "OptionText":
        """The text of `option`, which may contain its letter ("A. Apples.")."""
        text = fold(option)
        label = _LETTER_OF_OPTION.match(text)
        if label and label[1].upper() == letter and label.end() < len(text):
            text = text[label.end() :]
        words = tuple(words_from(text))
        return cls(tuple(word.text for word in words), without_article(text, words))

    @property
    def named(self) -> tuple[str, ...]:
        """The words of "a red one" and "the one on the left" without "one"."""
        start = 1 if self.words[:2] == ("the", "one") else 0
        return self.core[:1] if self.core[1:] == ("one",) else self.core[start:]

    def match(self, text: str, position: int) -> Span | None:
        """The span of the option in `text`, if its words are the first ones after `position`."""
        first = _WORD.search(text, position)
        if not first or not self.core or first[0].lower() not in (*ARTICLES, self.core[0]):
            return None
        words = list(islice(words_from(text, position), len(self.core) + 1))
        given = tuple(word.text for word in words)
        start = 1 if given[0] in ARTICLES and given[:1] != self.core[:1] else 0
        end = start + len(self.core)
        return (words[0].start, words[end - 1].end) if given[start:end] == self.core else None


OptionTexts = Mapping[Letter, OptionText]
"""The texts of the options of one question."""


def option_texts(letters: Sequence[Letter], options: Sequence[str]) -> OptionTexts:
    """The texts of `options` by their letters."""
    return {own: OptionText.of(option, own) for own, option in zip(letters, options, strict=False)}


def labelled_texts(text: str, texts: OptionTexts) -> dict[int, Span]:
    """The spans of the options that follow their own letter, by the position of the letter."""
    spans, end = dict[int, Span](), 0
    for label in _LABEL.finditer(text) if texts else ():
        letter = label[0].upper()
        if label.start() >= end and letter in texts:
            span = texts[Letter(letter)].match(text, label.end())
            if span is not None and _is_label_of(span, label, text):
                spans[label.start()] = span
                end = span[1]
    return spans


def set_answer_mark_aside(text: str, texts: OptionTexts) -> str:
    """`text` without an "A:" that ends it or stands for "Answer:", as on a line with a number, an
    article or another option's text ("A: No, he does not." if A is "Yes"). "A: … B: …" is a list.
    """
    text = _BEGUN_ANSWER.sub("", text)
    mark = _ANSWER_MARK.match(text)
    if not mark or "\nB:" in text or Letter.A not in texts:
        return text
    line = text[mark.end() :].partition("\n")[0]
    starts = [word.start for word in words_from(line)]
    stated = [key for key, own in texts.items() if any(own.match(line, at) for at in starts)]
    is_other = line.startswith(" A ") or line.strip().isdecimal() or len(stated) == 1
    is_label = line and ("A" in stated or not is_other)
    return text if is_label else blank_spans(text, [mark.span()])


def words_from(text: str, start: int = 0, end: int | None = None) -> Iterator[Word]:
    """The words of `text[start:end]`. "03/12" is "3/12", "1,200" is "1200", and "8:00" is "8"."""
    matches = _WORD.finditer(text, start, len(text) if end is None else end)
    return (
        Word(_PADDING.sub("", word) if word[-1].isdecimal() else word.lower(), *match.span())
        for match in matches
        for word in [match[0]]
    )


def without_article(text: str, words: Sequence[Word]) -> tuple[str, ...]:
    """The texts of `words` of `text` without a leading article. "A" in "A is closer" is a name."""
    is_article = len(words) > 1 and words[0].text in ARTICLES
    if is_article and text[words[0].start] == "A":
        is_article = PATTERNS["article"].match(text, words[0].end) is not None
    return tuple(word.text for word in words[is_article:])


def _is_label_of(span: Span, label: re.Match[str], text: str) -> bool:
    """True if the letter `label` belongs to the option at `span`."""
    if text[label.end() : span[0]].strip(" \t"):
        return True
    # Only spaces are enough on a line of their own: "A dog barks" may be a sentence.
    before = text[max(0, label.start() - _MAX_MARKS) : label.start()]
    return bool(_LINE_START.search(before) and _LINE_END.match(text, span[1]))
