"""Answers that state an option by its text or value, without its letter."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers import answer_words as words_of
from videomme_pipeline.scoring.readers.option_texts import (
    OptionTexts,
    Word,
    without_article,
    words_from,
)
from videomme_pipeline.scoring.readers.reading import Reading
from videomme_pipeline.scoring.readers.response_text import Span, blank_spans, set_markup_aside

_LONGEST_READ = 3_000
_MOST_SENTENCES = 2
_STATES_TEXT = re.compile(
    r"\b(?:answer(?!\s(?:option|choice))|(?:best|correct|right)\s(?:answer\s)?(?:option|choice))\b"
    r"[^.:\n]{0,60}?(?:\b(?:is|(?:must|should|would)\sbe)\b|:|=)"
    r"|\\boxed\s?\{|<answer>|(?:答案|选项|正解|정답)[^\n]{0,4}?[是为:は은]",
    re.IGNORECASE,
)
_SENTENCE = re.compile(rf"(?:[^.!?\n]|\.(?=[{words_of.WORD_LETTER}]))+[.!?\n]?")
_YES_OR_NO = re.compile(r"\W*(?:yes|no)(?=[ ]*[,.;!\n])", re.IGNORECASE)


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
    most_words = max((len(text.core) for text in texts.values()), default=0) + 2
    for start in _starts(answer) if texts else ():
        if len(statement) - start > _LONGEST_READ:
            continue
        yes_or_no = _YES_OR_NO.match(statement, start)  # "No, he does not."
        end = yes_or_no.end() if yes_or_no else len(statement)
        words = list(islice(words_from(statement, start, end), most_words))
        given = without_article(tuple(word.text for word in words))
        fits = [letter for letter, text in texts.items() if given and text.core == given]
        if len(fits) == 1:
            return _Occurrence(fits[0], words[0].start, words[-1].end).reading
    return None


def read_contained_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The only option that a short statement, or the conclusion of an explanation, states."""
    if not texts or len(answer.strip()) > _LONGEST_READ:
        return None
    statement = set_markup_aside(answer).rstrip()
    start = _starts(answer)[0]
    sentences = [match for match in _SENTENCE.finditer(statement, start) if match[0].strip()]
    if len(sentences) <= _MOST_SENTENCES:
        reading = _read_statement(statement, texts, (start, len(statement)))
        if reading is not None:
            return reading
    return _read_conclusion(statement, texts)


def _starts(answer: str) -> list[int]:
    """The end of the last "the answer is", if there is one, and the start of `answer`."""
    declared = [match.end() for match in _STATES_TEXT.finditer(answer)][-1:]
    return [*declared, len(answer) - len(answer.lstrip())]


# --- One statement

_CONTRAST = re.compile(
    r",\s*(?:and\s|but\s)?not\b|\b(?:rather\sthan|instead\sof|as\sopposed\sto|unlike)\b",
    re.IGNORECASE,
)
"""Words before an option that is ruled out: "swimming, not cooking"."""


def _read_statement(answer: str, texts: OptionTexts, span: Span) -> Reading | None:
    """The only option in a statement that is sure of it."""
    start, end = span
    contrast = _CONTRAST.search(answer, start, end)
    end = contrast.start() if contrast else end
    occurrences = _occurrences(answer, texts, start, end)
    occurrences = occurrences or _values(answer, texts, start, end)
    if len({occurrence.letter for occurrence in occurrences}) != 1:
        return None
    # Words of the option itself deny nothing: "He has no money."
    spans = [(occurrence.start, occurrence.end) for occurrence in occurrences]
    words = blank_spans(answer[:end], spans)[start:]
    is_question = answer[:end].rstrip(" \n*\"')").endswith("?")
    doubts = (words_of.REFUSAL, words_of.WRONG, words_of.CONDITION)
    is_doubtful = is_question or any(doubt.search(words) for doubt in doubts)
    return None if is_doubtful else occurrences[0].reading


# --- An explanation of several sentences

