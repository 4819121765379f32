"""All answer readers by name, and their application to one response."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers import published
from videomme_pipeline.scoring.readers.careful import read_careful
from videomme_pipeline.scoring.readers.reading import Reader, Reading


class ReaderName(StrEnum):
    """A reader. `careful` is our own, the others reproduce published evaluators with quirks."""

    CAREFUL = "careful"
    OFFICIAL_V1 = "official_v1"
    OFFICIAL_V1_FIRST_RELEASE = "official_v1_first_release"
    OFFICIAL_V2 = "official_v2"
    LMMS_EVAL = "lmms_eval"
    VLMEVALKIT = "vlmevalkit"


@dataclass(frozen=True, slots=True)
class RegisteredReader:
    """A reader and its version.

    The version is part of the fingerprint of everything that depends on a reading. Raise it
    whenever the reader reads any response differently, so that earlier scores become stale.
    """

    read: Reader
    version: str = "1"


READERS: Mapping[ReaderName, RegisteredReader] = {
    ReaderName.CAREFUL: RegisteredReader(read_careful, version="41"),
    ReaderName.OFFICIAL_V1: RegisteredReader(published.OFFICIAL_V1),
    ReaderName.OFFICIAL_V1_FIRST_RELEASE: RegisteredReader(published.OFFICIAL_V1_FIRST_RELEASE),
    ReaderName.OFFICIAL_V2: RegisteredReader(published.OFFICIAL_V2),
    ReaderName.LMMS_EVAL: RegisteredReader(published.read_lmms_eval),
    ReaderName.VLMEVALKIT: RegisteredReader(published.read_vlmevalkit),
}


def read_answer(
    reader: ReaderName, response: str, *, letters: Sequence[Letter], options: Sequence[str] = ()
) -> Reading:
    """The reading of `response` by `reader`.

    The question offers `letters`, with `options` in the same order ("A. Apples." or "Apples."), by
    which `careful` recognizes an option without its letter. The published readers ignore `options`.
    """
    return READERS[reader].read(response, letters, options)
