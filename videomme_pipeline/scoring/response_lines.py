"""A reader applied to JSON lines, as `videomme read` does."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.errors import ScoringError
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer
from videomme_pipeline.scoring.readers.reading import Reading


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
        try:
            if line.strip():
                yield _read_line(line, reader, letters)
        except ScoringError as error:
            yield {"line": number, "error": f"line {number} {error}"}


def _read_line(line: str, reader: ReaderName, letters: Sequence[Letter]) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ScoringError(f"is not JSON ({error}); write one JSON object per line") from error
    if not isinstance(item, dict) or not isinstance(item.get("response", 0), str | None):
        raise ScoringError('is not an object with a response text; write {"response": "B."}')
    options = item.get("options") or ()
    if not isinstance(options, list | tuple) or not all(isinstance(text, str) for text in options):
        raise ScoringError(
            'has `options` that are no list of texts; write {"options": ["Apples."]}'
        )
    if len(options) > len(Letter):
        raise ScoringError(f"has {len(options)} `options`, but there are {len(Letter)} letters")
    reading = Reading(None, "no_response")
    if item["response"] is not None:
        offered = tuple(Letter)[: len(options)] if options else letters
        reading = read_answer(reader, item["response"], letters=offered, options=options)
    span = list(reading.span) if reading.span else None
    return {**item, "letter": reading.letter or "", "rule": reading.rule, "span": span}
