"""Agreement of readers with the letters that a person noted beside responses."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer

KINDS = ("right", "false", "wrong", "missed")
"""`false` is a letter where a person reads none, `missed` is no letter where a person reads one."""


def labelled_responses(path: Path) -> list[dict[str, Any]]:
    """The lines `{"response": …, "intended": "C" or "", "options": […]?, "letters": "ABCD"?}`."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def letters_read(row: Mapping[str, Any]) -> dict[ReaderName, str]:
    """The letter that each reader reads, "" for none."""
    return {reader: letter_read(reader, row) for reader in ReaderName}


def letter_read(reader: ReaderName, row: Mapping[str, Any]) -> str:
    options: Sequence[str] = row.get("options") or ()
    offered = tuple(Letter)[: len(options)] or tuple(map(Letter, row.get("letters", "ABCD")))
    return read_answer(reader, row["response"], letters=offered, options=options).letter or ""


def counts(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The number of pairs (letter read, letter intended) of each of `KINDS`."""
    numbers = dict.fromkeys(KINDS, 0)
    for letter, intended in pairs:
        if letter == intended:
            numbers["right"] += 1
        elif not intended:
            numbers["false"] += 1
        else:
            numbers["wrong" if letter else "missed"] += 1
    return numbers
