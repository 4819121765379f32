"""The default reader: the letter that a careful person reads, or none.

It sets aside what is not part of the answer (reasoning, markup, the texts of options after their
letters, questions that the model adds), finds every letter that may name an option, determines its
role from the words around it, and decides by the strongest role. No rule may depend on a model, a
benchmark or a question.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers import without_letter
from videomme_pipeline.scoring.readers.answer_words import PATTERNS, WORD_LETTER
from videomme_pipeline.scoring.readers.letters import NEAR, find_letters
from videomme_pipeline.scoring.readers.option_texts import (
    labelled_texts,
    option_texts,
    set_answer_mark_aside,
)
from videomme_pipeline.scoring.readers.reading import NO_LETTER, Reading
from videomme_pipeline.scoring.readers.response_text import (
    Span,
    blank_reasoning,
    blank_spans,
    fold,
    set_markup_aside,
)
from videomme_pipeline.scoring.readers.roles import Role, role_of

_MAX_READ_CHARACTERS = 50_000
"""Only this many characters, counted from the end, are read. Answers are much shorter."""


def read_careful(response: str, letters: Sequence[Letter], options: Sequence[str], /) -> Reading:
    """The letter that a careful person reads in `response`, by the rules of docs/readers.md."""
    texts = option_texts(letters, options)
    folded = set_answer_mark_aside(_without_prompt(fold(response), letters), texts)
    labelled = labelled_texts(set_markup_aside(folded), texts)
    text = blank_spans(folded, labelled.values())
    reading = _read_as_a_whole(text, letters) or _read_cut_discussion(text, letters)
    reading = reading or _read_answer(text, letters, labelled)
    if reading.rule == _ERROR_TEXT:  # unless the text is that of an option
        return without_letter.read_repeated_option(text, texts) or reading
    if reading.rule not in _WEAK_RULES:
        return reading
    answer = blank_reasoning(text)
    answer = _without_added_question(answer, len(answer) - len(answer.lstrip()))
    text = text[: len(answer)]
    if not answer.strip() and (tagged := _marked(text)):
        answer = text[slice(*tagged)].rjust(tagged[1])
    if labelled and {folded[start].upper() for start in labelled} >= {*letters}:
        answer = answer[max(labelled.values())[1] :].rjust(len(answer))  # a repeated prompt
    whole = answer
    if PATTERNS["cut_item"].search(answer):  # cut off inside a list
        answer = answer[: max((own.end() for own in PATTERNS["prose"].finditer(answer)), default=0)]
    by_letter = dict(zip(letters, options, strict=False))
    value = without_letter.read_final_value(folded, text, _marked(answer), by_letter)
    is_last = value and reading.letter and (reading.span or (0, 0)) > (value.span or (0, 0))
    if value is not None and value.letter and not is_last:
        return value
    is_list = reading.rule == "several_letters" and "\n" in text.strip()
    if reading.letter or is_list or reading.rule == "letter_not_offered":
        return reading
    repeated = without_letter.read_repeated_option(answer, texts) if value is None else None
    if repeated is not None or reading.rule == "several_letters":
        return repeated or reading
    is_open = value or PATTERNS["unfinished"].search(whole)
    contained = None if is_open else without_letter.read_contained_option(answer, texts)
    refused = None if contained else PATTERNS["refuses"].search(answer)
    return contained or (Reading(None, "refusal", refused.span()) if refused else reading)


def is_error_text(response: str, letters: Sequence[Letter], options: Sequence[str]) -> bool:
    """True if a program wrote `response` because it got no answer of a model."""
    may_be = PATTERNS["errors"].match(fold(response)) is not None
    return may_be and read_careful(response, letters, options).rule == _ERROR_TEXT


_ERROR_TEXT = "error_text"
_WITHOUT_LETTER = ("no_letter", "letter_not_offered", "several_letters", "reasoning_only")
_WEAK_RULES = frozenset((*_WITHOUT_LETTER, "named", "label", "alone"))
"""The rules of readings that a marked value outweighs."""


def _marked(answer: str) -> Span | None:
    """The last box or answer tag with content, before any turn or question that the model adds."""
    first = PATTERNS["answer_tag"].search(answer)
    answer = _without_added_question(answer, first.end()) if first else ""
    for tag in list(PATTERNS["answer_tag"].finditer(answer))[: -_MAX_TAGS - 1 : -1]:
        span = (tag.end(), _tag_end(answer, tag))
        after = PATTERNS["answer_tag_end"].sub("", answer[span[1] : span[1] + NEAR])
        is_condition = PATTERNS["condition_after"].match(after)
        if not is_condition and set_markup_aside(answer[slice(*span)]).strip(" \t\n._"):
            return span
    return None


def _read_as_a_whole(text: str, letters: Sequence[Letter]) -> Reading | None:
    """The reading of a text without an analysis of its words, or None for most texts."""
    if not text.strip():
        return Reading(None, "empty")
    if repeated := _REPEATED_LETTER.fullmatch(text):
        return _offered(repeated[1].upper(), repeated.span(1), "alone", letters)
    if _SEVERAL_LETTERS.fullmatch(text):
        return Reading(None, "several_letters")
    if PATTERNS["errors"].match(text):
        return Reading(None, _ERROR_TEXT)
    return Reading(None, "program") if _PROGRAM_END.search(text) else None


# No possessive group: in Python 3.11.2, it matches a failed attempt, too (CPython issue 106052).
_BETWEEN = r"(?:(?![✓✔✅☑✗❌✘✖])[\W_])*"
_REPEATED_LETTER = re.compile(
    r"[\W_]*+([A-Za-z])(?:[\W_]*+\1)*(?!-)(?:(?![+#°])[\W_])*", re.IGNORECASE
)
_SEVERAL_LETTERS = re.compile(
    rf"(?!A:)(?:(?:{_BETWEEN}[A-N](?!\w)){{2,}}|(?:{_BETWEEN}[a-n](?!\w)){{2,}}){_BETWEEN}"
)
"""Only letters and marks, with more than one letter: "(A)(C)", "B > D > A", "(b)(a)"."""
_ANSWER_CONTENT = re.compile(r"\n\W*(?i:answer\s?:)[^\w\n]*(?:([A-N])\b|(\w[^\n]*))")
"""The letter or the words of a line "Answer: …". Of three different ones, none is the answer."""
_PROGRAM_END = re.compile(r"\n[ \t]*+print\([^\n]{0,200}\)\s*+(?:```\s*+)?\Z")
"""The end of a program, whose output nobody knows."""


def _offered(letter: str, span: Span, rule: str, letters: Sequence[Letter]) -> Reading:
    if letter in letters:
        return Reading(Letter(letter), rule, span)
    return Reading(None, "letter_not_offered", span)


# --- The part of the text that is read


def _without_prompt(text: str, letters: Sequence[Letter]) -> str:
    """`text` with a repeated prompt blanked, but not with a question that the model added."""
    text = PATTERNS["format_sentence"].sub(lambda sentence: " " * len(sentence[0]), text)
    turn = PATTERNS["assistant_turn"].search(text)
    asked = "\n" + text[: turn.start()] if turn else ""
    question = PATTERNS["prompt"].search(asked)
    before = asked[: question.start()] if question else ""
    is_answered = PATTERNS["declares_number"].search(before)
    if not turn or not question or is_answered or _read_answer(before, letters, {}).letter:
        return text
    return blank_spans(text, [(0, turn.end())])


def _without_added_question(text: str, position: int) -> str:
    """`text` up to a question that the model adds after `position`."""
    added = PATTERNS["next_question"].search(text, position)
    return text[: added.start()] if added else text


def _read_answer(text: str, letters: Sequence[Letter], labelled: Mapping[int, Span]) -> Reading:
    """The reading of the answer tag of `text` if it has one, otherwise of its words."""
    answer = blank_reasoning(text)[-_MAX_READ_CHARACTERS:].rjust(len(text))
    # A closed answer tag counts even in a response that was cut off inside its reasoning.
    tagged = _read_answer_tag(answer if answer.strip() else text, letters, labelled)
    if tagged or not answer.strip():
        return tagged or Reading(None, "reasoning_only")
    reading = _read_text(set_markup_aside(answer), letters, labelled)
    if reading.rule == "no_letter":  # "<think>So it is <answer>D</answer></think> Explanation: …"
        return _read_answer_tag(text, letters, labelled) or reading
    return reading


_BRACE = re.compile("[{}]")
_MAX_TAGS = 3
_MAX_TAGGED_CHARACTERS = 2_000


def _read_answer_tag(
    text: str, letters: Sequence[Letter], labelled: Mapping[int, Span]
) -> Reading | None:
    """The reading of the last answer tag that is not empty, or None if no letter or value is in it.

    After a value, only a stated letter is read. The text before the value is not read.
    """
    start, end = _marked(text) or (0, 0)
    reading = _read_text(" " * start + set_markup_aside(text[start:end]), letters, labelled)
    if reading.rule != "no_letter":
        return replace(reading, rule="answer_tag") if reading.letter else reading
    if not any(map(str.isdigit, text[start:end])):
        return None
    return _read_text(" " * end + set_markup_aside(text[end:]), letters, labelled)


def _tag_end(text: str, tag: re.Match[str]) -> int:
    limit = min(len(text), tag.end() + _MAX_TAGGED_CHARACTERS)
    if not tag.group().endswith("{"):
        closing = PATTERNS["answer_tag_end"].search(text, tag.end(), limit)
        return closing.start() if closing else limit
    depth = 1
    for brace in _BRACE.finditer(text, tag.end(), limit):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return limit


# --- The decision


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A letter that may be the answer, at `start`:`end`.

    `is_also` is "(D) is also correct", and `is_of_case` is "if it rains, the answer is B".
    """

    letter: str
    start: int
    end: int
    role: Role
    several: bool = False
    is_also: bool = False
    is_of_case: bool = False


