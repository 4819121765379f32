"""The interface of an answer reader: its arguments and its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from videomme_pipeline.benchmarks.question import Letter


@dataclass(frozen=True, slots=True)
class Reading:
    """The letter read from one response, or None, and the reason.

    `rule` is the name of the rule that decided, even if no letter was read. `span` is the decisive
    part of the original response, `response[start:end]`, or None if there is no such part.
    """

    letter: Letter | None
    rule: str
    span: tuple[int, int] | None = None


Reader = Callable[[str, Sequence[Letter], Sequence[str]], Reading]
"""A function from a response, the offered letters and the texts of the options to a reading."""
NO_LETTER = Reading(None, "no_letter")
"""The reading of a response in which the reader finds no letter."""
