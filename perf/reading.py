"""CPU time to read 2,700 responses with each reader.

    python -m perf.reading [--quick] [--json]

The responses are the made-up ones of the tests, repeated, with four options each. Every tenth is
preceded by a paragraph of reasoning. Times are CPU seconds of this process without imports, the
median of five rounds (one with --quick).
"""

import argparse
import json
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
    if arguments.json:
        print(json.dumps({"responses": len(texts), "rounds": rounds, "cpu_seconds": medians}))


if __name__ == "__main__":
    main()