def _read_text(text: str, letters: Sequence[Letter], labelled: Mapping[int, Span]) -> Reading:
    """The reading of `text` up to a question that the model adds after its answer."""
    given = [
        _Candidate(
            written.letter,
            written.start,
            written.end,
            role,
            several=written.several,
            is_also=PATTERNS["also"].match(written.tail) is not None
            or PATTERNS["also_before"].search(written.clause) is not None,
            is_of_case=PATTERNS["case"].search(written.clause) is not None,
        )
        for written in find_letters(text, letters, labelled)
        if (role := role_of(written)) > Role.MENTION
    ]
    candidates = _without_lists(text, letters, given)
    added = PATTERNS["next_question"].search(text, given[0].end) if given[1:] else None
    if added and given[0].role is Role.ALONE and added.start() < given[1].start:
        candidates = given[:1]  # "B. Red⏎⏎Question: …"
    if not candidates:
        return NO_LETTER
    if not added and _concludes_steps(text, candidates):
        candidates = candidates[-1:]
    is_several = _answers_several_questions(text, candidates)
    text = _without_added_question(text, candidates[0].end)
    answers = {letter or words.lower() for letter, words in _ANSWER_CONTENT.findall(text)}
    if is_several or len(answers) > 2:
        return Reading(None, "several_letters")
    candidates = [candidate for candidate in candidates if candidate.start < len(text)]
    if _is_last_line(text, candidates):
        last = candidates[-1]
        return _offered(last.letter, (last.start, last.end), "declared", letters)
    return _decide(text, candidates, letters)


