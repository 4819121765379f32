"""The answer readers of the published evaluators, with their quirks.

They reproduce published numbers question by question; docs/readers.md measures how often each of
them is wrong. Do not fix their errors here. Only `official_v1` and `official_v2` define a
published score.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.reading import NO_LETTER, Reading

_OFFICIAL_V1_PHRASES = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option isThe correct option is",
    "Best answer:Best option:",
    "Answer:",
    "Option:",
    "The correct answer",
    "The correct option",
)
# The first release of the script had only these.
_FIRST_RELEASE_PHRASES = _OFFICIAL_V1_PHRASES[:6]
_VLMEVALKIT_V1_PHRASES = _OFFICIAL_V1_PHRASES[:8]
_V2_PHRASES = (
    "Final Answer:",
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option is",
    "The correct option is",
    "Best answer:",
    "Best option:",
    "Answer:",
    "Option:",
)
_V1_LETTERS = re.compile("[ABCD]")
_V2_LETTERS = re.compile("[A-H]")


def read_official_v1(
    response: str, _letters: Sequence[Letter], _options: Sequence[str], /
) -> Reading:
    """The reader of the official Video-MME script.

    It cuts known phrases out and reads the first capital A, B, C or D. Source:
    `eval_your_results.py` (thanku-all/parse_answer at commit afd52cf).

    Quirks, and the effect of each on a score:

    - The first capital A–D *anywhere* counts, inside words too: "Dogs run" reads D, "I think a
      dog. Because" reads B, "N/A" reads A, "Cannot be determined" reads C, and a refusal that
      begins "As an AI" reads A. Errors and refusals become answers.
    - "Final Answer: H. Chinese" reads C: no word boundary, and letters after D are ignored.
    - Two commas are missing in the script's list, so that "The best option is", "The correct
      option is", "Best answer:" and "Best option:" are never cut: "Best answer: D" reads B.
    - "The answer" is cut everywhere; upper case ("THE ANSWER IS C" reads A) and
      "Final answer is" are not.
    - Lower-case and full-width letters are never read. Such a question is not in the official
      denominator (accuracy = correct / answered), which raises the score.
    - Reasoning is not removed: the first letter of a <think> block wins over the answer after it.
    - The offered letters are ignored: D is read for a question with three options.

    The script's special case for long texts (more than ten words without a capital A–D) has the
    same result as the general rule: no letter.
    """
    return _first_capital(response, _OFFICIAL_V1_PHRASES, _V1_LETTERS)


def read_official_v1_first_release(
    response: str, _letters: Sequence[Letter], _options: Sequence[str], /
) -> Reading:
    """The reader of the first release of the official v1 script.

    Unlike `read_official_v1`, it does not cut "Answer:" and "Option:". "Answer: C" reads A, so
    every answer that starts with "Answer:" is read as A. Older copies of lmms-eval do the same.
    """
    return _first_capital(response, _FIRST_RELEASE_PHRASES, _V1_LETTERS)


def read_official_v2(
    response: str, _letters: Sequence[Letter], _options: Sequence[str], /
) -> Reading:
    """The reader of the official Video-MME-v2 script (commit b24176a).

    It cuts known phrases out and reads the first capital A to H.

    It shares these quirks with v1: capitals inside words are read, lower case is not, reasoning is
    not removed, and letters that the question does not offer are read. Further quirks:

    - With eight letters nearly every English sentence reads something: "Final answer: d" reads
      F, "Frame 1 shows a dog. Answer: B" reads F, "Hello" reads H, "Error" reads E.
    - "Final Answer:" is cut first; "**Final Answer:**" too, "Final answer:" and
      "FINAL ANSWER:" are not.
    - All four phrases that v1 loses to its missing commas are cut here.
    """
    return _first_capital(response, _V2_PHRASES, _V2_LETTERS)


def read_vlmevalkit(
    response: str, letters: Sequence[Letter], _options: Sequence[str], /
) -> Reading:
    """VLMEvalKit's rule (commit e8e78f0), v1 or v2 by the number of letters on offer.

    v1 (up to four letters) is the official reader with the same two commas missing. "The correct
    answer" and "The correct option" are not cut, which changes nothing because neither contains
    a capital A–D. v2 is `official_v2`.

    With a judge model, VLMEvalKit sends it the responses that the rule could not read. With
    exact matching, which is reproduced here, it reads them as the letter Z, which is wrong. This
    function returns no letter for them.
    """
    if len(letters) > len("ABCD"):
        return _first_capital(response, _V2_PHRASES, _V2_LETTERS)
    return _first_capital(response, _VLMEVALKIT_V1_PHRASES, _V1_LETTERS)


def read_lmms_eval(response: str, letters: Sequence[Letter], _options: Sequence[str], /) -> Reading:
    """The reader that lmms-eval's multiple-choice tasks share (commit 75571cf).

    Every occurrence of an offered letter in one of nine formats is a candidate. The format of the
    highest rank wins, and among its candidates the rightmost.

    Quirks, and the effect of each on a score:

    - Rank 10 is a capital that opens the response before anything but a letter: "A man is
      riding" reads A, "A, C" reads A, "A: C" reads A; then (9) a capital that closes it after
      anything but a letter: "◁think▷Consider A◁/think▷D" reads D.
    - After a phrase such as "the answer is" (rank 7), the first occurrence of each letter is a
      candidate and the rightmost wins: a D anywhere later beats the B next to the phrase, and
      capitals inside words count.
    - Formats have no left boundary: "NBA." contains "A.", so it reads A.
    - Without any format the last offered capital anywhere decides: "Best answer: H" reads B
      for four options, '{"option": "D", "reason": "Both dogs bark"}' reads B.
    - Lower-case and full-width letters are never read.
    - lmms-eval removes reasoning in <think> tags before this reader, if the model is configured so.
      It is not removed here.
    """
    shift, text = _trimmed(response)
    candidates = list(_ranked_candidates(text, letters)) or [
        (0, index, letter) for letter in letters if (index := text.rfind(letter)) >= 0
    ]
    if not candidates:
        return NO_LETTER
    rank, position, letter = max(candidates)
    start = shift + position
    return Reading(letter=letter, rule=_RANK_NAMES[rank], span=(start, start + 1))


def _first_capital(response: str, phrases: Sequence[str], capitals: re.Pattern[str]) -> Reading:
    left = _Cut(response)
    for phrase in phrases:
        left = left.without(phrase)
    capital = capitals.search(left.text)
    if capital is None:
        return NO_LETTER
    start = left.original_position(capital.start())
    return Reading(letter=Letter(capital.group()), rule="first_capital", span=(start, start + 1))


@dataclass(frozen=True, slots=True)
class _Cut:
    """A text without some phrases, and the positions at which they were cut."""

    text: str
    cuts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """For each phrase its length, and the length of the remaining text before each occurrence."""

    def without(self, phrase: str) -> "_Cut":
        starts = [match.start() for match in re.finditer(re.escape(phrase), self.text)]
        if not starts:
            return self
        kept_before = tuple(start - index * len(phrase) for index, start in enumerate(starts))
        return _Cut(self.text.replace(phrase, ""), (*self.cuts, (len(phrase), kept_before)))

    def original_position(self, position: int) -> int:
        for length, kept_before in reversed(self.cuts):
            position += length * bisect_right(kept_before, position)
        return position


_RANK_NAMES = {
    10: "start",
    9: "end",
    7: "phrase",
    6: "parentheses",
    5: "period",
    4: "colon",
    3: "right_parenthesis",
    2: "space",
    0: "last_capital",
}
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


def _trimmed(response: str) -> tuple[int, str]:
    """The number of characters cut from the front, and `response` without outer marks."""
    text = response.strip()
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    text = text.strip()
    return response.find(text), text


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
