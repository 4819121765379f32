"""Build the clips for measurements of decoding, and print the facts that determine its cost.

    python -m perf.clips [--quick] [--json] [--folder FOLDER] [--facts VIDEO …]

Clips are built once and kept in the folder. `--facts` prints the facts of any H.264 mp4 instead.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from tests.support.clips import CLIPS, DEFAULT_FOLDER, QUICK, clip, facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the smallest clip")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--facts", type=Path, nargs="+", help="only the facts of these videos")
    arguments = parser.parse_args()
    chosen = QUICK if arguments.quick else CLIPS
    result = {}
    for path in arguments.facts or (clip(w.name, arguments.folder) for w in chosen):
        megabytes = path.stat().st_size / 1e6
        result[path.name] = {"megabytes": megabytes, **asdict(facts(path))}
        print(f"{path}: {megabytes:.0f} MB")
        for name, value in asdict(facts(path)).items():
            print(f"    {name} {'–' if value is None else format(value, '.3g')}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
