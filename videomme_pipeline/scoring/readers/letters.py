"""The letters in a text that may name an option, and the text around each of them."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.answer_words import PATTERNS, SETS, WORD_LETTER, WORDS
from videomme_pipeline.scoring.readers.response_text import Span


@dataclass(frozen=True)
class WrittenLetter:
    """A letter at `start`:`end`, and the surroundings that its role depends on."""

    letter: str
    start: int
    end: int
    is_lower: bool
    clause: str
    """The sentence up to the letter, without the marks that open it ("**(")."""
    tail: str
    """The text after the letter and its option text, without the marks that close them."""
    has_text: bool
    """True if the text of its option follows."""
    enclosed: bool
    quoted: bool
    first: bool
    """True if there are only marks before the clause."""
    last: bool
    """True if there are only marks after the letter and its option text."""

    @cached_property
    def words(self) -> Sequence[str]:
        """The words of the clause in lower case, without elided articles ("l'option")."""
        return [
            word[2:] if word.startswith(("l'", "d'")) else word
            for word in WORDS.findall(self.clause.lower())
        ]

    @cached_property
    def several(self) -> bool:
        """True if another letter is next to it or announced: "A or B", "either A"."""
        before = PATTERNS["another_before"].search(self.clause[-NEAR:])
        after = PATTERNS["another_after"].match(self.tail)
        others = [match[match.lastindex or 0] for match in (before, after) if match]
        return self.words[-1:] == ["either"] or any(o.upper() != self.letter for o in others)

    @cached_property
    def ends_statement(self) -> bool:
        """True if a statement can end with the letter, for example before "because"."""
        return PATTERNS["terminal"].match(self.tail) is not None or self.several

    @cached_property
    def is_statement(self) -> bool:
        """True if nothing is missing after the letter: "C.", "C, because …"."""
        return PATTERNS["statement_done"].match(self.tail) is not None or self.several


NEAR = 60
_LOOK_BACK = 160
_LOOK_AHEAD = 90
"""The characters around a letter that determine its role: a bound keeps the time linear."""
_OPENING = " \t*_`\"'([{<$~>^"
_ENCLOSING = frozenset("([{*_`$<")
_BULLETS = " \t-+*•·#>|~_`\"'([{<$"
_CLOSING = " \n.!?)]}*_`\"'"
_CLOSERS = re.compile(r"(?:[ \t]?[*_`\"')\]}>$~^]){0,8}")  # matches everywhere
_SENTENCE_END = re.compile(
    r"[.!?|\n](?<!\b(?:Dr|Mr|Ms|St|vs)\.)(?<!\bMrs\.)(?<!e\.g\.)(?!(?<=\.)g\.)", re.IGNORECASE
)

_ANNOUNCING = SETS["answer_nouns"] | SETS["option_nouns"] | SETS["copulas"] | {"assistant"}


def find_letters(
    text: str, letters: Sequence[Letter], texts: Mapping[int, Span]
) -> Iterator[WrittenLetter]:
    """The letters in `text`, in order. Letters that the question does not offer are included.

    `texts` are the spans of option texts by the position of their letter, as `labelled_texts` finds
    them. They are blank in `text`.
    """
    matches = list(_pattern(tuple(letters)).finditer(text))
    lower = text.lower()
    if any(mark in lower for mark in ("option", "choice", "第")):
        matches = sorted((*matches, *_ORDINAL.finditer(text)), key=re.Match.start)
    begins, ends = len(text) - len(text.lstrip(_BULLETS + "\n")), len(text.rstrip(_CLOSING))
    sentences = sentence_ends(text)
    for match in matches:
        start, end = match.span()
        own_text = texts.get(start)
        clause, gap = _clause_before(text, sentences, start)
        closed = next(_CLOSERS.finditer(text, end)).end() if gap.strip() else end
        after = next(_CLOSERS.finditer(text, own_text[1])).end() if own_text else closed
        yield WrittenLetter(
            letter=_named(match, letters),
            start=start,
            end=end,
            is_lower=match.lastgroup == "lower",
            clause=clause,
            tail=text[after : after + _LOOK_AHEAD],
            has_text=own_text is not None,
            enclosed=closed > end and not _ENCLOSING.isdisjoint(gap),
            quoted='"' in gap and "(" not in gap,
            first=start - len(clause) - len(gap) <= begins,
            last=after >= ends,
        )


def sentence_ends(text: str) -> list[int]:
    """The positions after the ends of the sentences and lines in `text`."""
    return [match.end() for match in _SENTENCE_END.finditer(text)]


def _sentence_start(ends: Sequence[int], position: int) -> int:
    """The start of the sentence at `position`, at most `_LOOK_BACK` characters earlier."""
    index = bisect_right(ends, position)
    return max(ends[index - 1] if index else 0, position - _LOOK_BACK)


@cache
def _pattern(letters: tuple[Letter, ...]) -> re.Pattern[str]:
    """A pattern for every letter that may name an option.

    It never matches a letter inside a word, in an abbreviation, in initials or in a unit, or a
    letter with a subscript or a power. The pronoun "I" counts only if the question offers the
    letter and no word follows. The letter comes first, so that all other characters are skipped.
    """
    offered = "".join(letters).lower()
    lower = "".join(sorted({*"bcdfgh", *offered} - {*_LOWER_WORDS}))
    glued = f"A-H{offered.upper()}"
    word_letter = WORD_LETTER
    pronoun = rf"|(?<=I)(?![ \t]+[{word_letter}])" if "i" in offered else ""
    lower_words = "".join({*"ae", *offered} & {*_LOWER_WORDS})
    return re.compile(
        rf"""
        [A-Z{lower}{lower_words}](?![{word_letter}])
        (?: (?<![{word_letter}&@\\°\#].)
            (?: (?P<upper>(?<=[A-HJ-WYZ]){pronoun})  # X is a placeholder in prompts
              | (?P<lower>(?<=[{lower}])
                | (?<=[{lower_words}])(?![ \t]+[{word_letter}]) | (?<=option\ [{lower_words}])) )
            (?<![{word_letter}]'.) (?<!\b[A-Za-z][./].) (?<![_^]{{.)
            (?: (?<![{word_letter}]-.) | (?<=nswer-.) | (?<=ption-.) )
            (?![&@°\#+]|[_^](?:[0-9A-Za-z]|[ ]*{{)|\(-?\d+,|(?<=[a-z])\(-?\d) (?!'[{word_letter}])
            (?!\.[ ]?[A-Z](?![A-Za-z])\.|\.[A-Za-z](?![A-Za-z])) (?!:[\\/])
            (?!-(?:[{word_letter}]|\s*$))
            (?!(?<=\b[A-Z]\.[ ][A-Z])\.[ ][A-Z][a-z])  # initials of a name
          | (?P<glued>(?<=\b[iI]s[{glued}]) | (?<=nswer[{glued}]) | (?<=ption[{glued}])) (?!') )
        """,
        re.VERBOSE,
    )


_LOWER_WORDS = "aei"
"""Letters that are words in lower case."""
_FIRST = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_ONE = ("one", "two", "three", "four", "five", "six", "seven", "eight")
_ORDERED = (_FIRST, _ONE, "一二三四五六七八", [*map(str, range(1, 15))])
_NUMBERS = {word: index for words in _ORDERED for index, word in enumerate(words)}
_ORDINAL = re.compile(
    rf"""\b(?P<first>{"|".join(_FIRST)}|last)\s(?:option|choice)\b(?!\sthat\b)
    |\b(?:option|choice)\s\#?(?P<one>{"|".join(_ONE)}|1[0-4]|[1-9])\b(?!:[ ]*\n)
    |第(?P<cjk>[一二三四五六七八1-9])(?:个|個)?(?:选项|選項|项|項)""",
    re.IGNORECASE | re.VERBOSE,
)


def _clause_before(text: str, sentences: Sequence[int], start: int) -> tuple[str, str]:
    """The part of the sentence before `start`, and the marks between it and the letter.

    A letter on its own line belongs to the line above if that line announces an answer
    ("### Answer", "The best answer is").
    """
    words_end = start
    while words_end > 0 and text[words_end - 1] in _OPENING:
        words_end -= 1
    clause_start = _sentence_start(sentences, words_end)
    gap = text[words_end:start]
    clause = text[clause_start:words_end].lstrip(_BULLETS)
    if clause.endswith(("-", "=")) and gap.startswith(">"):
        clause += ">"
    clause += " " if clause and gap else ""
    is_noun = clause.strip().lower() in SETS["option_nouns"]  # "is:\nOption C"
    if (clause and not is_noun) or (clause_start > 0 and text[clause_start - 1] != "\n"):
        return clause, gap
    above = _announcement(text[max(0, clause_start - _LOOK_BACK) : clause_start])
    return f"{above} {clause}" if above and clause else above or clause, gap


def _named(match: re.Match[str], letters: Sequence[Letter]) -> str:
    """The letter that a match of `_pattern` or `_ORDINAL` ("the second option") names."""
    if match.lastgroup in ("upper", "lower", "glued"):
        return match[0].upper()
    word = str(match["first"] or match["one"] or match["cjk"]).lower()
    index = len(letters) - 1 if word == "last" else _NUMBERS[word]
    return chr(ord("A") + index)


_NAMED = re.compile(rf"^[A-N]\)|(?<![{WORD_LETTER}])[A-N][*_)\]]*:$")
"""A line that has the letter itself: "B) Red (an option)", "The correct answer is B:"."""


def _announcement(above: str) -> str:
    """The last line of `above` if it announces what follows, otherwise ""."""
    line = above.rstrip("\n" + _OPENING + "#")
    line = line[_sentence_start(sentence_ends(line), len(line)) :].strip(_BULLETS)
    words = WORDS.findall(line.lower())
    is_open = words[-2:] in (["is", ":"], ["be", ":"], ["was", ":"])
    if _NAMED.search(line) or not words or (len(words) > 8 and not is_open):
        return ""
    if not SETS["listing"].isdisjoint(words):
        return line.rstrip(":=")
    if line.endswith((":", "=")):
        return line
    announces = words[-1] in _ANNOUNCING or PATTERNS["announces_unspaced"].search(words[-1])
    return f"{line}:" if announces else ""
