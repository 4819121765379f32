"""CPU time of the frames of a sweep of 12 settings, compared with its most expensive setting.

    python -m perf.sweep [--quick] [--json]

Both runs use the drawn and real clips of the smoke benchmark and start without frames. The settings
are three samplings × with and without subtitles × two prompts. The medians of three turns are
shown; `--quick` compares once, with one video.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas

EXPENSIVE = ("--sampling", "uniform_n-64")
OTHERS = ("--sampling", "uniform_n-32", "--sampling", "fps_based-1-max-64")
SUBTITLES = ("--subtitles", "none", "--subtitles", "window-500")
PROMPTS = ("--prompt", "contract_v1", "--prompt", "official_v1")
TURNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one turn with one video")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        videomme(project, "init", "--demo")
        if arguments.quick:
            (project / "assets" / "benchmarks.yaml").write_text("smoke: {limit: 1}\n")
        result = measure(project, turns=1 if arguments.quick else TURNS)
    for name, value in result.items():
        print(f"{name:28} {value:.2f}")
    if arguments.json:
        print(json.dumps(result))


def measure(folder: Path, turns: int) -> dict[str, float]:
    """The medians of the CPU seconds, and of the ratio of both."""
    videomme(folder, "sweep", "smoke-longest-option", "--sampling", "uniform_n-1")  # the videos
    expensive: list[float] = []
    twelve: list[float] = []
    for _ in range(turns):
        expensive.append(cpu_seconds(folder, *EXPENSIVE))
        twelve.append(cpu_seconds(folder, *EXPENSIVE, *OTHERS, *SUBTITLES, *PROMPTS))
    return {
        "expensive_cpu_seconds": statistics.median(expensive),
        "sweep_cpu_seconds": statistics.median(twelve),
        "ratio": statistics.median(b / a for a, b in zip(expensive, twelve, strict=True)),
    }


def cpu_seconds(folder: Path, *grid: str) -> float:
    """The CPU seconds that extracting the frames of a sweep takes."""
    for stored in ("frames", "decode_times"):
        shutil.rmtree(folder / "data" / stored, ignore_errors=True)
    videomme(folder, "sweep", "smoke-longest-option", *grid)
    return float(pandas.read_parquet(folder / "data" / "decode_times")["decode_cpu_seconds"].sum())


def videomme(folder: Path, *arguments: str) -> None:
    """Run a command in the project."""
    program = Path(sys.executable).with_name("videomme")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VIDEOMME_")}
    command = [str(program), *arguments]
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)


if __name__ == "__main__":
    main()
