"""The answer readers of the published evaluators, with their quirks.

They reproduce published numbers question by question. docs/readers.md lists the quirks, and
measures how often each reader is wrong. Do not fix their errors here. Only `official_v1` and
`official_v2` define a published score.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.reading import NO_LETTER, Reading

_ANSWERS = ("The best answer is", "The correct answer is", "The answer is", "The answer")
_OFFICIAL_V1_PHRASES = (
    *_ANSWERS,
    "The best option isThe correct option is",
    "Best answer:Best option:",
    *("Answer:", "Option:", "The correct answer", "The correct option"),
)
_V2_PHRASES = (
    *("Final Answer:", *_ANSWERS),
    *("The best option is", "The correct option is", "Best answer:", "Best option:"),
    *("Answer:", "Option:"),
)


@dataclass(frozen=True, slots=True)
class FirstCapital:
    """A reader that cuts phrases out and reads the first capital of `capitals` that is left."""

    phrases: Sequence[str]
    capitals: re.Pattern[str]

    def __call__(
        self, response: str, _letters: Sequence[Letter], _options: Sequence[str], /
    ) -> Reading:
        text, positions = response, list(range(len(response)))  # of the characters in `text`
        for phrase in self.phrases:
            pieces = text.split(phrase)
            if len(pieces) > 1:
                kept, start = list[int](), 0
                for piece in pieces:
                    kept += positions[start : start + len(piece)]
                    start += len(piece) + len(phrase)
                text, positions = "".join(pieces), kept
        capital = self.capitals.search(text)
        if capital is None:
            return NO_LETTER
        start = positions[capital.start()]
        return Reading(letter=Letter(capital[0]), rule="first_capital", span=(start, start + 1))


OFFICIAL_V1 = FirstCapital(_OFFICIAL_V1_PHRASES, re.compile("[ABCD]"))
"""The reader of the official Video-MME script.

Source: `eval_your_results.py` (thanku-all/parse_answer at commit afd52cf). The script's special
case for long texts (more than ten words without a capital A–D) has the same result: no letter."""
OFFICIAL_V1_FIRST_RELEASE = replace(OFFICIAL_V1, phrases=_OFFICIAL_V1_PHRASES[:6])
"""The reader of the first release of the official v1 script, and of older copies of lmms-eval.

It does not cut "Answer:" and "Option:"."""
OFFICIAL_V2 = FirstCapital(_V2_PHRASES, re.compile("[A-H]"))
"""The reader of the official Video-MME-v2 script (commit b24176a)."""


def read_vlmevalkit(response: str, letters: Sequence[Letter], options: Sequence[str], /) -> Reading:
    """VLMEvalKit's rule (commit e8e78f0), v1 or v2 by the number of letters on offer.

    v1 (up to four letters) is the official reader: the two phrases that only that one cuts, "The
    correct answer" and "The correct option", contain no capital A–D. v2 is `official_v2`.
    """
    read = OFFICIAL_V2 if len(letters) > len("ABCD") else OFFICIAL_V1
    return read(response, letters, options)


def read_lmms_eval(response: str, letters: Sequence[Letter], _options: Sequence[str], /) -> Reading:
    """The reader that lmms-eval's multiple-choice tasks share (commit 75571cf).

    Every occurrence of an offered letter in one of nine formats is a candidate. The format of the
    highest rank wins, and among its candidates the rightmost.
    """
    text = response.strip()
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    text = text.strip()
    candidates = list(_ranked_candidates(text, letters)) or [
        (0, index, letter) for letter in letters if (index := text.rfind(letter)) >= 0
    ]
    if not candidates:
        return NO_LETTER
    rank, position, letter = max(candidates)
    start = response.find(text) + position
    return Reading(letter=letter, rule=_RANK_NAMES[rank], span=(start, start + 1))


_RANK_NAMES = {10: "start", 9: "end", 7: "phrase", 6: "parentheses", 5: "period", 4: "colon"}
_RANK_NAMES |= {3: "right_parenthesis", 2: "space", 0: "last_capital"}
_MARKS = ((6, "(", ")"), (5, "", "."), (4, "", ":"), (3, "", ")"), (2, "", " "))
_NOUNS = {
    "answer": ("", "the ", "correct ", "the correct ", "best ", "the best ", "my "),
    "option": ("correct ", "the correct ", "best ", "the best "),
    "choice": ("", "the ", "correct ", "the correct ", "my "),
}
_PHRASES = (
    *(f"{before}{noun} is" for noun, befores in _NOUNS.items() for before in befores),
    *("i choose", "i select", "i pick"),
    *("옵션", "정답은", "답은", "답:", "答案是", "答案为", "选", "答えは"),
)


def _ranked_candidates(text: str, letters: Sequence[Letter]) -> Iterator[tuple[int, int, Letter]]:
    """Every candidate as (rank, position, letter)."""
    lowered = text.lower()
    after_phrases = [
        start + len(phrase) for phrase in _PHRASES if (start := lowered.find(phrase)) >= 0
    ]
    ended = text + " "
    for letter in letters:
        if text.startswith(letter) and not text[1:2].isalpha():
            yield 10, 0, letter
        if text.endswith(letter) and not text[-2:-1].isalpha():
            yield 9, len(text) - 1, letter
        for start in after_phrases:
            if (index := text.find(letter, start)) >= 0:
                yield 7, index, letter
        for rank, before, after in _MARKS:
            if (index := ended.rfind(f"{before}{letter}{after}")) >= 0:
                yield rank, index + len(before), letter
