"""Words and patterns that determine the role of a letter, in the languages of model answers.

`answer_words.toml` has most of them, and `careful` applies them. Add a word if a language or a
phrase is missing, not to fix the reading of one response.
"""

import re
import tomllib
from importlib import resources

WORD_LETTER = "0-9A-Za-z\u00c0-\u02af\u0370-\u052f"
"""Letters of scripts with spaces between words. In other scripts a letter may touch a word."""
_COMBINING = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff\u0e00-\u0e7f"
WORDS = re.compile(
    rf"[^\W\d_](?:[^\W\d_]|[{_COMBINING}])*(?:'[^\W\d_]+)?|\d+|->|=>|[:=→,;(–—-]", re.UNICODE
)
ARROWS = frozenset(("->", "=>", "→"))
MARKS = ARROWS | frozenset((":", "=", "-", "–", "—"))
"""Marks between a label and its value, without the comma."""


_LISTS = tomllib.loads(
    resources.files(__package__).joinpath("answer_words.toml").read_text("utf-8")
)
_PHRASES, _PATTERNS = _LISTS.pop("phrases"), _LISTS.pop("patterns")
_FRAGMENTS = {**_LISTS.pop("fragments"), "word_letter": WORD_LETTER}
NUMBERS = {word: str(number) for number, word in enumerate(_LISTS.pop("numbers").split())}
_WORD_SETS = {name: frozenset(words.split()) for name, words in _LISTS.items()}
ANSWER_NOUNS = _WORD_SETS["answer_nouns"]
THINGS = _WORD_SETS["things"]
OPTION_NOUNS = _WORD_SETS["option_nouns"]
LISTING = _WORD_SETS["listing"]
OFFERED = _WORD_SETS["offered"]
QUALITIES = _WORD_SETS["qualities"]
COPULAS = _WORD_SETS["copulas"]
SUBJECTS = _WORD_SETS["subjects"]
CHOICE_VERBS = _WORD_SETS["choice_verbs"]
PERSONAL_VERBS = _WORD_SETS["personal_verbs"]
FIRST_PERSON = _WORD_SETS["first_person"]
VISIBLE = _WORD_SETS["visible"]
PLACES = _WORD_SETS["places"]
POINTING_VERBS = _WORD_SETS["pointing_verbs"]
POINTERS = _WORD_SETS["pointers"]
CONCLUSIONS = _WORD_SETS["conclusions"]
FILLERS = _WORD_SETS["fillers"]
NOUN_JOINTS = _WORD_SETS["noun_joints"]
CLAUSE_JOINTS = _WORD_SETS["clause_joints"]
OTHER_LABELS = _WORD_SETS["other_labels"]
NO_VALUE = _WORD_SETS["no_value"]


def _phrases(name: str, before: str = "", after: str = "") -> re.Pattern[str]:
    """A pattern for the phrases of one list between `before` and `after`, as whole words."""
    either = _PHRASES[name].strip().replace(" ", r"\s").replace("\n", "|")
    begins, ends = f"(?<![{WORD_LETTER}])", f"(?:(?<![{WORD_LETTER}])|(?![{WORD_LETTER}]))"
    return re.compile(f"{before}{begins}(?:{either}){ends}{after}", re.IGNORECASE)


def _pattern(name: str) -> re.Pattern[str]:
    """A pattern of `answer_words.toml`, with the fragments that it names."""
    text = _PATTERNS[name].replace("<next_question>", _PATTERNS["next_question"])
    for fragment, part in _FRAGMENTS.items():
        text = text.replace(f"<{fragment}>", part)
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


CONCLUDES = _phrases("concludes", before=r"\W*")
EXPLAINS = _phrases("explains", before=r"\W*")
OFFERS_HELP = _phrases("offers_help", before=r"\W*")
HEDGES = _phrases("hedges")
CONTRAST = _phrases("contrast")
IN_PICTURE = _phrases("in_picture", before=r"\W*")
DECLARES = _phrases("declares", after=r"[\s*_$:(\"']*")
NEGATED = _phrases("negates", after=r"\W*$")
CONDITION = _phrases("condition", after="[^,;]*$")
CONDITION_AFTER = _phrases("condition_after", before=r"\s*[,;]?\s*(?:only\s)?")
ERROR_TEXT = _phrases("errors", before=r"[\W_]*+")
REFUSAL = _phrases("refuses")

ANNOUNCES_UNSPACED = _pattern("announces_unspaced")
NAMES_UNSPACED = _pattern("names_unspaced")
ARTICLE = _pattern("article")
TERMINAL = _pattern("terminal")
STATEMENT_DONE = _pattern("statement_done")
CASE = _pattern("case")
OTHER_CASE = _pattern("other_case")
OF_ANOTHER = _pattern("of_another")
QUESTION = _pattern("question")
DENIED = _pattern("denied")
APPOSITION = _pattern("apposition")
AFFIRMED = _pattern("affirmed")
ALSO_BEFORE = _pattern("also_before")
ALSO = _pattern("also")
PICKED = _pattern("picked")
SINGLED_OUT = _pattern("singled_out")
RIGHT = _pattern("right")
WRONG = _pattern("wrong")
ANOTHER_BEFORE = _pattern("another_before")
ANOTHER_AFTER = _pattern("another_after")
CORRECTION = _pattern("correction")
CHOOSES_NONE = _pattern("chooses_none")
QUESTION_NUMBER = _pattern("question_number")
NEXT_QUESTION = _pattern("next_question")
PROMPT = _pattern("prompt")
FORMAT_SENTENCE = _pattern("format_sentence")
ASSISTANT_TURN = _pattern("assistant_turn")
PREFERRED = _pattern("preferred")
SEEMS = _pattern("seems")
CLAUSE_END = _pattern("clause_end")
BASED_ON = _pattern("based_on")
BEFORE_CLAUSE = _pattern("before_clause")
BEFORE_VALUE = _pattern("before_value")

BRACKETED = re.compile(r"\((?:option )?([A-Z])\)", re.IGNORECASE)
LABEL_END = re.compile(
    r"[ \t]*(?:[.):,(\[{→–—|]|=[ ]?[^\W\d_]{3}[^\n\d=*+/^]*(?:\n|$)|[-/][ \t>]|[ \t]\""
    r"|[ \t](?:(?:The|It|He|She|They|There|This|Yes|No)\b|\$?\d[\d.,]*[ ]?[%°]?$))"
)
"""The text after a letter that labels what follows. "D = ST" is an equation."""
TEXT_THAT_DENIES = re.compile(r"[ \t]*(?:Not|None|No|Nothing|Nobody|Neither|Cannot|Can't|Never)\b")
"""The beginning of an option's text after "(D)". A denial of the letter is in lower case."""
DECLARED_SET = re.compile(
    r"""(?:nswers?|答案)[^\w\n]{0,4}(?:is|are|[为是])?[^\w\n]{0,4}
    (?=[A-N]{2,7}(?![A-Za-z]))A?B?C?D?E?F?G?(?![A-Za-z])""",
    re.VERBOSE,
)
"""A declared answer that is several letters: "The answer is BD"."""
