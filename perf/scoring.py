"""Time to score 2,700 responses with all breakdowns, and to read every view of 1,000 evaluations.

    python -m perf.scoring [--quick] [--json]

Responses and outcomes are made up from a seed. CPU seconds are those of this process without
imports. Views are read completely, on all cores. All times are medians of three runs (one with
--quick).
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.stats  # noqa: F401 - otherwise imported while `compare` is measured
from numpy.typing import NDArray

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Duration, Letter, Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.responses.response import Response, Served
from videomme_pipeline.rows import to_table
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.scoring.statistics.breakdowns import breakdowns
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.storage.layout import Store
from videomme_pipeline.warehouse import database, definitions

VIDEOS = 900
GROUPS = 800
FORMS = (
    "{letter}",
    "{letter}.",
    "({letter})",
    "Answer: {letter}",
    "The best answer is {letter}. It follows from the second half of the video.",
    "**{letter}**",
    "The man first looks at B, but the sign at the end says otherwise. Final answer: {letter}",
    "<think>Option A or B? The clock shows noon, so not A.</think>\n\n{letter}. It is noon.",
    "Looking at the frames in order, a person enters, picks up a box and leaves the room. "
    "The box is red in all of them, which rules out the other options.\n\nAnswer: {letter}",
    "I cannot tell from the frames.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 evaluations, one run each")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--evaluations", type=int, default=1_000, help="default: 1,000")
    options = parser.parse_args()
    evaluations = 20 if options.quick else options.evaluations
    runs = 1 if options.quick else 3

    scoring = measure_scoring(runs)
    for name, seconds in scoring.items():
        print(f"{name:<44} {seconds:8.3f} s CPU")
    with tempfile.TemporaryDirectory() as folder:
        warehouse = measure_warehouse(Store.at(folder), evaluations, runs)
    print(f"\n{warehouse['rows']:,} rows of {evaluations:,} evaluations")
    print(f"{'build':<44} {warehouse['build_seconds']:8.3f} s")
    print(f"{'file':<44} {warehouse['megabytes']:8.1f} MB")
    for name, seconds in warehouse["views"].items():
        wall, cpu = seconds["wall_seconds"], seconds["cpu_seconds"]
        print(f"{name:<44} {wall:8.3f} s {cpu:8.3f} s CPU")
    if options.json:
        sys.stdout.write(
            json.dumps({"scoring_cpu_seconds": scoring, "warehouse": warehouse}) + "\n"
        )


def measure_scoring(runs: int) -> dict[str, float]:
    """CPU seconds by step: reading and scoring 2,700 responses, breakdowns, a comparison."""
    benchmark, questions = find_benchmark("videomme"), v1_questions()
    responses = made_up_responses(questions)
    seconds = {
        f"read and score 2,700 with {reader}": cpu_seconds(
            partial(score_all, questions, responses, reader), runs
        )
        for reader in ReaderName
    }
    rows = score_all(questions, responses, ReaderName.CAREFUL)
    seconds["all breakdowns with intervals"] = cpu_seconds(
        lambda: breakdowns(benchmark, rows), runs
    )
    seconds["read, score, break down (careful)"] = cpu_seconds(
        lambda: breakdowns(benchmark, score_all(questions, responses, ReaderName.CAREFUL)), runs
    )
    other = score_all(questions, responses, ReaderName.OFFICIAL_V1)
    seconds["compare two evaluations"] = cpu_seconds(lambda: compare(rows, other), runs)
    return seconds


def measure_warehouse(store: Store, evaluations: int, runs: int) -> dict[str, Any]:
    """Wall seconds to build the DuckDB file, and times to read each view completely."""
    write_evaluations(store, evaluations)
    started = time.perf_counter()
    database.rebuild(store)
    build_seconds = time.perf_counter() - started
    with database.connect(store) as connection:
        count = connection.execute("select count(*) from scored_questions").fetchone()
        readers = {name: partial(read_whole, connection, name) for name in definitions.views()}
        views = {
            name: {
                "wall_seconds": wall_seconds(reader, runs),
                "cpu_seconds": cpu_seconds(reader, runs),
            }
            for name, reader in readers.items()
        }
    return {
        "evaluations": evaluations,
        "rows": count[0] if count else 0,
        "build_seconds": build_seconds,
        "megabytes": store.warehouse.stat().st_size / 1e6,
        "views": views,
    }


def read_whole(connection: duckdb.DuckDBPyConnection, view: str) -> None:
    connection.execute(f"from {view}").fetchall()


def write_evaluations(store: Store, evaluations: int) -> None:
    """Write v1 scores of both tracks and two samplings, and v2 scores of every fifth evaluation."""
    chance = np.random.default_rng(0)
    v1 = to_table(unanswered(v1_questions()), ScoredQuestion)
    v2 = to_table(unanswered(v2_questions()), ScoredQuestion)
    for number in range(evaluations):
        track = "with_subtitles" if number % 2 else "without_subtitles"
        facts = {"model": f"model {number // 4}", "track": track, "sampling": f"s{number // 2 % 2}"}
        name = f"evaluation-{number:04d}"
        write_evaluation(Path(store.scores("videomme", name).path), v1, facts, chance)
        if number % 5 == 0:
            write_evaluation(Path(store.scores("videomme_v2", name).path), v2, facts, chance)


def write_evaluation(
    path: Path, template: pa.Table, facts: dict[str, str], chance: np.random.Generator
) -> None:
    size = template.num_rows
    outcomes = chance.choice(
        [outcome.value for outcome in Outcome], size, p=(0.6, 0.35, 0.03, 0.02)
    )
    columns: dict[str, list[Any] | NDArray[Any]] = {
        "evaluation": [path.stem] * size,
        "outcome": outcomes.tolist(),
        "is_correct": (outcomes == Outcome.CORRECT.value).tolist(),
        "latency_seconds": chance.gamma(2.0, 1.0, size),
        "cost_dollars": chance.gamma(2.0, 0.001, size),
        "prompt_tokens": chance.integers(1_000, 20_000, size),
    } | {column: [value] * size for column, value in facts.items()}
    for column, values in columns.items():
        index = template.schema.get_field_index(column)
        field = template.schema.field(column)
        template = template.set_column(index, field, pa.array(values, field.type))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(template, path, compression="zstd")


def v1_questions() -> list[Question]:
    domains, sub_categories, task_types = (
        find_benchmark("videomme").facet(column).values or ()
        for column in ("domain", "sub_category", "task_type")
    )
    return [
        Question(
            benchmark="videomme",
            question_id=f"{video + 1:03d}-{number + 1}",
            video_id=f"{video + 1:03d}",
            youtube_id=None,
            url=None,
            question="What is shown?",
            options=("A. Apples.", "B. Boats.", "C. Cars.", "D. Dogs."),
            answer=list(Letter)[(video + number) % 4],
            facets=Facets(
                {
                    "duration": list(Duration)[video * 3 // VIDEOS].value,
                    "domain": domains[video % len(domains)],
                    "sub_category": sub_categories[video % len(sub_categories)],
                    "task_type": task_types[(3 * video + number) % len(task_types)],
                }
            ),
        )
        for video in range(VIDEOS)
        for number in range(3)
    ]


def v2_questions() -> list[Question]:
    structures = ("4", "4", "[1,2,3,4]", "[1,[2,3],4]", "[[1,2],3,4]")
    four = v1_questions()[:4]
    return [
        replace(
            question,
            benchmark="videomme_v2",
            question_id=f"{group + 1:03d}-{number + 1}",
            video_id=f"{group + 1:03d}",
            facets=Facets(
                {
                    "level": group % 3 + 1,
                    "second_head": f"second head {group % 10}",
                    "third_head": f"third head {group % 33}",
                    "group_type": "relevance" if structure == "4" else "logic",
                    "group_structure": structure,
                }
            ),
        )
        for group in range(GROUPS)
        for structure in [structures[group % len(structures)]]
        for number, question in enumerate(four)
    ]


def made_up_responses(questions: Sequence[Question]) -> list[Response]:
    chance = random.Random(0)
    return [
        response_of(
            question,
            chance.choice(FORMS).format(letter=chance.choice("ABCD")),
        )
        for question in questions
    ]


def response_of(question: Question, raw_output: str | None) -> Response:
    return Response(
        benchmark=question.benchmark,
        evaluation="perf",
        video_id=question.video_id,
        question_id=question.question_id,
        repeat=0,
        request_fingerprint="",
        model="perf",
        num_frames=64,
        raw_output=raw_output,
        finish_reason="stop",
        error=None,
        usage=Usage(prompt_tokens=10_000, completion_tokens=4, cached_tokens=0),
        served=Served(cost_dollars=0.001, latency_seconds=1.0, attempts=1),
    )


def unanswered(questions: Sequence[Question]) -> list[ScoredQuestion]:
    return score_all(
        questions, [response_of(question, None) for question in questions], ReaderName.CAREFUL
    )


def score_all(
    questions: Sequence[Question], responses: Sequence[Response], reader: ReaderName
) -> list[ScoredQuestion]:
    return [
        score_question(
            question,
            response,
            reader,
            example_id=question.question_id,
            evaluation_fingerprint="perf",
            sampling="uniform_n-64",
            track="without_subtitles",
        )
        for question, response in zip(questions, responses, strict=True)
    ]


def cpu_seconds(work: Callable[[], object], runs: int) -> float:
    return statistics.median(_once(work, time.process_time) for _ in range(runs))


def wall_seconds(work: Callable[[], object], runs: int) -> float:
    return statistics.median(_once(work, time.perf_counter) for _ in range(runs))


def _once(work: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    work()
    return clock() - started


if __name__ == "__main__":
    main()
