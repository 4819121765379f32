"""Answers that repeat the text of an option without its letter."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers import answer_words as words_of
from videomme_pipeline.scoring.readers.option_texts import (
    OptionTexts,
    Word,
    without_article,
    words_from,
)
from videomme_pipeline.scoring.readers.reading import Reading
from videomme_pipeline.scoring.readers.response_text import blank_spans, set_markup_aside

_LONGEST_READ = 3_000
_LONGEST_STATEMENT = 300
_LONGEST_EXPLANATION = 1_200
_STATES_TEXT = re.compile(
    r"\b(?:answer|option|choice)\b[^.:\n]{0,60}?(?:\bis\b|:|=)|\\boxed\s?\{|<answer>"
    r"|(?:答案|选项|正解|정답)[^\n]{0,4}?[是为:は은]",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:[^.!?\n]|\.(?=\w))+[.!?\n]?")
_SENTENCE_END = re.compile(r"\W*?(?:[.!?\n]|$)")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ing|ed|es|e|s)$")
_DOUBLED = re.compile(r"([a-z])\1$")
_CONTRAST = re.compile(
    r",\s*(?:and\s|but\s)?not\b|\b(?:rather\sthan|instead\sof|as\sopposed\sto|unlike)\b",
    re.IGNORECASE,
)
"""Words before an option that is ruled out: "swimming, not cooking"."""
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_YES_OR_NO = re.compile(r"\W*(?:yes|no)(?=[ ]*[,.;!\n])", re.IGNORECASE)
_EXCLUDES = re.compile(rf"\b(?:if|would)\b|{words_of.WRONG.pattern}", re.IGNORECASE)
"""Words of a sentence that says why an option is not chosen."""
_BEFORE_VALUE = re.compile(
    r"(?:^|\b(?:is|are|was|were|be|equals)\b|[=:≈])\W*"
    r"(?:(?:about|around|approximately|roughly|exactly|only|just)\W+)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """The text or the value of option `letter` at `start`:`end` of an answer."""

    letter: Letter
    start: int
    end: int

    def is_within(self, other: "_Occurrence") -> bool:
        """True if `other` is longer and contains this one."""
        is_shorter = self.end - self.start < other.end - other.start
        return is_shorter and other.start <= self.start and self.end <= other.end

    @property
    def reading(self) -> Reading:
        return Reading(letter=self.letter, rule="option_text", span=(self.start, self.end))


def read_repeated_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The option whose text is all of `answer`, or all of its part after "the answer is"."""
    statement = set_markup_aside(answer)
    for start in _starts(answer) if texts else ():
        if len(statement) - start > _LONGEST_READ:
            continue
        yes_or_no = _YES_OR_NO.match(statement, start)  # "No, he does not."
        end = yes_or_no.end() if yes_or_no else len(statement)
        words = list(words_from(statement, start, end))
        said = without_article(tuple(word.text for word in words))
        fits = [letter for letter, text in texts.items() if said and text.core == said]
        if len(fits) == 1:
            return _Occurrence(fits[0], words[0].start, words[-1].end).reading
    return None


