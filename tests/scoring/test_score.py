"""The outcome of one response."""

import pytest

from tests.support.scored_rows import questions_of, response_to, scored
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.rows import to_values
from videomme_pipeline.scoring.readers.read_answer import ReaderName
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

QUESTION = questions_of([scored("007-2")])[0]


def score(raw_output: str | None, reader: ReaderName = ReaderName.CAREFUL) -> ScoredQuestion:
    return score_question(
        QUESTION,
        response_to(QUESTION, raw_output, warning="4 frames arrived"),
        reader,
        example_id="video_007_q2",
        evaluation_fingerprint="abc",
        sampling="uniform_n-8",
        track="with_subtitles",
    )


@pytest.mark.parametrize(
    ("raw_output", "outcome"),
    [
        ("A", Outcome.CORRECT),
        ("The answer is B.", Outcome.INCORRECT),
        ("I cannot tell.", Outcome.UNREADABLE),
        (None, Outcome.FAILED),
        ("", Outcome.FAILED),
        (" \n", Outcome.FAILED),
    ],
)
def test_each_kind_of_response_has_its_outcome(raw_output: str | None, outcome: Outcome) -> None:
    row = score(raw_output)
    assert row.outcome is outcome
    assert row.is_correct == (outcome is Outcome.CORRECT)


def test_a_failed_request_is_not_read() -> None:
    row = score(None)
    assert (row.extracted_answer, row.rule, row.span_start) == (None, None, None)
    assert row.error == "the endpoint was down"


def test_the_span_contains_the_letter() -> None:
    row = score("It is the first one. Answer: A")
    assert row.raw_output is not None
    assert "A" in row.raw_output[row.span_start : row.span_end]
    assert row.rule


def test_the_row_has_the_reader_and_its_letter() -> None:
    response = "Either Apples or bees."
    assert score(response, ReaderName.OFFICIAL_V1).extracted_answer is Letter.A
    assert score(response).outcome is Outcome.UNREADABLE
    assert score(response).reader == "careful"


def test_a_row_has_the_facts_of_question_response_and_reading() -> None:
    expected = {
        "benchmark": "videomme",
        "evaluation": "made-up",
        "evaluation_fingerprint": "abc",
        "example_id": "video_007_q2",
        "question_id": "007-2",
        "video_id": "007",
        "repeat": 0,
        "answer": Letter.A,
        "raw_output": "Apples.",
        "extracted_answer": Letter.A,
        "rule": "option_text",
        "span_start": 0,
        "span_end": 6,
        "outcome": Outcome.CORRECT,
        "is_correct": True,
        "error": None,
        "num_frames": 8,
        "reader": "careful",
        "model": "made-up-model",
        "sampling": "uniform_n-8",
        "track": "with_subtitles",
        "cost_dollars": 0.5,
        "latency_seconds": 2.0,
        "attempts": 3,
        "prompt_tokens": 10,
        "request_fingerprint": "f",
        "warning": "4 frames arrived",
    }
    values = to_values(score("Apples."))
    assert {column: values[column] for column in expected} == expected
