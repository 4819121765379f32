"""Answers that state an option without its letter."""

import re

from videomme_pipeline.scoring.readers import answer_words as words_of
from videomme_pipeline.scoring.readers.option_occurrences import (
    Occurrence,
    find_occurrences,
    find_values,
    names_activity,
)
from videomme_pipeline.scoring.readers.option_texts import (
    OptionTexts,
    without_article,
    words_from,
)
from videomme_pipeline.scoring.readers.reading import Reading
from videomme_pipeline.scoring.readers.response_text import Span, blank_spans, set_markup_aside

_LONGEST_READ = 3_000
_LONGEST_STATEMENT = 300
_LONGEST_GAP = 4
_STATES_TEXT = re.compile(
    r"\b(?:answer|option|choice)\b[^.:\n]{0,60}?(?:\bis\b|:|=)|\\boxed\s?\{|<answer>"
    r"|(?:答案|选项|正解|정답)[^\n]{0,4}?[是为:は은]",
    re.IGNORECASE,
)
_DECLARES = re.compile(
    r"\b(?:answer|(?:best|correct|right)\s(?:option|choice))\b[^.:\n]{0,60}?(?:\bis\b|:|=)[\W_]*?"
    r"(?P<number>\b\d{1,2}[.)][\W_]{1,4})?(?=[^\W_])",
    re.IGNORECASE,
)
"""The words before an option that is declared, also with its number: "Answer: 2) Pears"."""
_DECLARED_END = re.compile(r"[*_`\"')\]]*(?:[.!][*_`\"')\]]*(?:\s|$)|[ \t]*(?:\n|$))")
_SENTENCE = re.compile(rf"(?:[^.!?\n]|\.(?=[{words_of.WORD_LETTER}]))+[.!?\n]?")
_YES_OR_NO = re.compile(r"\W*(?:yes|no)(?=[ ]*[,.;!\n])", re.IGNORECASE)


def read_repeated_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The option whose text is all of `answer`, or all of its part after "the answer is"."""
    statement = set_markup_aside(answer)
    for start in _starts(answer) if texts else ():
        if len(statement) - start > _LONGEST_READ:
            continue
        yes_or_no = _YES_OR_NO.match(statement, start)  # "No, he does not."
        end = yes_or_no.end() if yes_or_no else len(statement)
        words = list(words_from(statement, start, end))
        given = without_article(tuple(word.text for word in words))
        fits = [letter for letter, text in texts.items() if given and text.core == given]
        if len(fits) == 1:
            return Occurrence(fits[0], words[0].start, words[-1].end).reading
    return None


def read_declared_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The option whose text is the line or the sentence after the last "the answer is"."""
    statement = set_markup_aside(answer)
    declared = list(_DECLARES.finditer(statement))[-1:] if texts else []
    starts = {start for mark in declared for start in (mark.end(), mark.start("number"))} - {-1}
    fits = [
        Occurrence(letter, *span)
        for start in starts
        for letter, text in texts.items()
        if (span := text.match(statement, start))
        and span[0] - start <= _LONGEST_GAP
        and _DECLARED_END.match(statement, span[1])
    ]
    return fits[0].reading if len(fits) == 1 else None


def read_contained_option(answer: str, texts: OptionTexts) -> Reading | None:
    """The only option that a short statement, or the conclusion of an explanation, states."""
    if not texts or len(answer.strip()) > _LONGEST_READ:
        return None
    statement = set_markup_aside(answer).rstrip()
    start = _starts(answer)[0]
    if len(statement) - start <= _LONGEST_STATEMENT:
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
    occurrences = find_occurrences(answer, texts, start, end)
    occurrences = occurrences or find_values(answer, texts, start, end)
    if len({occurrence.letter for occurrence in occurrences}) != 1:
        return None
    # Words of the option itself deny nothing: "He has no money."
    spans = [(occurrence.start, occurrence.end) for occurrence in occurrences]
    words = blank_spans(answer[:end], spans)[start:]
    is_question = answer[:end].rstrip(" \n*\"')").endswith("?")
    doubts = (words_of.REFUSAL, words_of.WRONG, words_of.CONDITION)
    is_doubtful = is_question or any(doubt.search(words) for doubt in doubts)
    is_doubtful = is_doubtful or names_activity(words, texts, occurrences[0].letter)
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