def _answers_several_questions(text: str, candidates: Sequence[_Candidate]) -> bool:
    """True if two numbers of questions are each followed by an answer.

    Numbers that may be those of steps need declared answers with different letters.
    """
    chosen = {candidate.letter for candidate in candidates if candidate.role >= Role.CHOSEN}
    numbers = list(PATTERNS["question_number"].finditer(text)) if len(chosen) > 1 else []
    if not numbers or candidates[0].start < numbers[0].start():
        return False
    answers: dict[str, str] = {}
    for candidate in candidates:
        number = numbers[bisect_right(numbers, candidate.start, key=re.Match.start) - 1]
        if candidate.role >= (Role.CHOSEN if number["named"] else Role.DECLARED):
            answers[number.group().strip()] = candidate.letter
    return len({*answers.values()}) > 1


def _without_lists(
    text: str, letters: Sequence[Letter], candidates: Sequence[_Candidate]
) -> Sequence[_Candidate]:
    """`candidates` without the labels of a list. The only item marked as right is chosen.

    The first labels of lists of all options are no answers, even after "The answer is".
    """
    items = _list_items(text, letters[-1])
    if bare := _BARE_ITEM.search(text, max(0, len(text) - NEAR)):
        items[bare.start(1)] = False
    breaks = {start: text.count("\n", start, end) for start, end in pairwise(items)}
    lines = [start for start, count in breaks.items() if count == 1]
    weak = dict.fromkeys(items, Role.ALONE) | dict.fromkeys(lines, Role.STATED)
    listed = [text[start].upper() for start in items]
    if lines[1:] or [*dict.fromkeys(listed)][: len(letters)] == [*letters]:
        near = [start for start, count in breaks.items() if count < 2]
        firsts = [at for at in near if at == next(iter(items)) or text[at].upper() == letters[0]]
        weak |= dict.fromkeys(items, Role.CHOSEN) | dict.fromkeys(firsts, Role.DECLARED)
    kept = [
        candidate
        for candidate in candidates
        if candidate.role > weak.get(candidate.start, Role.MENTION)
        or (candidate.role is Role.CHOSEN and not any(map(str.isalnum, text[candidate.end :])))
    ]
    right = [start for start, is_marked_right in items.items() if is_marked_right]
    if len(right) == 1:
        start = right[0]
        # The word that marks the item is also before the next label: "B. 猫 正确 C. 鸟".
        following = min((other for other in items if other > start), default=start)
        kept = [candidate for candidate in kept if candidate.start not in (start, following)]
        kept.append(_Candidate(text[start].upper(), start, start + 1, Role.DECLARED))
        kept.sort(key=lambda candidate: candidate.start)
    return kept


