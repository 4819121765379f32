"""Answers that state an option by its text or value, without its letter."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from videomme_pipeline.benchmarks.question import Letter, split_option
from videomme_pipeline.scoring.readers.answer_words import NUMBERS, PATTERNS, SETS, WORD_LETTER
from videomme_pipeline.scoring.readers.option_texts import (
    ARTICLES,
    OptionTexts,
    Word,
    without_article,
    words_from,
)
from videomme_pipeline.scoring.readers.reading import NO_LETTER, Reading
from videomme_pipeline.scoring.readers.response_text import (
    Span,
    blank_spans,
    fold,
    set_markup_aside,
)

_MAX_READ_CHARACTERS = 3_000
_PARAGRAPH = re.compile(r"\S(?:[^\n]|\n(?!\s*\n))*")
_SENTENCE = re.compile(rf"(?:[^.!?\n]++|\.(?=[{WORD_LETTER}]))+(?:[.!?][*\"')]*|\n)?")
_AFTER_COLON = re.compile(r"\w\w:[ ]([^:\n]+)\Z")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_YES_OR_NO = re.compile(r"\W*(?:yes|no)(?=[ ]*[,.;!\n])", re.IGNORECASE)


class _Occurrence(NamedTuple):
    """The text or the value of option `letter` at `start`:`end` of an answer."""

    letter: Letter
    start: int
    end: int

    def is_within(self, other: "_Occurrence") -> bool:
        return other.start <= self.start and self.end <= other.end

    @property
    def reading(self) -> Reading:
        return Reading(self.letter, "option_text", (self.start, self.end))


def read_repeated_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The option that is all of an outer paragraph, of the first sentence (unless the second one
    goes on with "then"), of the only bold text, or of the text after the last colon.

    Paragraphs or sentences that repeat several options are a list.
    """
    statement = set_markup_aside(answer)
    if not texts or not statement.strip():
        return None
    paragraphs = [match.span() for match in _PARAGRAPH.finditer(statement)]
    repeated = [_repeated(statement, texts, paragraph) for paragraph in paragraphs]
    opening, *others = _sentences(statement) or [(0, 0)]
    listed = (*repeated, *(_repeated(statement, texts, other) for other in (opening, *others)))
    if len({occurrence.letter for occurrence in listed if occurrence}) > 1:
        return NO_LETTER
    goes_on = others and PATTERNS["hedges"].match(statement[slice(*others[0])].strip())
    bold = [match.span(1) for match in _BOLD.finditer(statement)]
    spans = [*([] if goes_on else [opening]), *(bold if len(bold) == 1 else [])]
    spans += [match.span(1) for match in _AFTER_COLON.finditer(statement)]
    outer = (*repeated[:1], *repeated[-1:], *(_repeated(statement, texts, part) for part in spans))
    return next((option.reading for option in outer if option), None)


def _repeated(statement: str, texts: OptionTexts, span: Span) -> _Occurrence | None:
    """The option whose text is the whole `span` of `statement`, or None."""
    yes_or_no = _YES_OR_NO.match(statement, *span)  # "No, he does not."
    end = yes_or_no.end() if yes_or_no else span[1]
    most_words = max(len(text.core) for text in texts.values()) + 2
    words = list(islice(words_from(statement, span[0], end), most_words))
    cores = (tuple(word.text for word in words), without_article(statement, words)) if words else ()
    fits = [letter for letter, text in texts.items() if text.core in cores]
    if words[:1] and words[0].text in _SUBJECTS and not fits:  # "it is wet" for "The stone is wet"
        own = tuple(word.text for word in words[1:])
        fits = [key for key, text in texts.items() if own[1:] and text.core[1:] == own]
    return _Occurrence(fits[0], words[0].start, words[-1].end) if len(fits) == 1 else None


