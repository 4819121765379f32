"""The role of a letter in its sentence, determined from the words around it."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from videomme_pipeline.scoring.readers.answer_words import ARROWS, MARKS, PATTERNS, SETS
from videomme_pipeline.scoring.readers.letters import WrittenLetter


class Role(IntEnum):
    """The role of a letter; a greater role wins."""

    MENTION = 0
    """Not an answer: an article, a name, a negated or doubted option."""
    NAMED = 1
    """For example "Option C" or "(C)" in a statement that does not call it the answer."""
    LABEL = 2
    """For example "C. Berries" before more text."""
    ALONE = 3
    """For example "C" on its line, also with the text of its option."""
    STATED = 4
    """For example "The road sign is (C) Stop"."""
    CHOSEN = 5
    """For example "I choose C", "C is correct" or "hence C"."""
    DECLARED = 6
    """For example "The answer is C"."""


def role_of(written: WrittenLetter) -> Role:
    """The role of one letter."""
    if _is_article(written):
        return Role.MENTION
    is_single = PATTERNS["singled_out"].search(written.clause)
    if is_single or PATTERNS["picked"].match(written.tail) or _is_affirmed(written):  # "A ❌ B ✅"
        role = Role.CHOSEN
    else:
        by_words = _role_by_words(written)
        role = by_words if by_words and _may_have(by_words, written) else Role.MENTION
    # Most letters are mentions. Searching for doubt takes longest, so it is done last.
    return Role.MENTION if role is Role.MENTION or _is_doubted(written) else role


def _is_article(written: WrittenLetter) -> bool:
    return (
        written.letter == "A"
        and not (written.has_text or written.enclosed)
        and not written.clause.lower().endswith("option ")
        and PATTERNS["article"].match(written.tail) is not None
    )


def _is_doubted(written: WrittenLetter) -> bool:
    """True if a letter is denied, asked for, conditional, a person's choice, or cut off."""
    clause, tail = written.clause, written.tail
    if tail.strip() in ("is", "was") or ("comes to mind" in clause and "However" in tail):
        return True
    if tail.startswith("?") and (not written.last or PATTERNS["question"].match(clause)):
        return True
    if PATTERNS["denied"].match(tail) or PATTERNS["condition_after"].match(tail):
        return True
    others = ("negates", "condition", "other_case", "of_another", "before_text")
    return bool(clause) and any(PATTERNS[other].search(clause) for other in others)


def _is_affirmed(written: WrittenLetter) -> bool:
    """True for "C is correct", but not for "player C is better"."""
    if not PATTERNS["affirmed"].match(written.tail):
        return False
    last = written.words[-1:]
    return _BEFORE_SUBJECT.issuperset(last) or any(map(_means_option, last))


_BEFORE_SUBJECT = MARKS.union(
    *(SETS[name] for name in ("answer_nouns", "option_nouns", "conclusions", "subjects")),
    *(SETS[name] for name in ("copulas", "clause_joints", "fillers")),
)
_BETWEEN = SETS["fillers"] | SETS["qualities"]


def _may_have(role: Role, written: WrittenLetter) -> bool:
    """True if `role` is possible for a letter in this form and context."""
    if role is Role.NAMED:
        is_step = not (written.first or written.last or written.has_text)
        is_mark = written.is_lower and not any(map(_means_option, written.words))
        is_compared = PATTERNS["compared"].search(written.clause) is not None
        return not (is_step or is_mark or is_compared) and SETS["listing"].isdisjoint(written.words)
    if not written.is_lower:
        return True
    is_at_end = written.last and not (written.tail or written.enclosed)
    is_cut_off = written.words[-1:] in (["the"], [","]) if written.first else written.words
    if is_at_end and is_cut_off and role is not Role.DECLARED:
        return False  # "Therefore, the c", a word that was cut off
    # Lower-case letters are more often words and list marks than answers.
    if role is Role.LABEL:
        return written.first
    if written.letter in "AEI":  # not "It is a", "the drum, which is a"
        is_name = not is_at_end or any(map(_announces, written.words[-3:]))
        return written.is_statement and role is not Role.CHOSEN and is_name
    return written.is_statement or role is not Role.ALONE


# --- Roles by the words before the letter


class _Phrase(NamedTuple):
    """The words before a letter. The word that announces it is the nearest one that has a meaning
    of its own: "the answer" + "is" + "most likely option"."""

    subject: Sequence[str]
    announcing: str
    between: Sequence[str]

    @property
    def names_option(self) -> bool:
        return any(map(_means_option, self.between))


