"""Made-up scored questions: rows with given outcomes, and whole evaluations from a seed."""

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.support.published_data import DOMAINS, SUB_CATEGORIES, TASK_TYPES
from videomme_pipeline.benchmarks.facets import with_derived
from videomme_pipeline.benchmarks.question import Duration, Letter, Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.responses.response import Response, Served
from videomme_pipeline.rows import arrow_schema, from_values, to_values
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

LETTER_OF = {Outcome.CORRECT: Letter.A, Outcome.INCORRECT: Letter.B}
STRUCTURES = ("4", "[1,2,3,4]", "[1, [2, 3], 4]", "[[1,2],3,4]")


def scored(
    question_id: str = "001-1", outcome: Outcome = Outcome.CORRECT, **facts: Any
) -> ScoredQuestion:
    """One row whose right answer is A. `facts` replace its columns; the others are facets."""
    columns = arrow_schema(ScoredQuestion).names
    facets = with_derived(
        {name: value for name, value in facts.items() if name not in columns},
        find_benchmark("videomme").facets,
    )
    facts = {name: value for name, value in facts.items() if name in columns}
    failed = outcome is Outcome.FAILED
    row = ScoredQuestion(
        benchmark="videomme",
        evaluation="made-up",
        evaluation_fingerprint="f",
        example_id="video_{}_q{}".format(*question_id.split("-")),
        question_id=question_id,
        video_id=question_id.partition("-")[0],
        repeat=0,
        facets=facets,
        answer=Letter.A,
        raw_output=None if failed else LETTER_OF.get(outcome, "hm"),
        extracted_answer=LETTER_OF.get(outcome),
        rule=None if failed else "rule",
        span_start=None,
        span_end=None,
        outcome=outcome,
        is_correct=outcome is Outcome.CORRECT,
        error="no answer" if failed else None,
        num_frames=8,
        reader="careful",
        model="made-up-model",
        sampling="uniform_n-8",
        track="without_subtitles",
    )
    return from_values(to_values(row) | facts, ScoredQuestion)


def v1_evaluation(
    seed: int, *, videos: int = 30, accuracy: float = 0.6, **facts: Any
) -> list[ScoredQuestion]:
    """Three questions per video over all labels; 3% unreadable, 2% failed."""
    chance = random.Random(seed)
    weights = (accuracy, 0.95 - accuracy, 0.03, 0.02)
    return [
        scored(
            f"{video + 1:03d}-{number + 1}",
            chance.choices(list(Outcome), weights)[0],
            **{
                "duration": list(Duration)[video % 3].value,
                "domain": DOMAINS[video % len(DOMAINS)],
                "sub_category": SUB_CATEGORIES[video % len(SUB_CATEGORIES)],
                "task_type": TASK_TYPES[(3 * video + number) % len(TASK_TYPES)],
                "prompt_tokens": 1_000,
                "completion_tokens": 3,
                "cost_dollars": 0.001,
                "latency_seconds": chance.random(),
                "attempts": 1,
                "answered_at": datetime(2026, 1, 1, tzinfo=UTC),
            }
            | facts,
        )
        for video in range(videos)
        for number in range(3)
    ]


def v2_evaluation(seed: int, *, groups: int = 20, **facts: Any) -> list[ScoredQuestion]:
    """Groups of four over all structures. Only the last question has a level and heads."""
    chance = random.Random(seed)
    rows = []
    for group in range(groups):
        structure = STRUCTURES[group % len(STRUCTURES)]
        for number in range(4):
            labels: dict[str, Any] = {}
            if number == 3:
                labels = {
                    "level": group % 3 + 1,
                    "second_head": f"head {group % 5}",
                    "third_head": f"third {group % 7}",
                }
            rows.append(
                scored(
                    f"{group + 1:03d}-{number + 1}",
                    chance.choices(list(Outcome), (0.6, 0.3, 0.06, 0.04))[0],
                    **{
                        "benchmark": "videomme_v2",
                        "group_type": _group_type(structure),
                        "group_structure": structure,
                    }
                    | labels
                    | facts,
                )
            )
    return rows


def _group_type(structure: str) -> str:
    return "relevance" if structure == "4" else "logic"


def group_of(
    outcomes: Sequence[Outcome], structure: str = "[1,2,3,4]", video_id: str = "001", **facts: Any
) -> list[ScoredQuestion]:
    """The four rows of one v2 group."""
    group_type = _group_type(structure)
    return [
        scored(
            f"{video_id}-{number}",
            outcome,
            benchmark="videomme_v2",
            group_type=group_type,
            group_structure=structure,
            **facts,
        )
        for number, outcome in enumerate(outcomes, start=1)
    ]


def questions_of(rows: Iterable[ScoredQuestion]) -> list[Question]:
    """The questions that `rows` answer, with made-up texts."""
    return [
        Question(
            benchmark=row.benchmark,
            question_id=row.question_id,
            video_id=row.video_id,
            youtube_id=f"youtube{row.video_id}",
            url=None,
            question=f"What happens in {row.question_id},\nand why?",
            options=("A. Apples.", 'B. "Bees"', "C. Cats, dogs", "D. Dots"),
            answer=row.answer,
            facets=row.facets,
        )
        for row in rows
    ]


def response_to(question: Question, raw_output: str | None, **facts: Any) -> Response:
    """Response to `question`. A `raw_output` of None is a failed request."""
    response = Response(
        benchmark=question.benchmark,
        evaluation="made-up",
        video_id=question.video_id,
        question_id=question.question_id,
        repeat=0,
        request_fingerprint="f",
        model="made-up-model",
        num_frames=8,
        raw_output=raw_output,
        finish_reason="stop" if raw_output else None,
        error=None if raw_output else "the endpoint was down",
        usage=Usage(prompt_tokens=10, completion_tokens=1),
        served=Served(cost_dollars=0.5, latency_seconds=2.0, attempts=3),
    )
    return from_values(to_values(response) | facts, Response)
