"""CPU time of the subtitles and prompts of a whole benchmark: read, align, render.

    python -m perf.subtitles [--quick] [--json]

Generates subtitle files in the shape of Video-MME's (900 videos, 254 hours, font tags), reads
them, aligns them under every policy to 64 and to 512 frames, and renders 2,700 questions. Reading
is compared with pysrt and pysubs2. CPU seconds of one process; the files are in memory.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import pysrt
import pysubs2

from tests.support.subtitle_files import sampled_frames, srt_file
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.prompts.render import parse_template, render
from videomme_pipeline.subtitles.align import (
    AlignedLine,
    Policy,
    SampledFrames,
    align,
    parse_alignment,
)
from videomme_pipeline.subtitles.cues import CueFile, read_srt

DURATIONS_SECONDS = (80, 520, 2_450)
"""Mean length of short, medium and long videos; 300 of each last 254 hours."""
FRAME_COUNTS = (64, 512)
TWO_HOURS_SECONDS = 7_200
ROUNDS = 5

Result = TypeVar("Result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="30 videos instead of 900")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    arguments = parser.parse_args()
    result = measure(videos=30 if arguments.quick else 900)
    for name, value in result.items():
        print(f"{name:40} {value}")
    if arguments.json:
        print(json.dumps(result))


def measure(videos: int) -> dict[str, Any]:
    draw = random.Random(7)
    lengths = [DURATIONS_SECONDS[number % 3] for number in range(videos)]
    files = [srt_file(length, draw) for length in lengths]
    result: dict[str, Any] = {"videos": videos, "questions": 3 * videos}
    result |= one_long_file(srt_file(TWO_HOURS_SECONDS, draw))

    cues, result["read_seconds"] = timed(lambda: [read_srt(file) for file in files])
    result["cues"] = sum(len(file.cues) for file in cues)
    for count in FRAME_COUNTS:
        frames = [sampled_frames(length, count) for length in lengths]
        for policy in Policy:
            _, seconds = timed(partial(aligned, policy, cues, frames))
            result[f"align_{policy}_{count}_frames_seconds"] = seconds
    frames = [sampled_frames(length, 512) for length in lengths]
    lines = aligned(Policy.WINDOW, cues, frames)
    _, result["render_seconds"] = timed(lambda: rendered(lines, frames))
    return result


def one_long_file(file: bytes) -> dict[str, float]:
    """Median CPU milliseconds of `ROUNDS` alternating rounds on a two-hour file."""
    text = file.decode()
    readers: dict[str, Callable[[], object]] = {
        "ours": lambda: read_srt(file),
        "pysrt": lambda: pysrt.from_string(text),
        "pysubs2": lambda: pysubs2.SSAFile.from_string(text, format_="srt"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(ROUNDS):
        for name, read in readers.items():
            seconds[name].append(timed(read)[1])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        f"two_hours_{name}_milliseconds": round(1000 * value, 1) for name, value in medians.items()
    } | {"two_hours_ours_over_pysrt": round(medians["ours"] / medians["pysrt"], 2)}


def aligned(
    policy: Policy, cues: Sequence[CueFile], frames: Sequence[SampledFrames]
) -> list[list[AlignedLine]]:
    alignment = parse_alignment(policy)
    return [align(alignment, file, at) for file, at in zip(cues, frames, strict=True)]


def rendered(lines: Sequence[Sequence[AlignedLine]], frames: Sequence[SampledFrames]) -> int:
    template = parse_template("contract_v1")
    characters = 0
    for number, (aligned_lines, at) in enumerate(zip(lines, frames, strict=True)):
        for position in range(3):
            prompt = render(
                template,
                question(number, position),
                aligned_lines,
                frame_seconds=at.seconds,
            )
            characters += len(prompt.text)
    return characters


def question(video: int, number: int) -> Question:
    return Question(
        benchmark="videomme",
        question_id=f"{video:03}-{number + 1}",
        video_id=f"{video:03}",
        youtube_id=None,
        url=None,
        question="What does the person in the red coat do first?",
        options=("A. Runs.", "B. Opens an umbrella.", "C. Sings.", "D. Nothing."),
        answer=Letter.B,
    )


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    result = work()
    return result, round(time.process_time() - start, 4)


if __name__ == "__main__":
    main()