_LAST_LINE_BEGINS = re.compile(
    r"(?:[^\W\d_]{2}[*_\"')\]]*[.!?:][*_\"')\]]*[ \t]*\n|\n[ \t]*\n)[^\w\n]*\Z"
)
"""The end of the text before a last line that is only a letter: a sentence or a blank line."""
_MAX_CHANGES = 2
"""The most changes of an answer. A response that repeats itself has more."""


def _is_last_line(text: str, candidates: Sequence[_Candidate]) -> bool:
    """True if the text ends with a declared letter, or one alone on its line, that has no rival."""
    last = candidates[-1]
    rivals = {own.letter for own in candidates if own.role is last.role}
    if len(rivals) > 1 or last.several or any(map(str.isalnum, text[last.end :])):
        return False
    is_line = _LAST_LINE_BEGINS.search(text, max(0, last.start - NEAR), last.start) is not None
    return last.role is Role.DECLARED or (last.role is Role.ALONE and is_line)


def _concludes_steps(text: str, candidates: Sequence[_Candidate]) -> bool:
    """True if the last letter is the only one that a paragraph after numbered steps declares."""
    declared = [own for own in candidates if own.role is Role.DECLARED and not own.is_of_case]
    begins = PATTERNS["conclusion"].search
    ends = [own for own in declared if begins(text, max(0, own.start - 2 * NEAR), own.start)]
    is_only = ends[-1:] == [candidates[-1]] and len({own.letter for own in ends}) == 1
    return is_only and len(PATTERNS["step"].findall(text, 0, ends[-1].start)) > 1


def _decide(text: str, candidates: Sequence[_Candidate], letters: Sequence[Letter]) -> Reading:
    first, last = candidates[0], candidates[-1]
    peers = _strongest_peers(candidates)
    changes = sum(peer.letter != following.letter for peer, following in pairwise(peers))
    if changes > _MAX_CHANGES:
        return Reading(None, "several_letters", (peers[0].start, last.end))
    if PATTERNS["chooses_none"].search(text, last.end):
        return NO_LETTER
    declared = max((own.start for own in candidates if own.role is Role.DECLARED), default=0)
    if any(declared <= several.end() for several in PATTERNS["declared_set"].finditer(text)):
        return Reading(None, "several_letters")
    corrections = list(PATTERNS["correction"].finditer(text, first.end))
    if corrections and (after := _stated_after(candidates, corrections[-1].end())):
        return _strongest(after, letters)
    for cue in corrections:
        if cue.start() >= last.end and (cue["withdrawn"] or cue["withdrawn_unspaced"]):
            return Reading(None, "withdrawn", cue.span())
    return _strongest(candidates, letters, text)


def _stated_after(candidates: Sequence[_Candidate], position: int) -> list[_Candidate]:
    after = (own for own in candidates if own.start >= position)
    return [own for own in after if own.role >= Role.ALONE and not own.is_also]