def read_contained_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The only option that a short statement, or the first sentence of an explanation, contains."""
    if not texts or len(answer.strip()) > _LONGEST_READ:
        return None
    statement = set_markup_aside(answer)
    start = _starts(answer)[0]
    if len(statement.rstrip()) - start > _LONGEST_STATEMENT:
        return _read_explanation(statement, texts)
    contrast = _CONTRAST.search(statement, start)
    if contrast:
        statement = statement[: contrast.start()]
    words = list(words_from(statement, start))
    found = _occurrences(statement, words, texts) or _values(statement, words, texts)
    return _without_doubt(statement, found)


def _starts(answer: str) -> list[int]:
    """The end of the last "the answer is", if there is one, and the start of `answer`."""
    declared = [match.end() for match in _STATES_TEXT.finditer(answer)][-1:]
    return [*declared, len(answer) - len(answer.lstrip())]


def _without_doubt(statement: str, found: Sequence[_Occurrence]) -> Reading | None:
    """The reading of `found` if all are of one option, and if `statement` is sure of it.

    Words of the option itself deny nothing: "He has no money."
    """
    if len({one.letter for one in found}) != 1:
        return None
    words = blank_spans(statement, [(one.start, one.end) for one in found])
    is_question = statement.rstrip(" \n*\"')").endswith("?")
    doubts = (words_of.REFUSAL, words_of.WRONG, words_of.CONDITION)
    is_doubtful = is_question or any(doubt.search(words) for doubt in doubts)
    return None if is_doubtful else found[0].reading


def _occurrences(statement: str, words: Sequence[Word], texts: OptionTexts) -> list[_Occurrence]:
    """The texts of options in `words`, without those inside a longer one.

    In a text of several words, the endings may differ: "nods her head" is "nodding her head".
    """
    said = tuple(word.text for word in words)
    stems = _stems(said)
    found = [
        _Occurrence(letter, words[place].start, words[place + size - 1].end)
        for letter, core in ((letter, text.core) for letter, text in texts.items())
        if (size := len(core))
        for place in _places(stems if size > 1 else said, _stems(core) if size > 1 else core)
    ]
    found = [one for one in found if _is_stated(statement, one)]
    return [one for one in found if not any(one.is_within(other) for other in found)]


def _places(said: tuple[str, ...], words: tuple[str, ...]) -> list[int]:
    """The indexes in `said` where `words` begin."""
    starts = range(len(said) - len(words) + 1)
    return [start for start in starts if said[start : start + len(words)] == words]


def _stems(words: tuple[str, ...]) -> tuple[str, ...]:
    """`words` without English endings, for example "nod" of "nodding" and of "nods"."""
    return tuple(_DOUBLED.sub(r"\1", _ENDING.sub("", word)) for word in words)


def _is_stated(statement: str, one: _Occurrence) -> bool:
    """False for numbers and very short words, unless a word ends the sentence: "It goes up."."""
    text = statement[one.start : one.end]
    ends_sentence = _SENTENCE_END.match(statement, one.end) is not None
    return len(text) > 2 or not text.isascii() or (text.isalpha() and ends_sentence)


def _values(statement: str, words: Sequence[Word], texts: OptionTexts) -> list[_Occurrence]:
    """The values of options in `words`: "The angle is 36°", if every option is another value.

    There is none unless something is, or all of the answer is, one of them.
    """
    values = {_value(text.words): letter for letter, text in texts.items()}
    if None in values or len(values) < len(texts):
        return []
    found = [
        _Occurrence(values[number], word.start, word.end)
        for word in words
        if (number := _value([word.text])) in values
    ]
    begin = words[0].start if words else 0
    stated = any(_BEFORE_VALUE.search(statement[begin : one.start]) for one in found)
    return found if stated else []


def _value(words: Sequence[str]) -> str | None:
    """The only number in `words`, in digits, or None."""
    numbers = [
        _NUMBERS.get(word, word.replace(",", ""))
        for word in words
        if word in _NUMBERS or word[-1].isdecimal()
    ]
    return numbers[0] if len(numbers) == 1 else None


def _read_explanation(statement: str, texts: OptionTexts) -> Reading | None:
    """The option in the first sentence, if the others occur only where the rest says no."""
    statement = statement.rstrip()
    if len(statement.lstrip()) > _LONGEST_EXPLANATION or not statement.endswith((".", "!")):
        return None
    spans = [match.span() for match in _SENTENCE.finditer(statement) if match[0].strip()]
    first, *rest = [
        (start, end, _occurrences(statement, list(words_from(statement, start, end)), texts))
        for start, end in spans
    ]
    reading = _without_doubt(" " * first[0] + statement[first[0] : first[1]], first[2])
    others = {
        one.letter
        for start, end, found in rest
        if not _EXCLUDES.search(statement, start, end)
        for one in found
    }
    return reading if reading and others <= {reading.letter} else None
