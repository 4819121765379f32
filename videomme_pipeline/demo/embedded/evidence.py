"""The lines of text from pictures and subtitles that may answer a question."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.demo.embedded.pictures import PictureFacts
from videomme_pipeline.prompts.render import Prompt

MAX_EVIDENCE_LINES = 2

_WORD = re.compile(r"[^\W_]+(?::\d\d)?")
_CLOCK = re.compile(r"\b(\d{1,2}):([0-5]\d)\b")
_COMMON = frozenset(
    {"a", "an", "and", "are", "at", "by", "did", "do", "does", "for", "from", "how", "in", "is",
     "it", "its", "of", "on", "or", "shown", "that", "the", "this", "to", "video", "was", "what",
     "when", "where", "which", "who", "why", "with"}
)  # fmt: skip


def spoken_lines(prompt: Prompt, question: Question) -> tuple[str, ...]:
    """The distinct lines of a prompt after its frames and before its question."""
    if not prompt.subtitle_lines:
        return ()
    before = prompt.text.partition(question.question)[0]
    lines = (line.strip() for text in (*prompt.after_frame, before) for line in text.split("\n"))
    return tuple(dict.fromkeys(line for line in lines if line))


def choose_evidence(
    question: Question, facts: Sequence[PictureFacts], spoken: Sequence[str]
) -> tuple[str, ...]:
    """The lines that share the rarest words with the question and its options.

    Pictures come before subtitles. A clock time in the question selects the picture nearest to it.
    Without one, a best line from a picture is followed by the next picture and nothing else, since
    the question may be about what happens next. Without a match, it is the text of most pictures.
    """
    described = [fact.describe() for fact in facts]
    lines = [*described, *spoken]
    if not lines:
        return ()
    words = [_words(line) for line in lines]
    frequency = Counter(word for line_words in words for word in line_words)
    question_words = _words(question.question)
    option_words = {
        word for letter in question.letters for word in _words(question.option_text(letter))
    } - question_words
    nearest = _nearest(question.question, facts)

    def weight(number: int) -> float:
        in_question = _rarity(words[number] & question_words, frequency, len(lines))
        in_options = _rarity(words[number] & option_words, frequency, len(lines))
        return in_question + 0.2 * in_options + (10.0 if number == nearest else 0.0)

    ranked = sorted(range(len(lines)), key=lambda number: (-weight(number), number))
    best = [number for number in ranked[:MAX_EVIDENCE_LINES] if weight(number) > 0]
    if not best:
        return _seen_throughout(facts)
    if best[0] < len(described) and nearest is None:
        best = [*range(best[0], min(best[0] + 2, len(described)))]
    return tuple(lines[number] for number in sorted(best))


def _seen_throughout(facts: Sequence[PictureFacts]) -> tuple[str, ...]:
    seen = Counter(text for fact in facts for text in {item.text for item in fact.texts})
    title = [text for text, count in sorted(seen.items()) if 2 * count > len(facts)]
    return (f"The title is {', '.join(title)}.",) if title else ()


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if word not in _COMMON}


def _rarity(words: Iterable[str], frequency: Mapping[str, int], lines: int) -> float:
    return sum(math.log(1 + lines / frequency[word]) for word in words)


def _nearest(question: str, facts: Sequence[PictureFacts]) -> int | None:
    clock = _CLOCK.search(question)
    if not clock or not facts:
        return None
    asked_seconds = 60 * int(clock.group(1)) + int(clock.group(2))
    return min(range(len(facts)), key=lambda number: abs(facts[number].seconds - asked_seconds))
