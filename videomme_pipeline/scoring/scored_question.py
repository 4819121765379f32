"""The scored-question row: a response, the letter read from it, and the outcome."""

from dataclasses import dataclass, field
from enum import StrEnum

from videomme_pipeline.benchmarks.facets import Facets
from videomme_pipeline.benchmarks.question import Letter
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.responses.response import Served


class Outcome(StrEnum):
    """Outcome of one question. The four outcomes are always counted separately."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNREADABLE = "unreadable"
    """The question was answered, but no letter can be read from the answer."""
    FAILED = "failed"
    """The question was not answered."""


_AUDIO = "audio_"


def track(*, subtitles: bool, audio: bool = False) -> str:
    """The name of a track, such as `with_subtitles` or `audio_without_subtitles`."""
    return f"{_AUDIO if audio else ''}{'with' if subtitles else 'without'}_subtitles"


def is_with_subtitles(name: str) -> bool:
    """True for the tracks with subtitles."""
    return name.removeprefix(_AUDIO) == "with_subtitles"


def is_with_audio(name: str) -> bool:
    """True for the tracks of models that hear the video."""
    return name.startswith(_AUDIO)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """One row per (evaluation, question, repeat).

    `question_id` and `video_id` are ids of the `benchmark`, and `example_id` is the contract's id
    of the question (`video_001_q1`). `repeat` counts the repeats of a question in an `evaluation`
    from 0. `evaluation_fingerprint` is the hash of all settings. `answer` is the correct letter,
    and `error` the reason why there is no response. `num_frames` is the number of frames sent to
    the `model`, `sampling` and `track` name how they were chosen and which subtitles go with them,
    and `finish_reason` is the reason why the answer ends.

    `extracted_answer` is the letter that `reader` read by its rule `rule`, or None. The decisive
    part of the text is `raw_output[span_start:span_end]`, if there is one. `is_correct` is True if
    `outcome` is correct. `usage` and `served` (tokens, cost, latency, attempts) are included, so
    that a scores file contains accuracy and cost. Values that the endpoint or the results file does
    not report are None.

    `pairing` is the same for evaluations that differ only in their subtitles, and None for rows
    that belong to no evaluation file.

    `judge` is the model that reads the answers that `strict` cannot read, or None. The rows that it
    read have the rule `judge`. If it was asked, `judge_output` is its reply, or `judge_error` is
    the reason why there is none. `judge_cost_dollars` is not part of the cost of the response.

    Equal requests have equal values of `request_fingerprint`. It is None if nothing was asked.
    `server` is what the server of the response reported about itself, as JSON, or None.
    """

    benchmark: str
    evaluation: str
    evaluation_fingerprint: str
    example_id: str
    question_id: str
    video_id: str
    repeat: int
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
    pairing: str | None = None
    judge: str | None = None
    judge_output: str | None = None
    judge_error: str | None = None
    judge_cost_dollars: float | None = None
    request_fingerprint: str | None = None
    server: str | None = None