_CONCLUDES = re.compile(
    r"""\W*(?:so|therefore|thus|hence|consequently|overall|accordingly|as\sa\sresult
    |in\s(?:conclusion|summary|short)|to\s(?:conclude|summarize|answer)
    |based\son\s(?:this|these|that)|i\s(?:would|think|believe|conclude)
    |(?:因此|所以|因而|综上|綜上)\w*)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a sentence that draws a conclusion."""
_OFFERS_HELP = re.compile(
    r"\W*(?:i\shope|let\sme\sknow|please|feel\sfree|is\sthere\sanything|if\syou\shave)\b",
    re.IGNORECASE,
)
"""The beginning of a sentence after the answer."""


def _read_conclusion(answer: str, texts: OptionTexts) -> Reading | None:
    """The option in the last sentence of `answer`, if this sentence begins like a conclusion.

    An answer that does not end with a sentence was cut off.
    """
    if not answer.endswith((".", "!")):
        return None
    sentences = [match.span() for match in _SENTENCE.finditer(answer) if match[0].strip()]
    while sentences and _OFFERS_HELP.match(answer, *sentences[-1]):
        sentences.pop()
    if not sentences or not _CONCLUDES.match(answer, *sentences[-1]):
        return None
    return _read_statement(answer, texts, sentences[-1])


# --- Texts and values of options in a statement

_SENTENCE_END = re.compile(r"\W*?(?:[.!?\n]|$)")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_BEFORE_VALUE = re.compile(
    r"(?:^|\b(?:is|are|was|were|be|equals|equal\sto)\b|[=:≈])\W*"
    r"(?:(?:about|around|approximately|roughly|exactly|only|just)\W+)?$",
    re.IGNORECASE,
)


def _occurrences(answer: str, texts: OptionTexts, start: int, end: int) -> list[_Occurrence]:
    """The texts of options in `answer[start:end]`, without those inside a longer one."""
    words = list(words_from(answer, start, end))
    given = [word.text for word in words]
    written = [
        _Occurrence(letter, words[first].start, words[first + len(text.core) - 1].end)
        for letter, text in texts.items()
        for first in range(len(given))
        if text.core and tuple(given[first : first + len(text.core)]) == text.core
    ]
    stated = [occurrence for occurrence in written if _is_stated(answer, occurrence)]
    stated = stated or _adverbs(answer, words, texts)
    return [
        occurrence
        for occurrence in stated
        if not any(occurrence.is_within(other) for other in stated)
    ]


def _values(answer: str, texts: OptionTexts, start: int, end: int) -> list[_Occurrence]:
    """The values of options in `answer[start:end]`: "The angle is 36°".

    The list is empty if an option has no value or two options have the same one. It is also empty
    if the answer states no value, as after "is" or "=" or at the start.
    """
    values = {_value(text.words): letter for letter, text in texts.items()}
    if None in values or len(values) < len(texts):
        return []
    words = list(words_from(answer, start, end))
    written = [
        _Occurrence(values[number], word.start, word.end)
        for word in words
        if (number := _value([word.text])) in values
    ]
    begin = words[0].start if words else 0
    is_stated = any(_BEFORE_VALUE.search(answer[begin : value.start]) for value in written)
    return written if is_stated else []


def _is_stated(answer: str, occurrence: _Occurrence) -> bool:
    """False for numbers and very short words, unless a word ends the sentence: "It goes up."."""
    text = answer[occurrence.start : occurrence.end]
    is_long = len(text) > 2 or not text.isascii()
    return is_long or (text.isalpha() and _ends_sentence(answer, occurrence))


def _ends_sentence(answer: str, occurrence: _Occurrence) -> bool:
    return _SENTENCE_END.match(answer, occurrence.end) is not None


def _adverbs(answer: str, words: Sequence[Word], texts: OptionTexts) -> list[_Occurrence]:
    """The adverbs of options at the end of a sentence: "It moves horizontally." """
    adverbs = {f"{text.core[0]}ly": letter for letter, text in texts.items() if len(text.core) == 1}
    written = [
        _Occurrence(adverbs[word.text], word.start, word.end)
        for word in words
        if word.text in adverbs
    ]
    return [occurrence for occurrence in written if _ends_sentence(answer, occurrence)]


def _value(words: Sequence[str]) -> str | None:
    """The only number in `words`, in digits, or None."""
    numbers = [
        _NUMBERS.get(word, word.replace(",", ""))
        for word in words
        if word in _NUMBERS or word[-1].isdecimal()
    ]
    return numbers[0] if len(numbers) == 1 else None
