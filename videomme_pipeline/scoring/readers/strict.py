"""The default reader: the letter that a careful person reads, or none.

It finds every letter that may be an answer, determines its role from the words around it, and
decides by the strongest role. Reasoning and markup are removed first, by `response_text`. No rule
may depend on a model, a benchmark or a question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers import answer_words as words_of
from videomme_pipeline.scoring.readers.reading import Reading
from videomme_pipeline.scoring.readers.response_text import (
    fold,
    set_markup_aside,
    set_reasoning_aside,
)


class Role(IntEnum):
    """The role of a letter; a greater role wins."""

    MENTION = 0
    """Not an answer: an article, a name, a negated or doubted option."""
    NAMED = 1
    """For example "Option C" or "(C)" in a statement that does not call it the answer."""
    LABEL = 2
    """For example "C. Berries"."""
    ALONE = 3
    """For example "C" on its line."""
    CHOSEN = 4
    """For example "I choose C", "C is correct" or "hence C"."""
    DECLARED = 5
    """For example "The answer is C"."""


_RULES = {
    Role.NAMED: "named",
    Role.LABEL: "label",
    Role.ALONE: "alone",
    Role.CHOSEN: "chosen",
    Role.DECLARED: "declared",
}


def read_strict(response: str, letters: Sequence[Letter], options: Sequence[str], /) -> Reading:
    """The letter that a careful person reads in `response`.

    Rules that read a letter, strongest first: `answer_tag` (<answer>, \\boxed{} and the like),
    `declared` ("the answer is C", in all languages of `answer_words`), `chosen` ("I choose C",
    "C is correct", "hence C"), `alone` (a line or the whole response is the letter), `label`
    ("C. Berries"), `named` ("Option C", "berries (C)"), `option_text` (the text of exactly one
    option without its letter; only if the options are known). Among declarations the last one
    counts. After "wait", "actually" and similar words only the text after them counts.

    Rules that read none: `empty`, `reasoning_only` (cut off before the answer), `error_text`,
    `refusal`, `several_letters` ("A or B"), `letter_not_offered` ("G" for four options),
    `withdrawn` ("The answer is A. Wait, no."), `no_letter`.

    Never read: articles ("A man"), names ("vitamin C", "plan B"), letters inside words, negated
    letters ("not A"), questions ("A?") and conditions ("if the answer is A").
    """
    folded = fold(response)
    settled = _read_as_a_whole(folded, letters)
    if settled is not None:
        return settled
    answer = set_reasoning_aside(folded)[-_LONGEST_READ:].rjust(len(folded))
    if not answer.strip():
        # The response was cut off inside its reasoning. A closed answer tag still counts.
        tagged = _read_answer_tag(folded, letters)
        return tagged or Reading(letter=None, rule="reasoning_only", span=None)
    reading = _read_answer_tag(answer, letters) or _read_text(set_markup_aside(answer), letters)
    if reading.letter is None and reading.rule == "no_letter":
        return _read_option_text(answer, letters, options) or _why_none(answer)
    return reading


def _read_as_a_whole(text: str, letters: Sequence[Letter]) -> Reading | None:
    """The reading of a text that needs no analysis of its words; None for most texts."""
    if not text.strip():
        return Reading(letter=None, rule="empty", span=None)
    repeated = _REPEATED_LETTER.fullmatch(text)
    if repeated:
        return _offered(repeated[1].upper(), repeated.span(1), "alone", letters)
    if _SEVERAL_LETTERS.fullmatch(text):
        return Reading(letter=None, rule="several_letters", span=None)
    if words_of.ERROR_TEXT.match(text):
        return Reading(letter=None, rule="error_text", span=None)
    return None


_LONGEST_READ = 100_000
"""Only this many characters, counted from the end, are read. Answers are much shorter."""


def _why_none(answer: str) -> Reading:
    refused = words_of.REFUSAL.search(answer)
    rule = "refusal" if refused else "no_letter"
    return Reading(letter=None, rule=rule, span=refused.span() if refused else None)


def _offered(letter: str, span: tuple[int, int], rule: str, letters: Sequence[Letter]) -> Reading:
    if letter in letters:
        return Reading(letter=Letter(letter), rule=rule, span=span)
    return Reading(letter=None, rule="letter_not_offered", span=span)


_BETWEEN = r"(?:(?![✓✔✅☑✗❌✘✖])[\W_])*+"
_REPEATED_LETTER = re.compile(
    r"[\W_]*+([A-Za-z])(?:[\W_]*+\1)*+(?!-)(?:(?![+#°])[\W_])*+", re.IGNORECASE
)
_SEVERAL_LETTERS = re.compile(rf"(?!A:)(?:{_BETWEEN}[A-H](?!\w))++{_BETWEEN}")
"""Only letters and marks, with more than one letter: "(A)(C)", "B > D > A"."""


# --- Answer tags


_ANSWER_TAG = re.compile(
    r"<(?:answer|final|final_answer|finalanswer|ans)(?:\s[^<>]{0,80})?>"
    r"|\\(?:boxed|fbox)\s{0,4}\{|<\|begin_of_box\|>|<\|answer\|>",
    re.IGNORECASE,
)
_TAG_END = re.compile(
    r"</(?:answer|final|final_answer|finalanswer|ans)\s*>|<\|end_of_box\|>|<\|/answer\|>",
    re.IGNORECASE,
)
_BRACE = re.compile("[{}]")
_LONGEST_TAGGED = 2_000


def _read_answer_tag(text: str, letters: Sequence[Letter]) -> Reading | None:
    """The reading of the last answer tag that is not empty, or None if no letter is in it."""
    if "<" not in text and "\\" not in text:
        return None
    for tag in reversed(list(_ANSWER_TAG.finditer(text))[-3:]):
        start, end = tag.end(), _tag_end(text, tag)
        content = set_markup_aside(text[start:end])
        if not content.strip(" \t\n._"):
            continue
        reading = _read_text(content, letters)
        if reading.rule == "no_letter":
            return None
        span = reading.span and (reading.span[0] + start, reading.span[1] + start)
        rule = "answer_tag" if reading.letter else reading.rule
        return Reading(letter=reading.letter, rule=rule, span=span)
    return None


def _tag_end(text: str, tag: re.Match[str]) -> int:
    limit = min(len(text), tag.end() + _LONGEST_TAGGED)
    if not tag.group().endswith("{"):
        closing = _TAG_END.search(text, tag.end(), limit)
        return closing.start() if closing else limit
    depth = 1
    for brace in _BRACE.finditer(text, tag.end(), limit):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return limit


# --- Letters and their surroundings


@dataclass(frozen=True, slots=True)
class _Found:
    """A letter that may be an answer, with its role. Its span is `start`:`end`."""

    letter: str
    start: int
    end: int
    role: Role
    several: bool = False
    """True if it is next to another letter: "A or B"."""


_LETTER = re.compile(
    rf"""
    (?!(?<=\b[A-Z]\.[ ])[A-Z]\.[ ][A-Z][a-z])  # initials of a name
    (?<![{words_of.WORD_LETTER}&@\\°\#]) (?<![{words_of.WORD_LETTER}]') (?<!\b[A-Za-z][./])
    (?: (?<![{words_of.WORD_LETTER}]-) | (?<=nswer-) | (?<=ption-) )
    (?: (?P<upper>[A-HJ-Z])
      | (?P<lower>[b-df-h] | [ae](?![ \t]+[{words_of.WORD_LETTER}]) | (?<=ption\ )[ae]) )
    (?![{words_of.WORD_LETTER}&@°\#+]) (?!'[{words_of.WORD_LETTER}])
    (?!\.[ ]?[A-Z](?![A-Za-z])\.|\.[A-Za-z](?![A-Za-z])) (?!:[\\/])
    (?!-(?:[{words_of.WORD_LETTER}]|\s*$))
  | (?: (?<=\b[iI]s) | (?<=nswer) | (?<=ption) ) (?P<glued>[A-H]) (?![{words_of.WORD_LETTER}'])
  | \b(?P<ordinal>(?i:first|second|third|fourth|fifth|sixth|seventh|eighth|last
      |1st|2nd|3rd|4th|5th|6th|7th|8th))\s(?:option|choice|one|answer|alternative)\b
  | \b(?i:option|choice)\s(?:number\s|no\.\s?|\#)?(?P<number>[1-8]|one|two|three|four|five|six
      |seven|eight)\b
  | 第(?P<cjk>[一二三四五六七八1-8])(?:个|個)?(?:选项|選項|选择|項|项)
    """,
    re.VERBOSE,
)
_ORDINALS = {
    word: index
    for words in (
        "first second third fourth fifth sixth seventh eighth",
        "1st 2nd 3rd 4th 5th 6th 7th 8th",
        "one two three four five six seven eight",
        "1 2 3 4 5 6 7 8",
        "一 二 三 四 五 六 七 八",
    )
    for index, word in enumerate(words.split())
}


_OPENING = " \t*_`\"'([{<$~>^"
_ENCLOSING = frozenset("([{*_`$<")
_BULLETS = " \t-+*•·#>|~_`\"'([{<$"
_CLOSERS = re.compile(r"(?:[ \t]?[*_`\"')\]}>$~^]){0,8}")
_SENTENCE_END = re.compile(
    r"[!?|\n]|(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bSt)(?<!\bvs)\.", re.IGNORECASE
)
_LOOK_BACK = 160
_LOOK_AHEAD = 90
_NEAR = 60
"""The distances from a letter, in characters, in which its role is determined. They are bounded so
that reading takes linear time."""


@dataclass(frozen=True, slots=True)
class _Around:
    """The surroundings of a letter that its role depends on."""

    clause: str
    """The sentence up to the letter, without the marks that open it ("**(")."""
    words: Sequence[str]
    """The words of `clause`, in lower case."""
    tail: str
    """The text after the letter, without the marks that close it."""
    enclosed: bool
    several: bool
    first: bool
    """True if there are only marks before the clause."""
    last: bool
    """True if there are only marks after the letter."""


def _read_text(text: str, letters: Sequence[Letter]) -> Reading:
    starts = len(text) - len(text.lstrip(_BULLETS + "\n"))
    ends = len(text.rstrip(" \n.!?)]}*_`\"'"))
    found = [_classified(text, (starts, ends), match, letters) for match in _LETTER.finditer(text)]
    return _decide(text, _without_lists(text, found), letters)


def _classified(
    text: str, bounds: tuple[int, int], match: re.Match[str], letters: Sequence[Letter]
) -> _Found:
    named = match["upper"] or match["lower"] or match["glued"]
    letter = named.upper() if named else _ordinal_letter(match, letters)
    around = _around(text, bounds, match.span(), letter)
    return _Found(letter, match.start(), match.end(), _role(match, around), around.several)


def _around(text: str, bounds: tuple[int, int], span: tuple[int, int], letter: str) -> _Around:
    start, end = span
    clause, gap = _clause_before(text, start)
    closers = _CLOSERS.match(text, end) if gap.strip() else None
    after = closers.end() if closers else end
    tail = text[after : after + _LOOK_AHEAD]
    return _Around(
        clause=clause,
        words=_words(clause),
        tail=tail,
        enclosed=after > end and not _ENCLOSING.isdisjoint(gap),
        several=_is_beside_another(clause, tail, letter),
        first=start - len(clause) - len(gap) <= bounds[0],
        last=after >= bounds[1],
    )


def _words(clause: str) -> list[str]:
    """The words of `clause` in lower case, without the elided articles of French and Italian."""
    return [
        word[2:] if word.startswith(("l'", "d'")) else word
        for word in words_of.WORDS.findall(clause.lower())
    ]


def _ordinal_letter(match: re.Match[str], letters: Sequence[Letter]) -> str:
    word = (match["ordinal"] or match["number"] or match["cjk"]).lower()
    index = len(letters) - 1 if word == "last" else _ORDINALS[word]
    return chr(ord("A") + index)


def _clause_before(text: str, start: int) -> tuple[str, str]:
    """The part of the sentence before `start`, and the marks between it and the letter.

    A letter on its own line belongs to the line above if that line announces an answer
    ("### Answer", "The best answer is").
    """
    words_end = start
    while words_end > 0 and text[words_end - 1] in _OPENING:
        words_end -= 1
    clause_start = _sentence_start(text, words_end)
    gap = text[words_end:start]
    clause = text[clause_start:words_end].lstrip(_BULLETS)
    if clause.endswith(("-", "=")) and gap.startswith(">"):
        clause += ">"
    clause += " " if clause and gap else ""
    if clause or (clause_start > 0 and text[clause_start - 1] != "\n"):
        return clause, gap
    above = text[max(0, clause_start - _LOOK_BACK) : clause_start].rstrip("\n" + _OPENING + "#")
    above = above[_sentence_start(above, len(above)) :].strip(_BULLETS)
    words = _words(above)
    if not words or len(words) > 8:
        return "", gap
    if not words_of.LISTING.isdisjoint(words):
        return above.rstrip(":="), gap
    if above.endswith((":", "=")):
        return above, gap
    announces = words[-1] in _ANNOUNCING or words_of.ANNOUNCES_UNSPACED.search(words[-1])
    return (f"{above}:" if announces else ""), gap


_ANNOUNCING = (
    words_of.ANSWER_NOUNS
    | words_of.OPTION_NOUNS
    | words_of.COPULAS
    | frozenset(("assistant", "bot", "ai", "model"))
)


def _sentence_start(text: str, end: int) -> int:
    """The start of the sentence that contains `end`, at most `_LOOK_BACK` characters earlier."""
    window = text[max(0, end - _LOOK_BACK) : end]
    starts = [match.end() for match in _SENTENCE_END.finditer(window)]
    return end - len(window) + (starts[-1] if starts else 0)


def _is_beside_another(clause: str, tail: str, letter: str) -> bool:
    before = words_of.ANOTHER_BEFORE.search(clause[-_NEAR:])
    after = words_of.ANOTHER_AFTER.match(tail)
    others = [
        (before[1] or before[2]) if before else letter,
        (after[1] or after[2]) if after else letter,
    ]
    return any(other.upper() != letter for other in others)


# --- Roles


def _role(match: re.Match[str], around: _Around) -> Role:
    article = match["upper"] == "A" and not around.enclosed and words_of.ARTICLE.match(around.tail)
    if article or _is_doubted(around):
        return Role.MENTION
    ordinal = match["ordinal"] or match["number"] or match["cjk"]
    if words_of.PICKED.match(around.tail) or words_of.PICKED_BEFORE.search(around.clause):
        return Role.CHOSEN
    if words_of.AFFIRMED.match(around.tail) and (ordinal or _can_be_subject(around.words)):
        return Role.CHOSEN
    role = _role_by_words(around)
    return role if _may_have(role, match, around) else Role.MENTION


def _is_doubted(around: _Around) -> bool:
    """True if the letter is negated, in a question or in a condition."""
    clause, tail = around.clause, around.tail
    if tail.startswith("?") and (not around.last or words_of.QUESTION.match(clause)):
        return True
    if words_of.DENIED.match(tail) or words_of.CONDITION_AFTER.match(tail):
        return True
    return bool(clause) and bool(
        words_of.NEGATED.search(clause[-_NEAR:]) or words_of.CONDITION.search(clause)
    )


def _may_have(role: Role, match: re.Match[str], around: _Around) -> bool:
    """True if a letter or word written like `match` can have `role`."""
    if role is Role.NAMED and not (around.first or around.last):
        return False  # an intermediate step
    if match["ordinal"] and match.group().endswith("one"):
        return role >= Role.CHOSEN  # "the first one" may be a thing in the video
    if not match["lower"]:
        return True
    # Lower-case letters are more often words and list marks than answers.
    done = words_of.STATEMENT_DONE.match(around.tail) is not None
    if role is Role.LABEL:
        return around.first and around.tail[:1] in (")", ".", ":", " ")
    if match["lower"] in "ae":
        cut_off = role is Role.CHOSEN and around.words[-1] in words_of.COPULAS  # "It is a"
        return done and not cut_off and (role is not Role.ALONE or not around.words)
    return done or role is not Role.ALONE


def _role_by_words(around: _Around) -> Role:
    """The role of a letter by the words of its sentence.

    The word that announces the letter is the nearest word before it that is not a filler, a
    quality, an adverb or a word for an option.
    """
    words, tail = around.words, around.tail
    terminal = around.several or words_of.TERMINAL.match(tail) is not None
    done = around.several or words_of.STATEMENT_DONE.match(tail) is not None
    if not words:
        return _role_at_start(tail, enclosed=around.enclosed, done=done)
    if words[-1] in (",", ";") and len(words[-2:][0]) > 1 and done and not around.several:
        return Role.ALONE  # "Based on the frames, C."
    reached = len(words)
    while reached > 0 and _may_be_between(words[reached - 1]):
        reached -= 1
    named = any(map(_means_option, words[reached:]))
    if reached == 0:
        return _role_in_whole(words, named=named, terminal=terminal, done=done)
    announcing, before = words[reached - 1], words[: reached - 1]
    if announcing in words_of.MARKS:
        direct = reached == len(words) or named
        return _role_after_mark(announcing, before, direct=direct, terminal=terminal, done=done)
    if announcing in words_of.COPULAS:
        return _role_after_copula(announcing, before, named=named, terminal=terminal)
    bracketed = around.enclosed or (named and announcing == "(")
    return _role_after_word(announcing, bracketed=bracketed, terminal=terminal, done=done)


def _role_in_whole(words: Sequence[str], *, named: bool, terminal: bool, done: bool) -> Role:
    """The role of a letter in a sentence with no other content: "Probably option C"."""
    if words[0] in ("and", "or"):
        return Role.MENTION  # the end of a sentence that was cut off
    if not words_of.QUALITIES.isdisjoint(words) and (named or terminal):
        return Role.DECLARED
    if named:
        # "The letter A is on the board" may be a thing in the video.
        stated = done if "letter" in words else terminal
        return Role.NAMED if stated else Role.MENTION
    return Role.ALONE if done else Role.MENTION


def _role_after_word(word: str, *, bracketed: bool, terminal: bool, done: bool) -> Role:
    if _means_answer(word):
        return Role.DECLARED
    if word in words_of.CHOICE_VERBS or (word in words_of.CONCLUSIONS and terminal):
        return Role.CHOSEN
    return Role.NAMED if bracketed and done else Role.MENTION


def _may_be_between(word: str) -> bool:
    if word in words_of.COPULAS or word in words_of.CHOICE_VERBS or _means_answer(word):
        return False
    return (
        word in words_of.FILLERS
        or word in words_of.QUALITIES
        or word.endswith("ly")
        or _means_option(word)
    )


def _role_at_start(tail: str, *, enclosed: bool, done: bool) -> Role:
    if done:
        return Role.ALONE
    if enclosed or words_of.LABEL_END.match(tail):
        return Role.LABEL
    return Role.MENTION


def _role_after_mark(
    mark: str, label: Sequence[str], *, direct: bool, terminal: bool, done: bool
) -> Role:
    """The role of a letter after a colon or dash: "Correct option: C", "Output: C"."""
    words = [word for word in label if word not in words_of.MARKS and word != ","]
    if len(words) == 1 and words[0] in words_of.LISTING:
        return Role.MENTION  # "Options: A. …"
    if any(_announces(word) for word in words):
        return Role.DECLARED
    if not words_of.OTHER_LABELS.isdisjoint(words):
        return Role.MENTION
    short = direct and (mark in _ARROWS or (mark in (":", "=") and len(words) <= 3))
    if words and short and terminal:
        return Role.CHOSEN
    return Role.ALONE if not words and done else Role.MENTION


_ARROWS = frozenset(("->", "=>", "→"))


def _role_after_copula(copula: str, subject: Sequence[str], *, named: bool, terminal: bool) -> Role:
    """The role of a letter after "is": "the answer is C", "it is C"; not "the player is C"."""
    if any(_announces(word) or word in words_of.QUALITIES for word in subject):
        return Role.DECLARED
    stated = not subject or subject[-1] in words_of.SUBJECTS or "'" in copula or named
    if not stated and subject[-1] in words_of.FILLERS:  # "it must be C", "must be C"
        helpers = words_of.FILLERS | words_of.COPULAS
        stated = not words_of.SUBJECTS.isdisjoint(subject) or helpers.issuperset(subject)
    return Role.CHOSEN if stated and terminal else Role.MENTION


def _announces(word: str) -> bool:
    return _means_answer(word) or _means_option(word)


def _means_answer(word: str) -> bool:
    return word in words_of.ANSWER_NOUNS or _ends_like(words_of.ANNOUNCES_UNSPACED, word)


def _means_option(word: str) -> bool:
    return word in words_of.OPTION_NOUNS or _ends_like(words_of.NAMES_UNSPACED, word)


def _ends_like(pattern: re.Pattern[str], word: str) -> bool:
    return not word.isascii() and pattern.search(word) is not None


def _can_be_subject(words: Sequence[str]) -> bool:
    """True if a letter after `words` can be an option; False for "player B is better"."""
    if not words:
        return True
    last = words[-1]
    if last in words_of.FILLERS:
        return last not in words_of.NOUN_JOINTS or last == ","
    return last.endswith("ly") or any(
        last in kind
        for kind in (
            words_of.OPTION_NOUNS,
            words_of.CONCLUSIONS,
            words_of.MARKS,
            words_of.SUBJECTS,
            words_of.COPULAS,
            words_of.CLAUSE_JOINTS,
        )
    )


# --- Lists of options


_LABEL_SHAPE = re.compile(
    rf"(?<![{words_of.WORD_LETTER}'.])([A-Za-z])(?![{words_of.WORD_LETTER}])"
    r"[*_`\"')\]]{0,3}[ \t]?(?:[.):|=]|(?<=[)\]])(?=[ \t]))"
    r"|(?:(?<=\n)|(?<=- ))([A-Za-z])(?=[ \t][^\w\s])"
)


def _without_lists(text: str, found: Sequence[_Found]) -> list[_Found]:
    """`found` without mentions and without the labels of a list of options.

    A list is two or more labels in alphabetical order ("A. … B. …"). If exactly one of its items
    is marked as right, that one is chosen.
    """
    candidates = [one for one in found if one.role > Role.MENTION]
    shapes = list(_LABEL_SHAPE.finditer(text)) if found else []
    listed = _in_sequence(text, shapes)
    if not listed:
        return candidates
    starts = {shapes[index].start(shapes[index].lastindex or 1) for index in listed}
    ends = [shape.start() for shape in shapes[1:]] + [len(text)]
    items = {
        index: text[shapes[index].end() : ends[index]].partition("\n")[0][:_LOOK_BACK]
        for index in listed
    }
    if len(items) == 2 and all(map(_YES_OR_NO.fullmatch, items.values())):
        items = {}  # the options themselves: "A. Yes", "B. No"
    right = [shapes[index] for index, item in items.items() if _is_marked_right(item)]
    kept = [one for one in candidates if one.start not in starts or one.role > Role.ALONE]
    if len(right) == 1:
        group = right[0].lastindex or 1
        marked = _Found(right[0][group].upper(), *right[0].span(group), Role.CHOSEN)
        kept = [one for one in kept if one.start != marked.start]
        kept = sorted([*kept, marked], key=lambda one: one.start)
    return kept


def _in_sequence(text: str, shapes: Sequence[re.Match[str]]) -> set[int]:
    """Indexes of the labels that are next to their neighbor in the alphabet.

    "A. No, B." is a correction, not a list.
    """
    letters = [(shape[1] or shape[2]).upper() for shape in shapes]
    pairs = [
        index
        for index in range(1, len(letters))
        if ord(letters[index]) - ord(letters[index - 1]) == 1
        and not words_of.CORRECTION.search(text, shapes[index - 1].end(), shapes[index].start())
    ]
    return {index for pair in pairs for index in (pair - 1, pair)}


_YES_OR_NO = re.compile(r"\W*(?:yes|no|true|false)\W*", re.IGNORECASE)


def _is_marked_right(item: str) -> bool:
    return words_of.RIGHT.search(item) is not None and words_of.WRONG.search(item) is None


# --- The decision


def _decide(text: str, found: Sequence[_Found], letters: Sequence[Letter]) -> Reading:
    """The reading of a text with the letters `found`, which are in the order of the text."""
    if not found:
        return Reading(letter=None, rule="no_letter", span=None)
    corrections = list(words_of.CORRECTION.finditer(text, found[0].end))
    if corrections:
        cue = corrections[-1]
        after = [one for one in found if one.start >= cue.end() and one.role >= Role.ALONE]
        if after:
            return _strongest(after, letters)
        if cue["withdrawn"] and cue.start() >= found[-1].end:
            return Reading(letter=None, rule="withdrawn", span=cue.span())
    return _strongest(found, letters)


def _strongest(found: Sequence[_Found], letters: Sequence[Letter]) -> Reading:
    """The last letter of the strongest role, or none if letters of a weak role disagree."""
    top = max(one.role for one in found)
    peers = [one for one in found if one.role is top]
    chosen = peers[-1]
    if chosen.several:
        later = [one for one in found if one.start > chosen.end and one.role >= Role.ALONE]
        single = [one for one in later if not one.several]
        if single:
            return _strongest(single, letters)
        return Reading(letter=None, rule="several_letters", span=(chosen.start, chosen.end))
    if top < Role.CHOSEN and len({one.letter for one in peers if not one.several}) > 1:
        return Reading(letter=None, rule="several_letters", span=(peers[0].start, chosen.end))
    return _offered(chosen.letter, (chosen.start, chosen.end), _RULES[top], letters)


# --- An option's text without its letter


_LONGEST_WITH_TEXT = 3_000
_LONGEST_STATEMENT = 300
_STATES_TEXT = re.compile(
    r"\b(?:answer|option|choice)\b[^.:\n]{0,60}?(?:\bis\b|:|=)"
    r"|(?:答案|选项|正解|정답)[^\n]{0,4}?[是为:は은]",
    re.IGNORECASE,
)
_ARTICLE_BEFORE = r"(?:(?:the|an?)\s+)?"


def _read_option_text(
    answer: str, letters: Sequence[Letter], options: Sequence[str]
) -> Reading | None:
    """The option whose text the answer repeats, if it is exactly one.

    There are two cases. The answer, or its part after "the answer is", consists only of the text.
    Or the answer is one short statement without words of doubt and contains the text of one option.
    """
    statement = set_markup_aside(answer).rstrip()
    if len(statement.lstrip()) > _LONGEST_WITH_TEXT:
        return None
    declared = [match.end() for match in _STATES_TEXT.finditer(statement)][-1:]
    texts = [
        (letter, text)
        for letter, option in zip(letters, options, strict=False)
        if (text := _text_pattern(option, letter))
    ]
    first = len(statement) - len(statement.lstrip())
    for start in (*declared, first):
        fits = [
            (letter, match.span(1))
            for letter, text in texts
            if (
                match := re.compile(rf"\W*{_ARTICLE_BEFORE}({text})\W*$", re.I).match(
                    statement, start
                )
            )
        ]
        if len(fits) == 1:
            return Reading(letter=fits[0][0], rule="option_text", span=fits[0][1])
    start = declared[0] if declared else first
    if len(statement) - start > _LONGEST_STATEMENT or _is_uncertain(statement):
        return None
    return _only_text_in(statement, start, texts)


def _only_text_in(
    statement: str, start: int, texts: Sequence[tuple[Letter, str]]
) -> Reading | None:
    occurrences: list[tuple[Letter, tuple[int, int]]] = []
    for letter, text in texts:
        if len(text) <= 2 and text.isascii():
            continue  # too short: numbers and short words occur in many statements
        whole = rf"(?<![{words_of.WORD_LETTER}])({text})(?![{words_of.WORD_LETTER}])"
        match = re.compile(whole, re.IGNORECASE).search(statement, start)
        if match:
            occurrences.append((letter, match.span(1)))
    widest = [
        (letter, span)
        for letter, span in occurrences
        if not any(_is_within(span, other) for _, other in occurrences)
    ]
    if len(widest) != 1:
        return None
    return Reading(letter=widest[0][0], rule="option_text", span=widest[0][1])


def _is_within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def _is_uncertain(statement: str) -> bool:
    return any(
        pattern.search(statement)
        for pattern in (words_of.REFUSAL, words_of.WRONG, words_of.CONDITION)
    )


def _text_pattern(option: str, letter: Letter) -> str:
    """A pattern for the words of the option with any marks between them; "" without words."""
    folded = fold(option)
    option_letter = re.match(rf"\s*\(?{letter}\s*[.):]\s*", folded)
    words = re.findall(r"\w+", folded[option_letter.end() :] if option_letter else folded)
    if len(words) > 1 and words[0].lower() in ("a", "an", "the"):
        words = words[1:]
    return r"\W+".join(map(re.escape, words))
