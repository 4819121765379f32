"""Share of responses in which each reader reads the letter that a person noted.

    python -m perf.readers [FILE.jsonl] [--json]

A line has a `response`, its `intended` letter ("" for none) and, if known, the `options` of the
question or its `letters` ("ABCD" by default). Without a file, the made-up responses with options of
the tests are read. The first table is of all responses, the second one of those that the readers do
not all read alike. Intervals are 95% Wilson intervals, which treat responses as independent.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.agreement import counts, labelled_responses, letters_read
from tests.support.paths import GOLDEN
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.statistics.estimates import wilson

Reading = tuple[Mapping[ReaderName, str], str]
"""The letter of each reader, and the intended one."""


def measure(readings: Sequence[Reading]) -> dict[str, dict[str, Any]]:
    """The counts of each reader with its rate of right readings and their interval, in percent."""
    rows: dict[str, dict[str, Any]] = {}
    for reader in ReaderName:
        numbers = counts((letters[reader], intended) for letters, intended in readings)
        low, high = wilson(numbers["right"], len(readings))
        rate = 100 * numbers["right"] / len(readings)
        rows[reader.value] = numbers | {"rate": rate, "low": 100 * low, "high": 100 * high}
    return rows


def table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    print(f"\n| {title} | right (95% interval) | false | wrong | missed |\n|---|---|---|---|---|")
    for name, row in rows.items():
        right = f"{row['rate']:.1f}% ({row['low']:.1f}–{row['high']:.1f})"
        print(f"| `{name}` | {right} | {row['false']} | {row['wrong']} | {row['missed']} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=GOLDEN / "option_forms.jsonl")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    readings = [(letters_read(row), row["intended"]) for row in labelled_responses(arguments.file)]
    disagreements = [reading for reading in readings if len(set(reading[0].values())) > 1]
    parts = {"responses": readings, "disagreements": disagreements}
    measured = {name: measure(part) for name, part in parts.items() if part}
    for name, rows in measured.items():
        table(f"{len(parts[name]):,} {name}", rows)
    if arguments.json:
        print(json.dumps(measured))


if __name__ == "__main__":
    main()
