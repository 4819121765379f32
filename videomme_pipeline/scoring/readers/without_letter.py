"""Answers that state an option by its text or value, without its letter."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from videomme_pipeline.benchmarks.question import Letter, split_option
from videomme_pipeline.scoring.readers.answer_words import NUMBERS, PATTERNS, SETS, WORD_LETTER
from videomme_pipeline.scoring.readers.option_texts import (
    OptionText,
    OptionTexts,
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
_NEAR = 60
_PARAGRAPH = re.compile(r"\S(?:[^\n]|\n(?!\s*\n))*")
_SENTENCE = re.compile(rf"(?:[^.!?\n]++|\.(?=[{WORD_LETTER}]))+(?:[.!?][*\"')]*|\n)?")
_AFTER_COLON = re.compile(r"\w\w:[ ]([^:\n]+)(?<!,)\Z")
_BOLD = re.compile(r"\*\*([^*\n]+)(?<!:)\*\*(?!:)")
_YES_OR_NO = re.compile(r"\W*(?:yes|no)(?=[ ]*[,.;!\n])", re.IGNORECASE)


class _Occurrence(NamedTuple):
    """The text or the value of option `letter` at `start`:`end` of an answer."""

    letter: Letter
    start: int
    end: int

    @property
    def reading(self) -> Reading:
        return Reading(self.letter, "option_text", (self.start, self.end))


def read_repeated_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The option that is all of an outer paragraph, of the first sentence, of the only bold text,
    or of the text after the last colon.

    Paragraphs or sentences that repeat several options are a list.
    """
    statement = set_markup_aside(answer)
    if not texts or not statement.strip():
        return None
    repeated = [_repeated(statement, texts, own.span()) for own in _PARAGRAPH.finditer(statement)]
    sentences = [_repeated(statement, texts, sentence) for sentence in _sentences(statement)]
    if len({option.letter for option in (*repeated, *sentences) if option}) > 1:
        return NO_LETTER
    bold = [match.span(1) for match in _BOLD.finditer(statement)]
    parts = bold if len(bold) == 1 else []
    parts += [match.span(1) for match in _AFTER_COLON.finditer(statement)]
    marked = (_repeated(statement, texts, part) for part in parts)
    outer = (*repeated[:1], *repeated[-1:], *sentences[:1], *marked)
    return next((option.reading for option in outer if option), None)


def _repeated(statement: str, texts: OptionTexts, span: Span) -> _Occurrence | None:
    """The option whose text is the whole `span` of `statement`, or None."""
    yes_or_no = _YES_OR_NO.match(statement, *span)  # "No, he does not."
    end = yes_or_no.end() if yes_or_no else span[1]
    most_words = max(len(text.core) for text in texts.values()) + 4
    words = list(islice(words_from(statement, span[0], end), most_words))
    cores = (tuple(word.text for word in words), without_article(statement, words)) if words else ()
    fits = [letter for letter, text in texts.items() if text.core in cores]
    content = _content(cores[-1]) if cores and not fits else ()
    if content and content[-1] == _stem(words[-1].text):
        fits = [letter for letter, text in texts.items() if _content(text.core) == content]
    return _Occurrence(fits[0], words[0].start, words[-1].end) if len(fits) == 1 else None


