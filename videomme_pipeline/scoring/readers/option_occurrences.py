"""The texts and values of options that an answer states without their letters."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.option_texts import (
    DETERMINERS,
    OptionTexts,
    Word,
    words_from,
)
from videomme_pipeline.scoring.readers.reading import Reading

_SENTENCE_END = re.compile(r"\W*?(?:[.!?\n]|$)")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ing|ed|es|e|s)$")
_DOUBLED = re.compile(r"([a-z])\1$")
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


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The text or the value of option `letter` at `start`:`end` of an answer."""

    letter: Letter
    start: int
    end: int

    def is_within(self, other: "Occurrence") -> bool:
        """True if `other` is longer and contains this one."""
        is_shorter = self.end - self.start < other.end - other.start
        return is_shorter and other.start <= self.start and self.end <= other.end

    @property
    def reading(self) -> Reading:
        return Reading(letter=self.letter, rule="option_text", span=(self.start, self.end))


def find_occurrences(
    answer: str, texts: OptionTexts, start: int = 0, end: int | None = None
) -> list[Occurrence]:
    """The texts of options in `answer[start:end]`, without those inside a longer one.

    In a text of several words, the endings may differ, and articles or possessive words may be
    added: "nods her head" is "nodding head".
    """
    words = list(words_from(answer, start, end))
    given = tuple(word.text for word in words)
    stems = _stems(given)
    written = [
        Occurrence(letter, words[first].start, words[last].end)
        for letter, core in ((letter, text.core) for letter, text in texts.items())
        for first, last in _indexes(*((stems, _stems(core)) if len(core) > 1 else (given, core)))
    ]
    stated = [occurrence for occurrence in written if _is_stated(answer, occurrence)]
    stated = stated or _adverbs(answer, words, texts)
    return [
        occurrence
        for occurrence in stated
        if not any(occurrence.is_within(other) for other in stated)
    ]


def find_values(
    answer: str, texts: OptionTexts, start: int = 0, end: int | None = None
) -> list[Occurrence]:
    """The values of options in `answer[start:end]`: "The angle is 36°".

    The list is empty if an option has no value or two options have the same one. It is also empty
    if the answer states no value, as after "is" or "=" or at the start.
    """
    values = {_value(text.words): letter for letter, text in texts.items()}
    if None in values or len(values) < len(texts):
        return []
    words = list(words_from(answer, start, end))
    written = [
        Occurrence(values[number], word.start, word.end)
        for word in words
        if (number := _value([word.text])) in values
    ]
    begin = words[0].start if words else 0
    is_stated = any(_BEFORE_VALUE.search(answer[begin : value.start]) for value in written)
    return written if is_stated else []


def names_activity(words: str, texts: OptionTexts, letter: Letter) -> bool:
    """True if the verb of another option than `letter` is in `words`: "shooting the ball".

    `words` are an answer's without the text of `letter`.
    """
    given = set(_stems(tuple(word.text for word in words_from(words))))
    own = _stems(texts[letter].core)
    verbs = (text.core[0] for text in texts.values() if len(text.core) > 1)
    others = (_stems((verb,))[0] for verb in verbs if verb.endswith("ing"))
    return any(verb in given and verb not in own for verb in others)


def _indexes(given: tuple[str, ...], words: tuple[str, ...]) -> list[tuple[int, int]]:
    """The indexes in `given` of the first and the last word of `words`."""
    firsts = [first for first, word in enumerate(given) if words[:1] == (word,)]
    return [(first, last) for first in firsts if (last := _last(given, first, words)) is not None]


def _last(given: tuple[str, ...], first: int, words: tuple[str, ...]) -> int | None:
    """The index of the last of `words` in `given`, if the words begin at `first`, else None."""
    index = first
    for word in words[1:]:
        index += 1
        while index < len(given) and given[index] != word and given[index] in DETERMINERS:
            index += 1
        if index == len(given) or given[index] != word:
            return None
    return index


def _stems(words: tuple[str, ...]) -> tuple[str, ...]:
    """`words` without English endings, for example "nod" of "nodding" and of "nods"."""
    return tuple(_DOUBLED.sub(r"\1", _ENDING.sub("", word)) for word in words)


def _is_stated(answer: str, occurrence: Occurrence) -> bool:
    """False for numbers and very short words, unless a word ends the sentence: "It goes up."."""
    text = answer[occurrence.start : occurrence.end]
    is_long = len(text) > 2 or not text.isascii()
    return is_long or (text.isalpha() and _ends_sentence(answer, occurrence))


def _ends_sentence(answer: str, occurrence: Occurrence) -> bool:
    return _SENTENCE_END.match(answer, occurrence.end) is not None


def _adverbs(answer: str, words: Sequence[Word], texts: OptionTexts) -> list[Occurrence]:
    """The adverbs of options at the end of a sentence: "It moves horizontally." """
    adverbs = {f"{text.core[0]}ly": letter for letter, text in texts.items() if len(text.core) == 1}
    written = [
        Occurrence(adverbs[word.text], word.start, word.end)
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
