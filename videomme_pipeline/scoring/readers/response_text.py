"""Text of a response without reasoning, markup and look-alike characters.

No function here changes the position of a character: removed text is replaced by spaces, so that
every span is also a span of the original response.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

from videomme_pipeline.scoring.readers.answer_words import PATTERNS

Span = tuple[int, int]
"""The start and the end of a part of a text."""

_REASONING_TAGS = (
    "think|thinking|thought|thoughts|analysis|reasoning|reason|scratchpad|reflection"
    "|(?:tool|function)_call"
)
_OPEN = (
    rf"(?:<(?:seed:)?(?:{_REASONING_TAGS})>|◁think▷|\[THINK\]|<unused94>|<\|begin_of_thought\|>)"
)
_CLOSE = (
    rf"(?:</(?:seed:)?(?:{_REASONING_TAGS})>|◁/think▷|\[/THINK\]|<unused95>|<\|end_of_thought\|>)"
)
_REASONING_MARK = re.compile(rf"(?P<open>{_OPEN})|{_CLOSE}", re.IGNORECASE)
# Harmony-style channels: all but the final one contain reasoning. If a server removed their marks,
# their names touch the texts: "analysisThe man …assistantfinalB".
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>"
    r"|(?:\A\s*(?=analysis(?![a-z\s.:,-]))|assistant)(analysis|commentary|final)"
)
_MARKUP = re.compile(
    r"<\|(?![A-Z]\|>)[^|<>\n]{1,40}\|>"  # special tokens of chat templates, not <|C|>
    rf"|</?(?!(?:{_REASONING_TAGS})>)(?:[siubp]|em|br|t[drh]|li|[uo]l|[a-z][a-z_]{{2,20}})"
    r"(?:\s[^<>\n]{0,80})?/?>"
    r"|\[/?INST\]"
    r"|\\(?:boxed|fbox|text\w{0,8}|math\w{1,8}|displaystyle|bf|rm|left|right|quad|[,;!()\[\]])"
    r"|```[a-z]{0,12}",
    re.IGNORECASE,
)


def fold(text: str) -> str:
    """`text` with look-alike characters replaced by ASCII characters, one by one.

    Full-width, circled, squared, mathematical and (capital) Cyrillic and Greek look-alikes become
    letters. Quotation marks, brackets and full stops of other scripts become their ASCII
    equivalents, and unusual white space becomes a space.
    """
    folded = text.translate(_folding())
    if folded.isascii():
        return folded
    return _LONE_LOOK_ALIKE.sub(lambda alike: _LOOK_ALIKES[alike.group()], folded)


# Cyrillic and Greek capitals that look like an option's letter, outside of words.
_LOOK_ALIKES = dict(zip("АВСЕНΑΒϹΕΗ", "ABCEH" * 2, strict=True))
_LONE_LOOK_ALIKE = re.compile(rf"[{''.join(_LOOK_ALIKES)}](?!\w)(?<!\w.)")


def blank_reasoning(text: str) -> str:
    """`text` with reasoning blanked: tagged blocks, reasoning channels, reasoning JSON fields.

    A block that is never closed, or only at the end of the text, extends to the line "answer" or
    "assistant", or to a last line that is an answer ("Answer: B. Red"). Without such a line it
    extends to the end: the response was cut off before its answer. A closing tag without an opening
    one closes a block that the chat template opened.
    """
    may_have_block = any(bracket in text for bracket in "<[◁")  # the pattern is slow
    text = _blank_channels(_blank_blocks(text) if may_have_block else text)
    return PATTERNS["reasoning_field"].sub(_blank, text) if '"' in text else text


def set_markup_aside(text: str) -> str:
    """`text` with chat-template tokens, HTML tags, LaTeX commands and code fences blanked."""
    return _MARKUP.sub(_blank, text)


def _blank_blocks(text: str) -> str:
    spans: list[Span] = []
    opened: int | None = None
    for mark in _REASONING_MARK.finditer(text):
        if mark["open"]:
            opened = mark.start() if opened is None else opened
        elif opened is not None and not text[mark.end() :].strip():
            spans.append((opened, _reasoning_end(text, opened, mark.start())))
            return blank_spans(text, [*spans, mark.span()])
        else:
            start = spans[-1][1] if spans else 0  # the chat template opened the block
            spans.append((start if opened is None else opened, mark.end()))
            opened = None
    if opened is not None:
        spans.append((opened, _reasoning_end(text, opened, len(text))))
    return blank_spans(text, spans)


def _reasoning_end(text: str, opened: int, end: int) -> int:
    answers = list(PATTERNS["answer_line"].finditer(text[:end], opened))
    line = answers[-1][0].strip(" \n.") if answers else ""
    is_item = len(line) == 1 and f"\n{chr(ord(line) - 1)}." in text[opened:end]  # "A. …, B. …, C"
    return answers[-1].start() if answers and not is_item else end


def _blank_channels(text: str) -> str:
    marks = list(_CHANNEL.finditer(text)) if "analysis" in text or "final" in text else []
    if not marks:
        return text
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    spans = [
        (mark.start(), mark.end() if "final" in mark.groups() else end)
        for mark, end in zip(marks, ends, strict=True)
    ]
    return blank_spans(text, [(0, marks[0].start()), *spans])


def blank_spans(text: str, spans: Iterable[Span]) -> str:
    """`text` with `spans` blanked."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


_EQUIVALENTS = {
    '"': '“”„‟«»「」『』《》〈〉"',
    "'": "‘’‚‛´",
    "[": "【〔〖",
    "]": "】〕〗",
    ".": "。．｡",
    ",": "、､،",
    ":": "：︰﹕",
    ";": "；؛",
    "?": "？؟",
    " ": "\t\v\f\r\u00a0\u00ad\u034f\u061c\u180e\u3000\ufeff\ufe0e\ufe0f\u20e3",
    "\n": "\u0085\u2028\u2029",
}


@cache
def _folding() -> dict[int, str]:
    folding = {code: chr(code) for code in range(128)}  # a missing character costs an exception
    for code in (*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800), *range(0x2100, 0x2150)):
        plain = unicodedata.normalize("NFKC", chr(code))
        if len(plain) == 1 and plain.isascii():
            folding[code] = plain
    # Circled, squared and bracketed: Ⓐ 🄐 🄰 🅐 🅰 ⓐ ⒜
    upper, lower = (0x24B6, 0x1F110, 0x1F130, 0x1F150, 0x1F170), (0x24D0, 0x249C)
    for starts, first in ((upper, "A"), (lower, "a")):
        folding |= {start + n: chr(ord(first) + n) for start in starts for n in range(26)}
    for plain, alikes in _EQUIVALENTS.items():
        folding |= dict.fromkeys(map(ord, alikes), plain)
    spaces = (*range(8192, 8208), *range(8234, 8240), *range(8287, 8304))
    return folding | dict.fromkeys(spaces, " ")
