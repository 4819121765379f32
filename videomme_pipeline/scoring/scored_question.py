"""The scored-question row: what was answered, what was read, and whether it is right."""

from dataclasses import dataclass, field
from enum import StrEnum

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.responses.response import Served


class Outcome(StrEnum):
    """What became of one question. The four are never merged silently."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNREADABLE = "unreadable"
    """Answered, but no letter can be read."""
    FAILED = "failed"
    """Never answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """One row per (evaluation, question, sample): the benchmark contract's output and more.

    `extracted_answer` was read by `reader`'s rule `rule` from `raw_output[span_start:span_end]`
    (None where nothing was read). `is_correct` is `outcome == correct`. What the request took
    (tokens, US dollars, seconds, attempts) stands here too, so that a scores file alone tells
    accuracy and cost; None where the endpoint or the results file does not tell.

    `track_pair` is shared by evaluations that differ in their subtitles alone; None for rows that
    are of no evaluation file.

    `judge` is the model that was to read what `strict` could not, None where there is none. It
    read the rows whose rule is `judge`; where it was asked, `judge_output` is what it said or
    `judge_error` why it said nothing, and what that cost stands apart.
    """

    benchmark: str
    evaluation: str
    evaluation_fingerprint: str
    example_id: str
    question_id: str
    video_id: str
    sample: int
    facets: Facets
    answer: Letter
    raw_output: str | None
    extracted_answer: Letter | None
    rule: str | None
    span_start: int | None
    span_end: int | None
    outcome: Outcome
    is_correct: bool
    error: str | None
    num_frames: int
    reader: str
    model: str
    sampling: str
    track: str
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    served: Served = field(default_factory=Served)
    track_pair: str | None = None
    judge: str | None = None
    judge_output: str | None = None
    judge_error: str | None = None
    judge_cost_dollars: float | None = None

    @property
    def is_grouped(self) -> bool:
        """True if the questions on one video are scored together (Video-MME-v2)."""
        return "group_type" in self.facets
