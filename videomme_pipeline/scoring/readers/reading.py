"""What every answer reader gives back, and what it is given.

How a letter is read belongs to the readers; what a letter is worth, to the scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from videomme_pipeline.benchmarks.question import Letter


@dataclass(frozen=True, slots=True)
class Reading:
    """The letter read from one response, and how.

    `rule` names the rule that decided, also where no letter was read. `span` is where the
    decision was read: `response[start:end]`, counted in the response as it was given, whatever
    was set aside on the way; None where the decision rests on no place in particular.
    """

    letter: Letter | None
    rule: str
    span: tuple[int, int] | None


class Reader(Protocol):
    """A reader: a response, the letters on offer and the options' texts in; a reading out."""

    def __call__(
        self, response: str, letters: Sequence[Letter], options: Sequence[str], /
    ) -> Reading: ...


NO_LETTER = Reading(letter=None, rule="no_letter", span=None)
"""Nothing in the response is a letter for this reader."""
