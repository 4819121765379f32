"""All answer readers by name, and their application to one response or to JSON lines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import ScoringError
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
    ReaderName.CAREFUL: RegisteredReader(read_careful, version="32"),
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


def read_lines(
    lines: Iterable[str], reader: ReaderName, letters: Sequence[Letter]
) -> Iterator[dict[str, Any]]:
    """Each JSON line `{"response": …, "options": […]?, …}` with `letter`, `rule` and `span` added.

    A line with `options` offers a letter for each of them, the others offer `letters`. `letter` is
    "" if none was read; `span` is [start, end] or None. A null response has the rule
    "no_response" and no letter. A line that cannot be used becomes
    `{"line": number, "error": …}`. Blank lines are skipped.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            item, reading = _read_line(line, reader, letters)
        except ScoringError as error:
            yield {"line": number, "error": f"line {number} {error}"}
            continue
        yield {
            **item,
            "letter": reading.letter.value if reading.letter else "",
            "rule": reading.rule,
            "span": list(reading.span) if reading.span else None,
        }


def _read_line(
    line: str, reader: ReaderName, letters: Sequence[Letter]
) -> tuple[dict[str, Any], Reading]:
    try:
        item = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ScoringError(f"is not JSON ({error}); write one JSON object per line") from error
    if not isinstance(item, dict) or not isinstance(item.get("response", 0), str | None):
        raise ScoringError('is not an object with a response text; write {"response": "B."}')
    options = item.get("options") or ()
    if not isinstance(options, list | tuple) or not all(isinstance(text, str) for text in options):
        raise ScoringError(
            'has `options` that are not a list of texts; write {"options": ["Apples."]}'
        )
    if len(options) > len(Letter):
        raise ScoringError(f"has {len(options)} `options`, but there are {len(Letter)} letters")
    if item["response"] is None:
        return item, Reading(None, "no_response")
    offered = tuple(Letter)[: len(options)] if options else letters
    return item, read_answer(reader, item["response"], letters=offered, options=options)