def _role_by_words(written: WrittenLetter) -> Role:
    words = written.words
    if not words:
        return _role_at_start(written)
    is_introduced = words[-1] in (",", ";") and len("".join(words[-2:-1])) > 1
    if is_introduced and written.is_statement and not written.several:
        return Role.ALONE  # "Based on the frames, C."
    reached = len(words)
    while reached > 0 and _may_be_between(words[reached - 1]):
        reached -= 1
    if reached == 0:
        return _role_after_fillers(written)
    if words[reached - 2 : reached] in (["is", ":"], ["was", ":"], ["be", ":"]):
        reached -= 1  # "The larger circle is: (B) red"
    phrase = _Phrase(words[: reached - 1], words[reached - 1], words[reached:])
    if phrase.announcing in MARKS:
        return _role_after_mark(written, phrase)
    if phrase.announcing in SETS["copulas"]:
        return _role_after_copula(written, phrase)
    return _role_after_word(written, phrase)


def _role_at_start(written: WrittenLetter) -> Role:
    if written.is_statement:
        return Role.ALONE
    is_label = written.enclosed or written.has_text or PATTERNS["label_end"].match(written.tail)
    return Role.LABEL if is_label else Role.MENTION


def _role_after_fillers(written: WrittenLetter) -> Role:
    """The role of a letter in a sentence with no other content: "Probably option C"."""
    words = written.words
    names_option = any(map(_means_option, words))
    if words[0] in ("and", "or") or (words[0] == "for" and names_option):
        return Role.MENTION  # the end of a sentence that was cut off, or "for option A, …"
    if not SETS["qualities"].isdisjoint(words) and (names_option or written.ends_statement):
        return Role.DECLARED
    if not written.is_statement and not (names_option and written.has_text):
        return Role.MENTION  # "Option A is about a dog" only tells what an option says
    return Role.NAMED if names_option else Role.ALONE


def _role_after_mark(written: WrittenLetter, phrase: _Phrase) -> Role:
    """The role of a letter after a colon or dash: "Correct option: C", "Output: C"."""
    label = [word for word in phrase.subject if word not in MARKS and word != ","]
    is_text = label[1:] and len(label[-1]) == 1 and _means_option(label[-2])  # "Option C: A dog"
    if (is_text and not written.enclosed) or _introduces_list(label) or label[-1:] == ["analysis"]:
        return Role.MENTION
    if any(map(_announces, label)):
        return Role.DECLARED
    if not SETS["other_labels"].isdisjoint(label[-2:]):
        return Role.MENTION
    if not label or label[-1] in SETS["conclusions"]:  # "The woman is a nurse, so: A"
        return Role.ALONE if written.is_statement else Role.MENTION
    is_direct = not phrase.between or phrase.names_option
    is_name = written.letter != "A" or written.tail or written.first or label[-1].isdecimal()
    is_short = phrase.announcing == ":" and len(label) <= 3 and is_name  # not "First scene: A"
    is_value = written.is_statement or written.has_text or written.tail.startswith(". ")
    is_result = phrase.announcing in ARROWS or (written.enclosed and written.last)
    is_chosen = is_direct and is_value and (is_short or is_result)
    return Role.CHOSEN if is_chosen else Role.MENTION


def _introduces_list(label: Sequence[str]) -> bool:
    """True for "Options:" and "The given options are:", but not for "Correct options:"."""
    helpers = SETS["fillers"] | SETS["copulas"] | SETS["offered"]
    named = [word for word in label if word not in helpers]
    return bool(named) and SETS["listing"].issuperset(named)


