"""The role of a letter in its sentence, determined from the words around it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from videomme_pipeline.scoring.readers import answer_words as words_of
from videomme_pipeline.scoring.readers.letters import Form, FoundLetter


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
    CHOSEN = 4
    """For example "I choose C", "C is correct" or "hence C"."""
    DECLARED = 5
    """For example "The answer is C"."""


def role_of(found: FoundLetter) -> Role:
    """The role of one letter."""
    if _is_article(found) or _is_doubted(found):
        return Role.MENTION
    if _is_picked(found) or _is_affirmed(found):
        return Role.CHOSEN
    role = _role_by_words(found)
    return role if _may_have(role, found) else Role.MENTION


def _is_article(found: FoundLetter) -> bool:
    return (
        found.letter == "A"
        and found.form is Form.UPPER
        and not found.enclosed
        and not found.has_text
        and words_of.ARTICLE.match(found.tail) is not None
    )


def _is_doubted(found: FoundLetter) -> bool:
    """True if the letter is negated, in a question or in a condition."""
    clause, tail = found.clause, found.tail
    if tail.startswith("?") and (not found.last or words_of.QUESTION.match(clause)):
        return True
    is_text = found.enclosed and words_of.TEXT_THAT_DENIES.match(tail)
    if (words_of.DENIED.match(tail) and not is_text) or words_of.CONDITION_AFTER.match(tail):
        return True
    return bool(clause) and bool(
        words_of.NEGATED.search(clause) or words_of.CONDITION.search(clause)
    )


def _is_picked(found: FoundLetter) -> bool:
    """True if a mark or a verb after the letter chooses it: "A ❌ B ✅"."""
    return bool(words_of.PICKED.match(found.tail) or words_of.PICKED_BEFORE.search(found.clause))


def _is_affirmed(found: FoundLetter) -> bool:
    """True for "C is correct", but not for "player C is better"."""
    if not words_of.AFFIRMED.match(found.tail):
        return False
    if not found.words or found.form in (Form.ORDINAL, Form.PRONOUN):
        return True
    last = found.words[-1]
    if last in words_of.FILLERS:
        return last not in words_of.NOUN_JOINTS or last == ","
    if not last.isascii():
        return _means_option(last) or words_of.CONCLUDES_UNSPACED.search(last) is not None
    return last.endswith("ly") or any(last in kind for kind in _BEFORE_SUBJECT)


_BEFORE_SUBJECT = (
    words_of.ANSWER_NOUNS,
    words_of.OPTION_NOUNS,
    words_of.CONCLUSIONS,
    words_of.MARKS,
    words_of.SUBJECTS,
    words_of.COPULAS,
    words_of.CLAUSE_JOINTS,
)


def _may_have(role: Role, found: FoundLetter) -> bool:
    """True if a letter that is written like `found` can have `role`."""
    if role is Role.NAMED:
        is_step = not (found.first or found.last or found.has_text)
        return not is_step and words_of.LISTING.isdisjoint(found.words)
    if found.form is Form.PRONOUN:
        return role >= Role.CHOSEN  # "the first one" may be a thing in the video
    if found.form is not Form.LOWER:
        return True
    # Lower-case letters are more often words and list marks than answers.
    if role is Role.LABEL:
        return found.first and found.tail[:1] in (")", ".", ":", " ")
    if found.letter in "AEI" and not found.has_text:
        cut_off = role is Role.CHOSEN and found.words[-1] in words_of.COPULAS  # "It is a"
        is_word = role is Role.ALONE and bool(found.words)
        return found.is_statement and not cut_off and not is_word
    return found.is_statement or role is not Role.ALONE


# --- Roles by the words before the letter


@dataclass(frozen=True, slots=True)
class _Phrase:
    """The words before a letter. The word that announces it is the nearest one that has a meaning
    of its own: "the answer" + "is" + "most likely option"."""

    subject: Sequence[str]
    announcing: str
    between: Sequence[str]

    @property
    def names_option(self) -> bool:
        return any(map(_means_option, self.between))


def _role_by_words(found: FoundLetter) -> Role:
    words = found.words
    if not words:
        return _role_at_start(found)
    if _follows_introduction(found):
        return Role.ALONE
    reached = len(words)
    while reached > 0 and _may_be_between(words[reached - 1]):
        reached -= 1
    if reached == 0:
        return _role_after_fillers(found)
    phrase = _Phrase(words[: reached - 1], words[reached - 1], words[reached:])
    if phrase.announcing in words_of.MARKS:
        return _role_after_mark(found, phrase)
    if phrase.announcing in words_of.COPULAS:
        return _role_after_copula(found, phrase)
    return _role_after_word(found, phrase)


def _role_at_start(found: FoundLetter) -> Role:
    if found.is_statement:
        return Role.ALONE
    is_label = found.enclosed or found.has_text or words_of.LABEL_END.match(found.tail)
    return Role.LABEL if is_label else Role.MENTION


def _follows_introduction(found: FoundLetter) -> bool:
    """True for "Based on the frames, C."."""
    *before, last = found.words
    is_introduction = bool(before) and last in (",", ";") and len(before[-1]) > 1
    return is_introduction and found.is_statement and not found.several


def _role_after_fillers(found: FoundLetter) -> Role:
    """The role of a letter in a sentence with no other content: "Probably option C"."""
    words = found.words
    names_option = any(map(_means_option, words))
    if words[0] in ("and", "or"):
        return Role.MENTION  # the end of a sentence that was cut off
    if not words_of.QUALITIES.isdisjoint(words) and (names_option or found.ends_statement):
        return Role.DECLARED
    if not names_option:
        return Role.ALONE if found.is_statement else Role.MENTION
    # "The letter A is on the board" may be a thing in the video, and "Option A is about a dog" only
    # tells what an option says.
    is_described = "letter" in words or found.tail.startswith(" is ")
    stated = found.is_statement if is_described else found.ends_statement
    return Role.NAMED if stated else Role.MENTION


def _role_after_mark(found: FoundLetter, phrase: _Phrase) -> Role:
    """The role of a letter after a colon or dash: "Correct option: C", "Output: C"."""
    label = [word for word in phrase.subject if word not in words_of.MARKS and word != ","]
    if _introduces_list(label):
        return Role.MENTION
    if any(map(_announces, label)):
        return Role.DECLARED
    if not words_of.OTHER_LABELS.isdisjoint(label):
        return Role.MENTION
    if not label:
        return Role.ALONE if found.is_statement else Role.MENTION
    is_direct = not phrase.between or phrase.names_option
    is_short = phrase.announcing in (":", "=") and len(label) <= 3
    if is_direct and found.ends_statement and (is_short or phrase.announcing in words_of.ARROWS):
        return Role.CHOSEN
    return Role.MENTION


def _introduces_list(label: Sequence[str]) -> bool:
    """True for "Options:" and "The options are:", but not for "Correct options:"."""
    helpers = words_of.FILLERS | words_of.COPULAS
    named = [word for word in label if word not in helpers]
    return bool(named) and words_of.LISTING.issuperset(named)


def _role_after_copula(found: FoundLetter, phrase: _Phrase) -> Role:
    """The role of a letter after "is": "the answer is C", "it is C"; not "the player is C"."""
    subject = phrase.subject
    if any(_announces(word) or word in words_of.QUALITIES for word in subject):
        return Role.DECLARED
    if (found.has_text or found.enclosed) and words_of.NOUN_JOINTS.isdisjoint(phrase.between):
        return Role.CHOSEN  # "The road sign is (C) Stop"
    stated = (
        not subject
        or subject[-1] in words_of.SUBJECTS
        or "'" in phrase.announcing
        or phrase.names_option
    )
    if not stated and subject[-1] in words_of.FILLERS:  # "it must be C", "must be C"
        helpers = words_of.FILLERS | words_of.COPULAS
        stated = not words_of.SUBJECTS.isdisjoint(subject) or helpers.issuperset(subject)
    return Role.CHOSEN if stated and found.ends_statement else Role.MENTION


def _role_after_word(found: FoundLetter, phrase: _Phrase) -> Role:
    word = phrase.announcing
    if _means_answer(word) and word not in words_of.THINGS:
        stated = found.ends_statement or found.has_text
        return Role.DECLARED if stated else Role.MENTION  # "The answer A would need …"
    if word in words_of.POINTING_VERBS and (found.several or not phrase.between):
        return Role.MENTION  # "points A and B"
    if word in words_of.CHOICE_VERBS or (word in words_of.CONCLUSIONS and found.ends_statement):
        return Role.CHOSEN
    if found.has_text:
        return Role.NAMED
    # For example "three people, option C."
    in_apposition = word == "(" or ("," in phrase.between and found.tail.startswith("."))
    is_named = found.enclosed or (phrase.names_option and in_apposition)
    return Role.NAMED if is_named and found.is_statement else Role.MENTION


def _may_be_between(word: str) -> bool:
    if word in words_of.COPULAS or word in words_of.CHOICE_VERBS or _means_answer(word):
        return False
    return (
        word in words_of.FILLERS
        or word in words_of.QUALITIES
        or word.endswith("ly")
        or _means_option(word)
    )


def _announces(word: str) -> bool:
    return _means_answer(word) or _means_option(word)


def _means_answer(word: str) -> bool:
    return word in words_of.ANSWER_NOUNS or (
        not word.isascii() and words_of.ANNOUNCES_UNSPACED.search(word) is not None
    )


def _means_option(word: str) -> bool:
    return word in words_of.OPTION_NOUNS or (
        not word.isascii() and words_of.NAMES_UNSPACED.search(word) is not None
    )
