"""CPU time to read 2,700 responses with each reader.

    python -m perf.reading [--quick] [--json]

The responses are the made-up ones of the tests, repeated, with four options each. Every tenth is
preceded by a paragraph of reasoning. Times are CPU seconds of this process without imports, the
median of five rounds (one with --quick).

Long texts are the made-up texts with values, each after 700 or more characters of sentences that
are no answer. `careful` reads them with the options of their questions.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from itertools import cycle, islice

from tests.support.paths import GOLDEN
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer

RECORDED = GOLDEN / "extraction.jsonl"
LETTERS = tuple(Letter)[:4]
OPTIONS = ("A. A red umbrella.", "B. A blue coat.", "C. A man in a hat.", "D. A black dog.")
REASONING = (
    "<think>The first frames show a street in the rain. A man opens an umbrella; option B is out, "
    "as nobody wears a coat, and D would need a dog. Let me check the last frames again.</think>"
)
VALUES = GOLDEN / "value_forms.jsonl"
SENTENCE = "The person walks from the left to the right, and the value grows by 3 each time. "
LENGTHS = (700, 2_800, 14_000)
RESPONSES = 2_700


def responses() -> list[str]:
    rows = [json.loads(line)["response"] for line in RECORDED.read_text("utf-8").splitlines()]
    return [
        REASONING + row if index % 10 == 0 else row
        for index, row in enumerate(islice(cycle(rows), RESPONSES))
    ]


def cpu_seconds(reader: ReaderName, texts: Sequence[str]) -> float:
    started = time.process_time()
    for text in texts:
        read_answer(reader, text, letters=LETTERS, options=OPTIONS)
    return time.process_time() - started


def milliseconds_per_700_characters(length: int, rounds: int) -> float:
    """The least time of `careful` for 700 characters of texts with `length` more characters."""
    rows = [json.loads(line) for line in VALUES.read_text("utf-8").splitlines()]
    before = SENTENCE * -(-length // len(SENTENCE))
    texts = [(before + row["response"], row["options"]) for row in rows]
    least = math.inf
    for _ in range(rounds):
        started = time.process_time()
        for text, options in texts:
            letters = tuple(Letter)[: len(options)]
            read_answer(ReaderName.CAREFUL, text, letters=letters, options=options)
        least = min(least, time.process_time() - started)
    return 700_000 * least / sum(len(text) for text, _ in texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round instead of five")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    texts = responses()
    rounds = 1 if arguments.quick else 5
    for reader in ReaderName:
        cpu_seconds(reader, texts[:50])
    medians = {
        reader.value: statistics.median(cpu_seconds(reader, texts) for _ in range(rounds))
        for reader in ReaderName
    }
    for name, seconds in medians.items():
        print(f"{name:28} {seconds:.3f} s CPU for {len(texts):,} responses")
    long = {length: milliseconds_per_700_characters(length, rounds) for length in LENGTHS}
    for length, milliseconds in long.items():
        print(f"careful, {length:,} more characters: {milliseconds:.2f} ms CPU per 700 characters")
    if arguments.json:
        figures = {"responses": len(texts), "rounds": rounds, "cpu_seconds": medians}
        print(json.dumps(figures | {"long_ms_per_700_characters": long}))


if __name__ == "__main__":
    main()