def _role_after_copula(written: WrittenLetter, phrase: _Phrase) -> Role:
    """The role of a letter after "is": "the answer is C", "it is C"; not "the player is C"."""
    subject = [word for word in phrase.subject if word != "also"]
    is_shape = phrase.announcing == "like" and not SETS["visible"].isdisjoint(phrase.between)
    if _introduces_list(subject) or is_shape:
        return Role.MENTION
    if not SETS["qualities"].isdisjoint(subject):
        return Role.DECLARED
    if any(map(_announces, subject)):
        is_other = subject[-1] in SETS["other_labels"] or _is_thing(subject, phrase.announcing)
        return Role.MENTION if is_other else Role.DECLARED
    is_label = written.tail[:2] in (". ", ") ") and ":" in phrase.between
    names_thing = not SETS["noun_joints"].isdisjoint(phrase.between)
    if (is_label or written.has_text or written.enclosed) and not names_thing:
        return Role.STATED
    concludes = not SETS["conclusions"].isdisjoint(subject)
    stated = (
        not subject
        or subject[-1] in SETS["subjects"]
        or "'" in phrase.announcing
        or phrase.names_option
        or PATTERNS["contrasted"].match(written.tail)
        or (phrase.announcing == "is" and written.last and concludes)  # "So the exit is C."
    )
    if not stated and subject[-1] in SETS["fillers"]:  # "it must be C", "must be C"
        helpers = SETS["fillers"] | SETS["copulas"]
        stated = not SETS["subjects"].isdisjoint(subject) or helpers.issuperset(subject)
    return Role.CHOSEN if stated and written.ends_statement else Role.MENTION


def _is_thing(subject: Sequence[str], verb: str) -> bool:
    """True for "the letter on the jersey" and "the caption says", which name no option."""
    if any(map(_means_answer, subject)) or SETS["visible"].isdisjoint(subject):
        return False
    return verb == "says" or not SETS["places"].isdisjoint(subject)


def _is_of_person(subject: Sequence[str]) -> bool:
    """True for the subject of "the boy picks B", false for "so I pick B" and "Hence, pick B"."""
    after_comma = len(subject) - 1 - subject[::-1].index(",") if "," in subject else -1
    words = {*subject[after_comma + 1 :]}
    joints = SETS["conclusions"] | SETS["clause_joints"] | MARKS
    helpers = SETS["fillers"] | SETS["copulas"] | SETS["qualities"] | joints
    named = [word for word in words - helpers if not word.endswith("ly")]
    is_own = not SETS["first_person"].isdisjoint(words) or any(map(_announces, named))
    return bool(named) and not is_own


def _names_no_answer(written: WrittenLetter, phrase: _Phrase) -> bool:
    """True for "points A and B", for the choice of a person and for the instruction: answer "A"."""
    word, subject = phrase.announcing, phrase.subject
    if word in SETS["pointing_verbs"]:
        is_direct = {*phrase.between} & {"to", "toward", "towards"}
        return not is_direct or not SETS["pointers"].isdisjoint(subject)
    if word == "answer" and written.quoted:
        nouns = SETS["qualities"] | SETS["answer_nouns"] | {"the", "my"}
        return nouns.isdisjoint(subject[-1:])
    return word in SETS["personal_verbs"] and _is_of_person(subject)


def _role_after_word(written: WrittenLetter, phrase: _Phrase) -> Role:
    word = phrase.announcing
    if _names_no_answer(written, phrase):
        return Role.MENTION
    if _means_answer(word) and word not in SETS["things"]:
        is_verb = written.enclosed and not word.isascii()  # "答案是(C) 98%"
        stated = written.ends_statement or written.has_text or is_verb  # not "The answer A would"
        return Role.DECLARED if stated and "for" not in phrase.between else Role.MENTION
    is_subject = written.tail.startswith((" is ", " was "))  # "so A is taller than C"
    concludes = word in SETS["conclusions"] and written.ends_statement and not is_subject
    if word in SETS["choice_verbs"] or concludes:
        return Role.CHOSEN
    if written.has_text:
        return Role.NAMED
    if word in SETS["conclusions"] or word in SETS["other_labels"]:
        return Role.MENTION
    is_named = written.enclosed or (phrase.names_option and word == "(")
    is_bracketed = word == "(" and written.tail.startswith(")")
    return Role.NAMED if is_named and (written.is_statement or is_bracketed) else Role.MENTION


def _may_be_between(word: str) -> bool:
    if word in SETS["copulas"] or word in SETS["choice_verbs"] or _means_answer(word):
        return False
    return word in _BETWEEN or word.endswith("ly") or _means_option(word)


def _announces(word: str) -> bool:
    return _means_answer(word) or _means_option(word)


def _means_answer(word: str) -> bool:
    return word in SETS["answer_nouns"] or (
        not word.isascii() and PATTERNS["announces_unspaced"].search(word) is not None
    )


def _means_option(word: str) -> bool:
    return word in SETS["option_nouns"] or (
        not word.isascii() and PATTERNS["names_unspaced"].search(word) is not None
    )