def _strongest(
    candidates: Sequence[_Candidate], letters: Sequence[Letter], text: str = ""
) -> Reading:
    """The last letter of the strongest role, or none if letters of a weak role disagree.

    The letters of all roles but `DECLARED` must agree if `text` ends inside a sentence.
    """
    peers = _strongest_peers(candidates)
    chosen = peers[-1]
    top = chosen.role
    later = _stated_after(candidates, chosen.end + 1) if chosen.several else []
    if single := [candidate for candidate in later if not candidate.several]:
        return _strongest(single, letters)
    cases = {candidate.letter for candidate in candidates if candidate.is_of_case}
    if chosen.several or (chosen.is_of_case and len(cases) > 1):
        return Reading(None, "several_letters", (chosen.start, chosen.end))
    named = {own.letter for own in candidates if own.role in (top, Role.ALONE) and not own.several}
    is_cut_off = text[chosen.end :].rstrip()[-1:].isalnum()
    is_unsure = top < Role.CHOSEN or chosen.is_also or (top < Role.DECLARED and is_cut_off)
    if len(named) > (1 if is_unsure else 2):
        return Reading(None, "several_letters", (peers[0].start, chosen.end))
    return _offered(chosen.letter, (chosen.start, chosen.end), top.name.lower(), letters)


