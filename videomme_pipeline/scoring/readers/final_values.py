r"""A final value that an answer marks: the content of \boxed{} or of an answer tag, or a number
after "the answer is".

It is compared as a whole, because 6√3 contains √3 and is another value. If no option equals a
marked value, the texts and values of options elsewhere in the answer are not read.
"""

import re
from collections.abc import Mapping

from videomme_pipeline.benchmarks.question import Letter, split_option
from videomme_pipeline.scoring.readers import answer_words as words_of
from videomme_pipeline.scoring.readers.reading import NO_LETTER, Reading
from videomme_pipeline.scoring.readers.response_text import Span, fold

_VALUE = re.compile(r"(?:about\s|approximately\s|[a-zA-Z]\s?=\s?)?[-−√π\\]?[\d√π\\]")
_VALUE_END = re.compile(
    r"[;\n。]|,(?!\d{3})|\.(?!\d)|\b(?:which|because|since|so|as|and\s(?:it|this|that|not|so))\b|$"
)
_COMMANDS = (
    (re.compile(r"\\[dt]?frac\s?\{([^{}]*)\}\s?\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\\sqrt\s?(?:\{([^{}]*)\}|(\d))"), r"√\1\2"),
    (re.compile(r"\\pi(?![a-z])"), "π"),
    (re.compile(r"\^?\{?\\(?:circ|degree)\}?|\b[Dd]egrees?\b"), "°"),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|left|right|quad|displaystyle|[,;! ])"), ""),
    (re.compile(r"\^\{?2\}?"), "²"),
    (re.compile(r"\^\{?3\}?"), "³"),
    (re.compile(r"\\(?:times|cdot)|×"), "·"),
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"[\s{}$\\~*_`\"'()]|[.,;:]+$"), ""),
    (re.compile(r"(?i)^(?:about|approximately|[a-z]+=)"), ""),
)
_NUMBER = re.compile(r"([-−]?[\d./√π]+)([^\W\d_]*[²³]?|%|°)")


def read_final_value(
    answer: str, marked: Span | None, options: Mapping[Letter, str]
) -> Reading | None:
    """The option that equals the final value of `answer`; `NO_LETTER` if none does.

    None if the answer has no final value. `marked` is the content of the last box or answer tag.
    """
    span = marked or _declared(answer)
    value = "" if span is None else _normal(answer[slice(*span)])
    if span is None or not value or value.upper() in options:  # a letter, which is not a value
        return None
    if not marked and words_of.BRACKETED.search(answer, *span):  # "about 2 (Option B)"
        return None
    texts = {letter: _normal(split_option(option)[1]) for letter, option in options.items()}
    fits: list[Letter] = []
    for equal in (str.__eq__, _equal_words, _equal_numbers):  # "Aa" and "AA" may be two options
        fits = fits or [letter for letter, text in texts.items() if equal(text, value)]
    if len(fits) == 1:
        return Reading(letter=fits[0], rule="option_text", span=span)
    is_value = _VALUE.match(answer, span[0]) or (marked and any(map(str.isdigit, value)))
    return NO_LETTER if is_value else None


def _declared(answer: str) -> Span | None:
    """The span of the words after the last "the answer is"."""
    for declared in [*words_of.DECLARES.finditer(answer)][-1:]:
        end = _VALUE_END.search(answer, declared.end())
        return (declared.end(), end.start() if end else len(answer))
    return None


def _normal(text: str) -> str:
    """`text` without LaTeX commands, spaces and brackets, to be compared."""
    normal = fold(text)
    for pattern, plain in _COMMANDS:
        normal = pattern.sub(plain, normal)
    return normal


def _equal_words(option: str, value: str) -> bool:
    return option.lower() == value.lower()


def _equal_numbers(option: str, value: str) -> bool:
    """True if both are the same number, and at most one of them has a unit."""
    a, b = _NUMBER.fullmatch(option), _NUMBER.fullmatch(value)
    return a is not None and b is not None and a[1] == b[1] and "" in (a[2], b[2])