def read_contained_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The only option that a short statement, or one sentence of an explanation, states."""
    if not texts or len(answer.strip()) > _MAX_READ_CHARACTERS:
        return None
    idle = (part.span() for part in PATTERNS["idle"].finditer(answer))
    statement = set_markup_aside(blank_spans(answer, idle)).rstrip()
    for option in _occurrences(statement, texts, 0, len(statement)):
        near = (max(0, option.start - _NEAR), option.start)
        if denial := PATTERNS["negates"].search(statement, *near):
            statement = blank_spans(statement, [(denial.start(), option.end)])
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
    parts = reversed(_sentences(answer))  # most texts have it near their end
    declared = ([*PATTERNS["declares"].finditer(answer, a, b + _NEAR)] for a, b in parts)
    return next((own[-1].end() for own in declared if own), 0)


# --- A final value, which is compared as a whole: 6√3 contains √3 and is another value

_VALUE = re.compile(r"[-−√π\\]?[\d√π\\]")
_VALUE_END = re.compile(r"[;\n。]|,(?!\d{3})|\.(?!\d)")
_LATEX = (
    (re.compile(r"\\[dt]?frac\s?\{([^{}]*)\}\s?\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\\sqrt\s?(?:\{([^{}]*)\}|(\d))"), r"√\1\2"),
    (re.compile(r"\\pi(?![a-z])"), "π"),
    (re.compile(r"\^?\{?\\circ\}?"), "°"),
    (re.compile(r"\\(?:text|mathrm)"), ""),
)
_MARKS = (
    (re.compile(r"^\W*(?:the|an?)\s+(?=\w\w)", re.IGNORECASE), ""),
    (re.compile(r"\^\{?2\}?"), "²"),
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"[\s{}$\\~*_`\"'()]|[.,;:]+$"), ""),
)
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(NUMBERS)})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?:(?!sqrt|frac)[A-Za-z]{4,})?([-−]?[\d./√π]+)([^\W\d_]*[²³]?)")


def read_final_value(
    answer: str, own: str, marked: Span | None, options: Mapping[Letter, str]
) -> Reading | None:
    """The option that equals the final value of `answer`; `NO_LETTER` if none does.

    The value is `marked`, the content of the last box or answer tag, or follows "the answer is" in
    `own`, the answer with blanks in place of the texts of options after their letters. None if the
    answer has no final value.
    """
    start = marked[0] if marked else _declared_end(own)
    end = marked[1] if marked else start + len(_VALUE_END.split(answer[start:], maxsplit=1)[0])
    value = _normal(answer[start:end])
    if not start or PATTERNS["bracketed"].search(answer, start, end):
        return None
    texts = {letter: _normal(split_option(option)[1]) for letter, option in options.items()}
    fits: list[Letter] = []
    # "Aa" and "AA" may be two options.
    for equal in (str.__eq__, lambda option, own: option.lower() == own.lower(), _equal_numbers):
        fits = fits or [letter for letter, text in texts.items() if equal(text, value)]
    if len(fits) == 1:
        others = (OptionText.of(option, letter) for letter, option in options.items())
        is_list = answer[end : end + 1] == "," and any(own.match(answer, end) for own in others)
        return NO_LETTER if is_list else Reading(fits[0], "option_text", (start, end))
    return NO_LETTER if _VALUE.match(answer, start) else None


def _normal(text: str) -> str:
    normal = _NUMBER_WORD.sub(lambda word: NUMBERS[word[0].lower()], fold(text))
    for pattern, plain in (*_LATEX, *_MARKS) if "\\" in normal else _MARKS:
        normal = pattern.sub(plain, normal)
    return normal


def _equal_numbers(option: str, value: str) -> bool:
    """True if both are the same number ("Platform 9" is 9), and at most one of them has a unit."""
    a, b = _NUMBER.fullmatch(option), _NUMBER.fullmatch(value)
    return a is not None and b is not None and a[1] == b[1] and "" in (a[2], b[2])


# --- One statement


def _read_statement(answer: str, texts: OptionTexts, span: Span) -> Reading | None:
    """The only option in a statement that is sure of it."""
    start, end = span
    options = _occurrences(answer, texts, start, end)
    ends = (mark.start() for mark in PATTERNS["contrast"].finditer(answer, start, end))
    end = next((own for own in ends if any(option.end <= own for option in options)), end)
    occurrences = [own for own in options if own.end <= end] or _values(answer, texts, (start, end))
    letters = {occurrence.letter for occurrence in occurrences}
    named = PATTERNS["bracketed"].findall(answer, start, end)
    if len(letters) != 1 or not letters.issuperset(named):
        return None
    first = occurrences[0]
    is_longer = _GOES_ON.match(answer, first.end)
    if is_longer or _hints_at_another(answer[start:end], texts, first.letter):
        return None  # "homes, workplaces and schools"
    # Words of the option itself deny nothing: "He has no money."
    words = blank_spans(answer[:end], ((own.start, own.end) for own in occurrences))
    reason = PATTERNS["reason"].search(answer, start, first.start)
    words = words[reason.end() if reason else start :]
    statement = answer[start:end].rstrip(" \n*\"')")
    is_question = statement.endswith(("?", ":")) or PATTERNS["question"].match(statement)
    rest = answer[occurrences[-1].end : start + len(statement)]
    is_cut_off = answer[: span[1]].rstrip()[-1:].isalnum() and len(rest.split()) > 1
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
    is_conclusion = False
    while sentences and PATTERNS["offers_help"].match(answer, *sentences[-1]):
        is_conclusion = PATTERNS["concludes"].match(answer, *sentences.pop()) is not None
    label = answer[slice(*sentences[-2])].strip() if sentences[1:] else ""
    if not sentences or (len(label) == 2 and label[0].isalpha()):
        return None  # "… B. The last item of a list"
    last = sentences[-1]
    if so := PATTERNS["so"].search(answer, *last):
        last = (so.end(), last[1])
    if is_conclusion or PATTERNS["concludes"].match(answer, *last):
        values = _values(answer, texts, last, concludes=True)
        if values or _occurrences(answer, texts, *last):
            return values[0].reading if values else _read_statement(answer, texts, last)
    reason = PATTERNS["reason"].search(answer, *sentences[0])
    given = _repeated(answer, texts, (reason.end(), sentences[0][1])) if reason else None
    first = given.reading if given else _read_statement(answer, texts, sentences[0])
    named = [own for own in sentences if PATTERNS["answers"].search(answer, *own)]
    answers = {read.letter for own in named if (read := _read_statement(answer, texts, own))}
    is_reasoned = reason and not answer.rstrip()[-1:].isalnum()
    is_answer = is_reasoned or (named[:1] == sentences[:1] and len(answers) == 1)
    is_explained = sentences[1:] and PATTERNS["explains"].match(answer, *sentences[1])
    if given or (first and is_answer) or is_explained or len(sentences) < 2:
        return first
    is_refused = PATTERNS["refuses"].search(answer)
    lettered = [own for own in sentences if PATTERNS["bracketed"].search(answer, *own)]
    if len(lettered) == 1:
        return _read_statement(answer, texts, lettered[0])
    return None if lettered or is_refused else _read_only_option(answer, texts, sentences)


def _read_only_option(answer: str, texts: OptionTexts, sentences: Sequence[Span]) -> Reading | None:
    """The option that ends the last sentence as a value, or the only one that `answer` names: in
    the first sentence, as "The brand is Orion", or at the end of a last clause. More than three
    sentences must name it in the last one, too.

    A last sentence with another value leaves it open: "The sky is blue. The car is black."
    """
    last = sentences[-1]
    doubts = (("wrong", sentences[-2][0]), ("story", last[0]))
    is_sure = not any(PATTERNS[doubt].search(answer, start) for doubt, start in doubts)
    if is_sure and (values := _values(answer, texts, last, concludes=True)):
        clause = max(answer.rfind(mark, last[0], values[0].start) for mark in (", ", "="))
        return _read_statement(answer, texts, (max(clause + 1, last[0]), last[1]))
    named = _occurrences(answer, texts, 0, last[1])
    is_only = len({option.letter for option in named}) == 1
    is_open = PATTERNS["other_value"].search(answer, *last)
    is_brief = len(sentences) < 4 or (named and named[-1].start >= last[0])
    spans = dict[Span, None]()
    for option in named if is_only else ():
        start, end = next(own for own in sentences if own[0] <= option.start < own[1])
        before, text = answer[start : option.start], answer[option.start : option.end]
        is_text = (" " in text or len(before.split()) > 1) and not text[-1].isdigit()
        is_first = is_text and is_brief and start == sentences[0][0]
        is_item = _LIST_MARK.search(answer, 0, start)
        is_end = not is_item and PATTERNS["clause_end"].match(answer, option.end)
        is_named = is_end and PATTERNS["before_name"].search(before)
        is_named = is_named or PATTERNS["affirmed"].match(answer, option.end)
        is_stated = (is_first or is_named) and not (is_open or PATTERNS["story"].search(before))
        if is_stated or (is_end and is_sure and end == last[1]):
            spans[start, end] = None
    return next(filter(None, (_read_statement(answer, texts, span) for span in spans)), None)


# --- Texts and values of options in a statement

_GOES_ON = re.compile(r",[ ](?:\w+|\w[^.;:!?]*,)[ ]and[ ]")
_BREAK = re.compile(r"[.!?;:\n](?!\d)")
_ENDING = re.compile(r"(?<=\w\w)(?:ing|ed|e?s|e)$(?<!\bone)")
_DOUBLED = re.compile(r"([^\W\d])(?=\1$)")
_IN_VALUE = re.compile(r"[\d})]\s?[-−+*/^±]\s?[\\${(]*$")
_AT_END = re.compile(r"[°%]?(?:\s[^\W\d]+){0,2}(?:,?\s(?:to|in|for|from|and)\b\D*)?[^\w√+*/=−-]*$")


def _occurrences(answer: str, texts: OptionTexts, start: int, end: int) -> list[_Occurrence]:
    """The texts of options in `answer[start:end]`, without those inside a longer one.

    Other forms of the words count, and a few words between them: "nods her head" for "nodding".
    """
    forms = _forms(texts)
    ends = {f"{form[-1]}ly": form[-1] for form in forms.values() if form}
    words = list(words_from(answer, start, end))
    stems = [_stem(word.text) for word in words]
    for index, stem in enumerate(stems):
        if stem in ends and PATTERNS["clause_end"].match(answer, words[index].end):
            stems[index] = ends[stem]
    stated = [
        own
        for letter, form in forms.items()
        for first, last in _in_order(form, stems)
        for own in [_Occurrence(letter, words[first].start, words[last].end)]
        if _is_stated(answer, own)
        and not _BREAK.search(answer, words[first].end, words[last].start)
    ]
    longer = {
        letter: [own for own in stated if {*form} < {*forms[own.letter]}]
        for letter, form in forms.items()
    }
    return [
        own
        for own in stated
        if not PATTERNS["label_before"].search(answer, max(0, own.start - 9), own.start)
        and not any(other.start <= own.start < other.end for other in longer[own.letter])
    ]


@lru_cache(maxsize=10_000)
def _content(words: tuple[str, ...]) -> tuple[str, ...]:
    """The stems of `words` that a sentence with the same meaning does not leave out.

    A first or last "a" is a name: "A is closer", "Vitamin A".
    """
    names = (0, len(words) - 1)
    return tuple(
        stem
        for index, stem in enumerate(map(_stem, words))
        if stem not in _LEFT_OUT or (stem == "a" and index in names)
    )


def _forms(texts: OptionTexts) -> Mapping[Letter, Sequence[str]]:
    """The stems by which each option is found: those of its content and of a first preposition, or
    all if another option has the same content."""
    contents = {letter: _content(text.named) for letter, text in texts.items()}
    counts = Counter(contents.values())
    return {
        letter: (*SETS["prepositions"].intersection(texts[letter].named[:1]), *content)
        if content and counts[content] == 1
        else tuple(map(_stem, texts[letter].named))
        for letter, content in contents.items()
    }


def _in_order(form: Sequence[str], stems: Sequence[str]) -> Iterator[Span]:
    """The first and the last index of `form` in `stems`, with at most two words between."""
    for first in (index for index, stem in enumerate(stems) if stem in form[:1]):
        last, between = first, 0
        for sought in form[1:]:
            last += 1
            while last < len(stems) and stems[last] != sought and between <= _MAX_BETWEEN:
                between += _COSTS.get(stems[last], 1)
                last += 1
            if last == len(stems) or between > _MAX_BETWEEN:
                break
        else:
            yield first, last


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
        and not PATTERNS["label_before"].search(answer, max(0, word.start - 9), word.start)
    ]
    stated = [
        value
        for value in written
        if PATTERNS["before_value"].search(answer[words[0].start : value.start]) or is_only
    ]
    if concludes:
        return [value for value in stated[-1:] if _AT_END.match(answer[value.end : span[1]])]
    return written if stated else []


def _hints_at_another(statement: str, texts: OptionTexts, letter: Letter) -> bool:
    """True if `statement` has at least two words of another option that option `letter` lacks, or
    the only one: "He pushes the cart and then pulls it"."""
    given = {_stem(own.text) for own in words_from(statement) if own.text not in SETS["copulas"]}
    forms = _forms(texts)
    others = [{*form} - {*forms[letter]} - _LEFT_OUT for form in forms.values()]
    return any(own and len(own & given) >= min(2, len(own)) for own in others)


def _is_stated(answer: str, occurrence: _Occurrence) -> bool:
    """False for a part of a value and for very short texts, except a last word: "It goes up."."""
    start, end = occurrence.start, occurrence.end
    is_part = _IN_VALUE.search(answer, max(0, start - 9), start)
    text = answer[start:end]
    is_word = not text.isascii() or re.match(r"\W*?(?:[.!?\n]|$)", answer[end : end + _NEAR])
    return not is_part and (len(text) > 2 or (len(text) > 1 and text.isalpha() and bool(is_word)))


@lru_cache(maxsize=10_000)
def _stem(word: str) -> str:
    return _DOUBLED.sub("", _ENDING.sub("", word))


_LEFT_OUT = frozenset(map(_stem, SETS["left_out"] | SETS["prepositions"]))
_MAX_BETWEEN = 2
# Between the words of an option, these count as no word, and a denial as too many.
_COSTS = dict.fromkeys(_LEFT_OUT, 0) | dict.fromkeys(("not", "no", "never", "t"), 9)
_LIST_MARK = re.compile(r"\n\W*\d+[.)]\s*\Z")


def _value(words: Sequence[str]) -> str | None:
    """The only number in `words`, in digits, or None."""
    numbers = [NUMBERS.get(word, word) for word in words if word in NUMBERS or word[-1].isdecimal()]
    return numbers[0] if len(numbers) == 1 else None
