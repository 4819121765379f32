"""The rows of stored scores: each response with its letter and outcome, and each video."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
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


MIN_ANSWERED_SHARE = 0.9
"""The smallest share of a benchmark's questions with an answer for which its score is compared with
a published one. The other answers could change it."""
UNKNOWN_TRACK = "unknown"
"""The track of a results file, because results files do not name it."""


def track(
    *, subtitles: bool, audio: bool = False, chosen: bool = False, conversation: bool = False
) -> str:
    """The name of a track, such as `with_subtitles` or `audio_without_subtitles`.

    A `chosen` list of questions has tracks of its own, beside which no benchmark is shown, and so
    do groups that are asked as one `conversation`.
    """
    prefix = f"{'chosen_' * chosen}{'conversation_' * conversation}{'audio_' * audio}"
    return f"{prefix}{'with' if subtitles else 'without'}_subtitles"


TRACKS = tuple(track(subtitles=s, audio=a) for a in (False, True) for s in (False, True))


def is_with_subtitles(name: str) -> bool:
    """True for the tracks with subtitles."""
    return name.split("_")[-2:] == ["with", "subtitles"]


def is_with_audio(name: str) -> bool:
    """True for the tracks of models that hear the video."""
    return "audio" in name.split("_")


def apart(name: str) -> tuple[str, ...]:
    """Why the scores of a track are shown apart from others: `chosen`, `conversation`, or both."""
    return tuple(word for word in ("chosen", "conversation") if word in name.split("_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """One row per (evaluation, question, repeat).

    Values that the endpoint or the results file does not report are None.
    """

    benchmark: str
    """Name of the benchmark."""
    evaluation: str
    """Name of the evaluation."""
    evaluation_fingerprint: str
    """Hash of all settings of the evaluation."""
    example_id: str
    """The contract's id of the question (`video_001_q1`)."""
    question_id: str
    """Id of the question, unique in the benchmark."""
    video_id: str
    """The dataset's id of the video (three digits in Video-MME)."""
    repeat: int
    """Number of the repeat of the question, from 0."""
    facets: Facets
    """Values of the facets by which questions are grouped."""
    answer: Letter
    """Correct letter."""
    raw_output: str | None
    """Text of the answer, or None."""
    extracted_answer: Letter | None
    """Letter that the reader read, or None."""
    rule: str | None
    """Rule by which the letter was read; `judge` if a judge read it."""
    span_start: int | None
    """Start of the decisive part of `raw_output`, or None."""
    span_end: int | None
    """End of the decisive part of `raw_output`, or None."""
    outcome: Outcome
    """Outcome of the question."""
    is_correct: bool
    """True if the outcome is correct."""
    error: str | None
    """Reason why there is no response, or None."""
    num_frames: int
    """Number of frames that were sent, or that a program reports to have used."""
    reader: str
    """Name of the reader of answers."""
    model: str
    """Name of the model."""
    sampling: str
    """Name of the sampling that chose the frames."""
    track: str
    """Track: with or without subtitles, with audio, and of a chosen list or of conversations."""
    finish_reason: str | None = None
    """Reason why the answer ends, as the endpoint reports it, or None."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of the response."""
    served: Served = field(default_factory=Served)
    """Cost, latency and attempts of the response."""
    pairing: str | None = None
    """The same text for evaluations that differ only in their subtitles. None for rows of a results
    file."""
    judge: str | None = None
    """Model that reads the answers that `careful` cannot read, or None."""
    judge_output: str | None = None
    """Reply of the judge, if it was asked."""
    judge_error: str | None = None
    """Reason why the judge did not reply, if it was asked."""
    judge_cost_dollars: float | None = None
    """US dollars for the judge, not part of `cost_dollars`."""
    request_fingerprint: str | None = None
    """Hash of everything that was sent, or None if nothing was asked."""
    warning: str | None = None
    """Warning about the response, such as other frames than planned, or None."""
    server: str | None = None
    """Known facts about the server that answered, as a JSON object, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedQuestion(ScoredQuestion):
    """A scored question of one nightly run."""

    observation: str
    """Date of the run."""

    @classmethod
    def of(cls, row: ScoredQuestion, observation: str) -> "ObservedQuestion":
        # Not `asdict`: it copies deeply, which takes seconds for 2,700 rows.
        values = {column.name: getattr(row, column.name) for column in fields(ScoredQuestion)}
        return cls(**values, observation=observation)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedVideo:
    """One row per (evaluation, video): the data that the scores of the video were computed from.

    One row per question if each question has its own frames.
    """

    benchmark: str
    """Name of the benchmark."""
    evaluation: str
    """Name of the evaluation."""
    video_id: str
    """The dataset's id of the video (three digits in Video-MME)."""
    questions_fingerprint: str
    """Hash of the questions on the video."""
    video_hash: str | None
    """Content hash of the video, or None if the answers do not depend on it."""
    subtitle_hash: str | None
    """Hash of the subtitle file; None if the answers do not depend on it or the video has none."""
    planned_frames: int | None
    """Number of frames that the sampling chose, 0 if none are sent, None if unknown."""
    frame_tokens: int | None
    """Prompt tokens that these frames need at the endpoint by the published rule of the model: 0 if
    no endpoint gets frames, None if there is no rule."""
    frame_bytes: int | None = None
    """Size of the pictures that each request has; 0 without frames, None if unknown or if the
    endpoint takes the frames from the video itself."""
    frames_fingerprint: str | None = None
    """Hash of the settings of the frames, or None if none are stored."""
    question_id: str | None = None
    """Question that has these frames, or None if all on the video have them."""
    from_questions: str | None = None
    """Fingerprint of the file of the questions."""
    from_video: str | None = None
    """Fingerprint of the row of the video, or None if the answers do not depend on it."""
    from_subtitles: str | None = None
    """Fingerprint of the file of the subtitle lines, or None on a track without subtitles."""
    from_prompts: str | None = None
    """Fingerprint of the file of the prompts, or None if they could not be rendered."""
    from_responses: str | None = None
    """Fingerprint of the file of the responses, or None if no question could be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The columns of a `ScoredQuestion` that need no text, for checks of many evaluations."""

    question_id: str
    video_id: str
    repeat: int
    answer: Letter
    extracted_answer: Letter | None
    outcome: Outcome
    num_frames: int
    track: str
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    judge_error: str | None = None
    request_fingerprint: str | None = None
    warning: str | None = None


def too_few_answers(rows: Iterable[ScoredQuestion], questions: int | None) -> str | None:
    """A sentence if less than `MIN_ANSWERED_SHARE` of the questions have an answer, else None.

    `questions` is their number, or None if it is not known.
    """
    answered = len({row.question_id for row in rows if row.outcome is not Outcome.FAILED})
    if questions is None or answered >= MIN_ANSWERED_SHARE * questions:
        return None
    return (
        f"only {answered:,} of {questions:,} questions have an answer, less than "
        f"{MIN_ANSWERED_SHARE:.0%}"
    )