def read_contained_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The only option that a short statement, or one sentence of an explanation, states."""
    if not texts or len(answer.strip()) > _MAX_READ_CHARACTERS:
        return None
    statement = set_markup_aside(answer).rstrip()
    statement = _OF_LETTER.sub(lambda clause: " " * len(clause[0]), statement)
    statement = PATTERNS["seems"].sub(lambda verb: "is".ljust(len(verb[0])), statement)
    start = _declared_end(answer)
    sentences = _sentences(statement, start)
    is_short = len(sentences) <= (2 if start else 1)
    named = _occurrences(statement, texts, start, len(statement)) if start and not is_short else []
    is_only = len({option.letter for option in named}) == 1
    part = (start, len(statement) if is_short else sentences[0][1])
    stated = _read_statement(statement, texts, part) if is_short or is_only else None
    return stated or _read_explanation(statement, texts)


def _sentences(text: str, start: int = 0) -> list[Span]:
    matches = _SENTENCE.finditer(text, start)
    return [match.span() for match in matches if any(map(str.isalnum, match[0]))]


def _declared_end(answer: str) -> int:
    """The end of the last "the answer is", or 0."""
    return max((match.end() for match in PATTERNS["declares"].finditer(answer)), default=0)


# --- A final value, which is compared as a whole: 6√3 contains √3 and is another value

_VALUE = re.compile(r"[-−√π\\]?[\d√π\\]")
_VALUE_END = re.compile(r"[;\n。]|,(?!\d{3})|\.(?!\d)")
_COMMANDS = (
    (re.compile(r"\\[dt]?frac\s?\{([^{}]*)\}\s?\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\\sqrt\s?(?:\{([^{}]*)\}|(\d))"), r"√\1\2"),
    (re.compile(r"\\pi(?![a-z])"), "π"),
    (re.compile(r"\^?\{?\\circ\}?"), "°"),
    (re.compile(r"\\(?:text|mathrm)"), ""),
    (re.compile(r"^\W*(?:the|an?)\s+(?=\w\w)", re.IGNORECASE), ""),
    (re.compile(r"\^\{?2\}?"), "²"),
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"[\s{}$\\~*_`\"'()]|[.,;:]+$"), ""),
)
_NUMBER = re.compile(r"([-−]?[\d./√π]+)([^\W\d_]*[²³]?)")


def read_final_value(
    answer: str, own: str, marked: Span | None, options: Mapping[Letter, str]
) -> Reading | None:
    """The option that equals the final value of `answer`; `NO_LETTER` if none does.

    The value is `marked`, the content of the last box or answer tag, or follows "the answer is" in
    `own`, the answer with blanks in place of the texts of options after their letters. None if the
    answer has no final value.
    """
    start = _declared_end(own)
    start, end = marked or (start, start + len(_VALUE_END.split(answer[start:], maxsplit=1)[0]))
    value = _normal(answer[start:end])
    if not start or PATTERNS["bracketed"].search(answer, start, end):
        return None
    texts = {letter: _normal(split_option(option)[1]) for letter, option in options.items()}
    fits: list[Letter] = []
    # "Aa" and "AA" may be two options.
    for equal in (str.__eq__, lambda option, own: option.lower() == own.lower(), _equal_numbers):
        fits = fits or [letter for letter, text in texts.items() if equal(text, value)]
    if len(fits) == 1:
        return Reading(fits[0], "option_text", (start, end))
    return NO_LETTER if _VALUE.match(answer, start) else None


def _normal(text: str) -> str:
    normal = fold(text)
    for pattern, plain in _COMMANDS:
        normal = pattern.sub(plain, normal)
    return normal


def _equal_numbers(option: str, value: str) -> bool:
    """True if both are the same number, and at most one of them has a unit."""
    a, b = _NUMBER.fullmatch(option), _NUMBER.fullmatch(value)
    return a is not None and b is not None and a[1] == b[1] and "" in (a[2], b[2])


# --- One statement


def _read_statement(answer: str, texts: OptionTexts, span: Span) -> Reading | None:
    """The only option in a statement that is sure of it."""
    start, end = span
    contrast = PATTERNS["contrast"].search(answer, start, end)
    end = contrast.start() if contrast else end
    reason = _REASON.search(answer, start, end)
    if reason and _occurrences(answer, texts, start, reason.start()):
        end = reason.start()
    occurrences = _occurrences(answer, texts, start, end) or _values(answer, texts, (start, end))
    letters = {occurrence.letter for occurrence in occurrences}
    named = PATTERNS["bracketed"].findall(answer, start, end)
    if len(letters) != 1 or not letters.issuperset(named):
        return None
    alike = _written(
        list(words_from(answer, start, end)), {key: text.core for key, text in texts.items()}, _stem
    )
    first = occurrences[0]
    is_longer = _GOES_ON.match(answer, first.end)
    if is_longer or not all(any(other.is_within(own) for own in occurrences) for other in alike):
        return None  # "homes, workplaces and schools"
    # Words of the option itself deny nothing: "He has no money."
    spans = [(occurrence.start, occurrence.end) for occurrence in occurrences]
    words = blank_spans(answer[:end], spans)
    begin = reason.end() if reason and reason.end() <= first.start else start
    words = words[begin : spans[-1][1]] + _REASON.split(words[spans[-1][1] :], maxsplit=1)[0]
    statement = answer[start:end].rstrip(" \n*\"')")
    is_question = statement.endswith("?") or PATTERNS["question"].match(statement)
    rest = answer[spans[-1][1] : start + len(statement)]
    is_cut_off = statement[-1:].isalnum() and len(rest.split()) > 1
    is_condition = PATTERNS["condition"].search(answer[start : first.start])
    denials = (PATTERNS[denial].search(words) for denial in ("refuses", "wrong"))
    other_values = (  # "AB is 10 cm, and BC is 15 cm"
        PATTERNS["before_value"].search(answer[first.end : word.start])
        for word in words_from(answer, first.end, end)
        if word.text[-1].isdigit() and any(map(str.isdigit, answer[first.start : first.end]))
    )
    is_unsure = is_question or is_cut_off or is_condition or any(denials) or any(other_values)
    return None if is_unsure else first.reading


# --- An explanation of several sentences


def _read_explanation(answer: str, texts: OptionTexts) -> Reading | None:
    """The option in the conclusion of `answer`, in its first sentence if the second one gives the
    reason, in its only sentence with a letter, or in its last one if no other option is named.
    """
    sentences = _sentences(answer)
    while sentences and PATTERNS["offers_help"].match(answer, *sentences[-1]):
        sentences.pop()
    label = answer[slice(*sentences[-2])].strip() if sentences[1:] else ""
    is_item = sentences[1:] and _ITEM.match(answer, sentences[-1][0])
    if not sentences or is_item or (len(label) == 2 and label[0].isalpha()):
        return None  # "… B. The last item of a list"
    last = sentences[-1]
    if so := _SO.search(answer, *last):
        last = (so.end(), last[1])
    if PATTERNS["concludes"].match(answer, *last):
        values = _values(answer, texts, last, concludes=True)
        if values or _occurrences(answer, texts, *last):
            return values[0].reading if values else _read_statement(answer, texts, last)
    reason = _REASON.search(answer, *sentences[0])
    given = _repeated(answer, texts, (reason.end(), sentences[0][1])) if reason else None
    if given or len(sentences) < 2 or PATTERNS["explains"].match(answer, *sentences[1]):
        return given.reading if given else _read_statement(answer, texts, sentences[0])
    is_refused = PATTERNS["refuses"].search(answer)
    if not is_refused and (preferred := _preferred(answer, texts, sentences)):
        return preferred[0].reading if len({option.letter for option in preferred}) == 1 else None
    lettered = [own for own in sentences if PATTERNS["bracketed"].search(answer, *own)]
    if len(lettered) == 1:
        return _read_statement(answer, texts, lettered[0])
    return None if lettered or is_refused else _read_only_option(answer, texts, sentences)


def _read_only_option(answer: str, texts: OptionTexts, sentences: Sequence[Span]) -> Reading | None:
    """The option that ends the last sentence as a value, or the only one that `answer` names: in
    the first one of three sentences, as "The brand is Orion", or at the end of a last clause.

    A last sentence with another value leaves it open: "The sky is blue. The car is black."
    """
    last = sentences[-1]
    doubts = (("wrong", sentences[-2][0]), ("hedges", last[0]))
    is_sure = not any(PATTERNS[doubt].search(answer, start) for doubt, start in doubts)
    final = PATTERNS["names_it"].match(answer, *last)
    if final and (option := _repeated(answer, texts, (final.end(), last[1]))):
        return option.reading
    if is_sure and (values := _values(answer, texts, last, concludes=True)):
        clause = max(answer.rfind(mark, last[0], values[0].start) for mark in (", ", "="))
        return _read_statement(answer, texts, (max(clause + 1, last[0]), last[1]))
    named = _occurrences(answer, texts, 0, last[1])
    inflected = _inflected(answer, list(words_from(answer, 0, last[1])), texts)
    is_only = len({option.letter for option in (*named, *inflected)}) == 1
    is_open = PATTERNS["other_value"].search(answer, *last)
    for option in named if is_only else ():
        start, end = next(own for own in sentences if own[0] <= option.start < own[1])
        before, text = answer[start : option.start], answer[option.start : option.end]
        is_text = (" " in text or len(before.split()) > 1) and not text[-1].isdigit()
        is_explained = len(sentences) < 4 or PATTERNS["cites"].match(answer, *sentences[1])
        is_first = is_text and start == sentences[0][0] and is_explained
        is_end = PATTERNS["clause_end"].match(answer, option.end)
        is_named = is_end and PATTERNS["before_name"].search(before)
        is_stated = (is_first or is_named) and not (is_open or PATTERNS["hedges"].search(before))
        if is_stated or (is_end and is_sure and end == last[1]):
            return _read_statement(answer, texts, (start, end))
    return None


def _preferred(answer: str, texts: OptionTexts, sentences: Sequence[Span]) -> list[_Occurrence]:
    """The options that begin a sentence which calls them better: "Box B more closely …"."""
    return [
        _Occurrence(letter, *own)
        for start, end in sentences
        for letter, text in texts.items()
        if (own := text.match(answer, start)) and PATTERNS["preferred"].match(answer, own[1], end)
    ]


# --- Texts and values of options in a statement

_OF_LETTER = re.compile(r"(?<=\b[A-N]),\s(?:which|that)\b[^,.;\n]*,|\bone by one\b")
_SO = re.compile(r", (?=(?:so|thus|hence|therefore|which leaves|leaving) )")
_ITEM = re.compile(r"\W*[A-N][:)]\s")
_REASON = re.compile(r"(?<=[ ,])(?:because|since|因为|因為)")
_GOES_ON = re.compile(r",[ ](?:\w+|\w[^.;:!?]*,)[ ]and[ ]")
_DETERMINERS = ARTICLES | {"its", "his", "her", "their", "to", "now"}
_SUBJECTS = frozenset(("he", "she", "it", "they"))
_ENDING = re.compile(r"(?<=\w\w)(?:ing|ed|e?s|e)$(?<!\bone)")
_DOUBLED = re.compile(r"(\w)(?=\1$)")
_IN_VALUE = re.compile(r"[\d})]\s?[-−+*/^±]\s?[\\${(]*$")
_LABEL_BEFORE = re.compile(r"(?:\b[A-N]|(?<!\d\s)\b[a-n])[.):][ ][*_\"]*(?:[Tt]he |[Aa]n? )?$")
_AT_END = re.compile(r"[°%]?(?:\s[^\W\d]+){0,2}(?:,?\s(?:to|in|for|from|and)\b\D*)?[^\w√+*/=−-]*$")


def _occurrences(answer: str, texts: OptionTexts, start: int, end: int) -> list[_Occurrence]:
    """The texts of options in `answer[start:end]`, without those inside a longer one."""
    words = list(words_from(answer, start, end))
    forms = {key: own.named for key, own in texts.items()}
    written = _written(words, forms, str)
    stated = [occurrence for occurrence in written if _is_stated(answer, occurrence)]
    stated = stated or _inflected(answer, words, texts)
    return [
        own
        for own in stated
        if not _LABEL_BEFORE.search(answer, max(0, own.start - 9), own.start)
        and not any(own.is_within(other) and not other.is_within(own) for other in stated)
    ]


def _inflected(answer: str, words: Sequence[Word], texts: OptionTexts) -> list[_Occurrence]:
    """The options in other forms at the end of a clause: "nods her head" for "nodding the head".

    Of an option of one word, only the adverb is read: "It moves horizontally".
    """
    forms = {
        letter: core if len(core) > 1 else [f"{word}ly" for word in core]
        for letter, text in texts.items()
        for own in [text.core[1:] if _SUBJECTS.issuperset(text.core[:1]) else text.core]
        for core in [[word for word in own if word not in _DETERMINERS]]
        if text.core[:1] != ("a",)  # "A is closer"
    }
    written = _written([word for word in words if word.text not in _DETERMINERS], forms, _stem)
    several = len({occurrence.letter for occurrence in written}) > 1
    return [
        option for option in written if several or PATTERNS["clause_end"].match(answer, option.end)
    ]


def _written(
    words: Sequence[Word], forms: Mapping[Letter, Sequence[str]], normal: Callable[[str], str]
) -> list[_Occurrence]:
    """The occurrences of the words of options in `words`, compared after `normal`."""
    given = [normal(word.text) for word in words]
    sought = {letter: [normal(word) for word in form] for letter, form in forms.items() if form}
    return [
        _Occurrence(letter, words[first].start, words[first + len(form) - 1].end)
        for letter, form in sought.items()
        for first in range(len(given))
        if given[first : first + len(form)] == form
    ]


def _values(
    answer: str, texts: OptionTexts, span: Span, *, concludes: bool = False
) -> list[_Occurrence]:
    """The values of options in a part of `answer`, of a conclusion only the one at the end.

    Empty if an option has no value (except "None of these") or two options have the same one.
    """
    kept = [
        (letter, text) for letter, text in texts.items() if SETS["no_value"].isdisjoint(text.words)
    ]
    values = {_value(text.words): letter for letter, text in kept}
    if None in values or len(values) < len(kept):
        return []
    words = list(words_from(answer, *span))
    numbers = [word for word in words if _value([word.text])]
    is_whole = len(_sentences(answer)) == 1 or PATTERNS["concludes"].match(answer, *span)
    is_only = is_whole and len(numbers) == 1 and _AT_END.match(answer[numbers[0].end : span[1]])
    written = [
        _Occurrence(values[number], word.start, word.end)
        for word in words
        if (number := _value([word.text])) in values
        and not _LABEL_BEFORE.search(answer, max(0, word.start - 9), word.start)
    ]
    stated = [
        value
        for value in written
        if PATTERNS["before_value"].search(answer[words[0].start : value.start]) or is_only
    ]
    if concludes:
        return [value for value in stated[-1:] if _AT_END.match(answer[value.end : span[1]])]
    return written if stated else []


def _is_stated(answer: str, occurrence: _Occurrence) -> bool:
    """False for a part of a larger value, and for numbers and very short words, unless a word ends
    the sentence: "It goes up."."""
    if _IN_VALUE.search(answer, max(0, occurrence.start - 9), occurrence.start):
        return False
    text = answer[occurrence.start : occurrence.end]
    is_last = re.match(r"\W*?(?:[.!?\n]|$)", answer[occurrence.end :])
    is_word = is_last is not None or not text.isascii()
    return len(text) > 2 or (len(text) > 1 and text.isalpha() and is_word)


def _stem(word: str) -> str:
    return _DOUBLED.sub("", _ENDING.sub("", word))


def _value(words: Sequence[str]) -> str | None:
    """The only number in `words`, in digits, or None."""
    numbers = [NUMBERS.get(word, word) for word in words if word in NUMBERS or word[-1].isdecimal()]
    return numbers[0] if len(numbers) == 1 else None
