"""The score of one response: its letter, compared with the correct letter."""

from dataclasses import replace

from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion

SCORE_VERSION = 3
"""Part of the fingerprint of every score. Increase it when the same letter results in another
outcome, or in a row with other values."""


def score_question(  # noqa: PLR0913 - four facts of the evaluation go into every row
    question: Question,
    response: Response,
    reader: ReaderName,
    *,
    example_id: str,
    evaluation_fingerprint: str,
    sampling: str,
    track: str,
    pairing: str | None = None,
) -> ScoredQuestion:
    """Score `response` to `question` with the letter that `reader` reads.

    A response without text is `failed`: it is not read, so it has no letter and no rule.
    """
    reading = None
    if (text := response.raw_output) and text.strip():
        reading = read_answer(reader, text, letters=question.letters, options=question.options)
    outcome = Outcome.FAILED if reading is None else outcome_of(question.answer, reading.letter)
    start, end = (reading and reading.span) or (None, None)
    return ScoredQuestion(
        benchmark=question.benchmark,
        evaluation=response.evaluation,
        evaluation_fingerprint=evaluation_fingerprint,
        example_id=example_id,
        question_id=question.question_id,
        video_id=question.video_id,
        repeat=response.repeat,
        facets=question.facets,
        answer=question.answer,
        raw_output=response.raw_output,
        extracted_answer=reading.letter if reading else None,
        rule=reading.rule if reading else None,
        span_start=start,
        span_end=end,
        outcome=outcome,
        is_correct=outcome is Outcome.CORRECT,
        error=response.error,
        num_frames=response.used_frames,
        reader=reader.value,
        model=response.model,
        sampling=sampling,
        track=track,
        pairing=pairing,
        finish_reason=response.finish_reason,
        usage=response.usage,
        served=response.served,
        request_fingerprint=response.request_fingerprint or None,
        warning=response.warning,
        server=response.server,
    )


def with_letter(row: ScoredQuestion, letter: Letter | None, rule: str | None) -> ScoredQuestion:
    """`row` with another reading of its answer."""
    outcome = outcome_of(row.answer, letter)
    return replace(
        row,
        extracted_answer=letter,
        rule=rule,
        span_start=None,
        span_end=None,
        outcome=outcome,
        is_correct=outcome is Outcome.CORRECT,
    )


def failed(row: ScoredQuestion, error: str) -> ScoredQuestion:
    """`row` without its response, which is the text of an error."""
    unread = with_letter(row, None, None)
    return replace(unread, raw_output=None, outcome=Outcome.FAILED, error=error)


def outcome_of(answer: Letter, letter: Letter | None) -> Outcome:
    """Outcome of an answered question from which `letter` was read."""
    if letter is None:
        return Outcome.UNREADABLE
    return Outcome.CORRECT if letter == answer else Outcome.INCORRECT
