"""The words and patterns of `answer_words.toml`, which determine the role of a letter."""

import re
import tomllib
from collections.abc import Mapping
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

_FILE = resources.files(__package__).joinpath("answer_words.toml")
_LISTS = tomllib.loads(_FILE.read_text("utf-8"))
_PHRASES, _PATTERNS = _LISTS.pop("phrases"), _LISTS.pop("patterns")
_BEFORE, _AFTER = _LISTS.pop("before"), _LISTS.pop("after")
_FRAGMENTS = {**_LISTS.pop("fragments"), "word_letter": WORD_LETTER}
_FRAGMENTS["next_question"] = _PATTERNS["next_question"]
NUMBERS = {word: str(number) for number, word in enumerate(_LISTS.pop("numbers").split())}
SETS: Mapping[str, frozenset[str]] = {key: frozenset(own.split()) for key, own in _LISTS.items()}
"""The words of each list of `answer_words.toml`, by the name of the list."""


def _phrases(name: str) -> re.Pattern[str]:
    """A pattern for the phrases of one list as whole words."""
    either = _PHRASES[name].strip().replace(" ", r"\s").replace("\n", "|")
    begins, ends = f"(?<![{WORD_LETTER}])", f"(?:(?<![{WORD_LETTER}])|(?![{WORD_LETTER}]))"
    before, after = _BEFORE.get(name, ""), _AFTER.get(name, "")
    return re.compile(f"{before}{begins}(?:{either}){ends}{after}", re.IGNORECASE)


def _pattern(name: str) -> re.Pattern[str]:
    """A pattern of `answer_words.toml`, with the fragments that it names."""
    text = _PATTERNS[name]
    for fragment, part in _FRAGMENTS.items():
        text = text.replace(f"<{fragment}>", part)
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


class _Patterns(dict[str, re.Pattern[str]]):
    """Compiles a pattern when it is first used, since most commands read no answers."""

    def __missing__(self, name: str) -> re.Pattern[str]:
        self[name] = _phrases(name) if name in _PHRASES else _pattern(name)
        return self[name]


PATTERNS: Mapping[str, re.Pattern[str]] = _Patterns()
"""The phrases and patterns of `answer_words.toml` by their names."""