def _strongest_peers(candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
    top = max((candidate.role for candidate in candidates), default=Role.MENTION)
    return [candidate for candidate in candidates if candidate.role is top]


# --- Lists of the options, whose labels are not answers


def _read_cut_discussion(text: str, letters: Sequence[Letter]) -> Reading | None:
    """The reading of a discussion of the options that was cut off. None for other texts."""
    has_noun = "option" in text.lower() or "choice" in text.lower()  # the pattern is slow
    answer = blank_reasoning(text)[-_MAX_READ_CHARACTERS:].rjust(len(text)) if has_noun else ""
    begins = list(PATTERNS["discusses"].finditer(answer))
    if not begins or _read_answer(answer[: begins[-1].start()], letters, {}).letter:
        return None
    items = list(PATTERNS["discussed"].finditer(answer, begins[-1].end()))
    names = ["@", *(item[1] for item in items)]
    items = [item for item, before in zip(items, names, strict=False) if item[1] > before]
    spans = [(max(begins[-1].end(), item.start() - NEAR), item.start()) for item in items]
    is_announced = any(PATTERNS["announced"].search(answer, *span) for span in spans)
    if not items or is_announced or PATTERNS["concluded"].search(answer, items[-1].end()):
        return None
    is_bare = not answer[items[-1].end() :].strip(" \n*")
    if is_bare and ord(names[-1]) - ord(names[-2]) > 1:
        return None  # a last line that is only a letter
    ends = (*(item.start() for item in items[1:]), len(answer))
    right = [own for own, to in zip(items, ends, strict=True) if _is_right(answer[own.end() : to])]
    if len(right) == 1 and len(items) - is_bare > 1:
        return _offered(right[0][1], right[0].span(1), "chosen", letters)
    return Reading(None, "several_letters", items[-1].span(1))


_LABEL = re.compile(
    rf"([A-Na-n])(?![{WORD_LETTER}])(?<![{WORD_LETTER}'.].)(?![*_)\]]*(?:,|,?[ ](?:and|or)[ ]))"
    r"(?:[*_`\"')\]]{0,3}[ \t]?(?:[.):|=(]|(?<=[)\]])(?=[ \t]))"
    r"|(?:(?<=\n.)|(?<=- .))(?=[ \t][^\w\s])|(?:(?<=\n.)|(?<=\n[ (].)|(?<=\n[ ]{3}.)|(?<=- .))\Z)"
)
_BARE_ITEM = re.compile(r"[\w:]\W*\n\s*(?:[-•]|[B-N\d]+[.)])[ *]*(?:\w+ )?([A-Na-n])\s*\Z")
"""A last item that is one letter: a word that was cut off, or the next option of a list."""
_LAST_PARAGRAPH = re.compile(r"\n\s*\n[^\w\n]*\Z")
_UNFINISHED = re.compile(r"(?:[^\n]|\n[ \t]*[-*•])*[.:][^\w\n]+\w[^.!?\n]*\Z(?<![.!?*\"')])")
_ASKED = re.compile(r"\?[^\w\n]*\n[^\w\n]*A[^\w:]*\Z")
_YES_OR_NO = re.compile(r"\W*(?:yes|no|true|false)\W*", re.IGNORECASE)
_BULLET = re.compile(r"\A[ \t.*]*\n[ \t]*[-–•*][^\w\n]*")
_LIST_FROM_A = re.compile(r"\s*A[.):][^\n]*(?:\n[ \n]*[A-N][.):](?!\s?\Z)[^\n]*)+\s*")
_ALPHABET = "ABCDEFGHIJKLMN"
_MAX_ITEM_CHARACTERS = 160


def _list_items(text: str, last_letter: str) -> dict[int, bool]:
    """The labels of all lists of options by position, and True for the items marked as right.

    A list is "A. … B. …", or three labels in alphabetical order, also with letters between them.
    "A. No, B." is a correction. "1. A. … The man", "A. red⏎B. tan⏎C" and "Who?⏎A" are cut lists.
    """
    labels = list(_LABEL.finditer(text))
    if not labels:
        return {}
    counts = Counter(label[1].upper() for label in labels)
    above = text[: labels[-1].start()].rstrip(" \n*(-").rpartition("\n")[2].lower()
    rest = text[labels[-1].end() :].rstrip()
    is_cut_off = rest[-1:].isalnum() or (rest or text.rstrip("\n"))[-1:] in (":" if rest else ".: ")
    is_list = is_cut_off or any(word in above for word in ("let's", "i'll", "options"))
    is_begun = (above.endswith(":") and is_list) or above.startswith("step 1:")
    if not is_begun and "\n\n" not in rest:
        start = max(0, labels[-1].start() - NEAR)
        names = "".join(label[1].upper() for label in labels[-3:])
        is_third = names[2:] and names in _ALPHABET and len(text) - labels[-1].end() > 2
        is_next = names[1:] and names[-2:] in _ALPHABET
        is_line = is_next and text[: labels[-2].start()].rstrip(" *(-").endswith("\n")
        is_bare = is_line and labels[-1].end() == len(text) and names[-1] != last_letter
        is_item = is_third or counts[names[-1]] > 3 or (is_next and (is_cut_off or is_bare))
        if not is_item and _LAST_PARAGRAPH.search(text, start, labels[-1].start()):
            labels.pop()
    listed = _in_sequence(text, labels)
    numbers = {own.end(): own["option"] for own in PATTERNS["item_number"].finditer(text)}
    numbered = [index for index, label in enumerate(labels) if label.start() in numbers]
    is_option = numbered and numbers[labels[numbered[0]].start()]
    if numbered[1:] or is_option or (numbered and _UNFINISHED.match(text, labels[-1].end())):
        listed.update(numbered)
    is_repeated = counts["A"] > 2 or sum(count > 2 for count in counts.values()) > 1
    if (listed and is_repeated) or (len(counts) > 1 and _LIST_FROM_A.fullmatch(text)):
        listed.update(range(len(labels)))  # lists that repeat until the response ends, or have gaps
    if labels and labels[-1][1].upper() == "A":
        is_last = listed and _UNFINISHED.match(text, labels[-1].start())
        if is_begun or is_last or _ASKED.search(text, 0, labels[-1].end()):
            listed.add(len(labels) - 1)
    ends = [*(label.start() for label in labels[1:]), len(text)]
    contents = {
        labels[index].start(): _BULLET.sub("", text[labels[index].end() : ends[index]])
        for index in sorted(listed)
    }
    are_options = len(contents) == 2 and all(map(_YES_OR_NO.fullmatch, contents.values()))
    return {start: not are_options and _is_right(content) for start, content in contents.items()}


def _in_sequence(text: str, labels: Sequence[re.Match[str]]) -> set[int]:
    listed, run = set[int](), list[int]()
    for index, label in enumerate(labels):
        before = labels[index - 1]
        between = (before.end(), label.start())
        is_later = label[1].upper() > before[1].upper() or between[1] - between[0] == 1  # "A: A:"
        is_turn = text.count("\n", *between) == 1
        is_next = ord(label[1]) - ord(before[1]) == 1 and "\n" in text[slice(*between)]
        is_corrected = not is_next and PATTERNS["correction"].search(text, *between)
        if is_corrected or not (is_later or is_turn):
            run = []
        run.append(index)
        names = {labels[item][1].upper() for item in run}
        if len(names) > 2 or names == {"A", "B"}:
            listed.update(run)
    return listed


def _is_right(content: str) -> bool:
    line = content.partition("\n")[0][:_MAX_ITEM_CHARACTERS]
    is_marked = PATTERNS["right"].search(line) and not PATTERNS["wrong"].search(line)
    return bool(is_marked or PATTERNS["called_right"].search(content.partition("\n\n")[0]))
