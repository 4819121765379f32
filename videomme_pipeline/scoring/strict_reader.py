"""The default reader: the letter that a careful person reads, or none."""

from collections.abc import Sequence

from videomme_pipeline.annotations.question import Letter
from videomme_pipeline.scoring.reading import NO_LETTER, Reading


def read_strict(response: str, letters: Sequence[Letter], _options: Sequence[str], /) -> Reading:
    """The letter that a careful person reads in `response`."""
    trimmed = response.strip()
    if trimmed in letters:
        start = response.find(trimmed)
        return Reading(letter=Letter(trimmed), rule="bare_letter", span=(start, start + 1))
    return NO_LETTER
