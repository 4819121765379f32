"""A run and everything that is known about it: the evidence of all checks.

A run is the answers of one results file or of one evaluation. What is not known is empty, and the
checks that need it say that they could not check it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.models.video_llm import seen_frames
from videomme_pipeline.scoring.findings.sameness import Sameness, same_pairs
from videomme_pipeline.scoring.readers.read_answer import ReaderName, read_answer
from videomme_pipeline.scoring.score import with_letter
from videomme_pipeline.scoring.scored_question import (
    Answer,
    EvaluatedVideo,
    Outcome,
    ScoredQuestion,
)
from videomme_pipeline.videos.probe import Video

Key = tuple[str, int]
"""The id of a question, and the number of the repeat."""
OVERALL, GROUP_SCORE, ACCURACY = "overall", "group_score", "accuracy"
"""The totals of a published result. With groups, there are two: group score and accuracy."""
BLOCKED = "blocked"
"""The status of a citation finding because of which a score must not be cited."""
CITATION_STATUSES = (BLOCKED, "warning", "unknown", "ok")
"""The statuses of citation findings, the worst one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationFinding:
    """One row per (evaluation, check)."""

    benchmark: str
    """Name of the benchmark."""
    evaluation: str
    """Name of the evaluation."""
    check_name: str
    """Name of the check."""
    status: str
    """Result: ok, unknown, warning, or blocked if the score must not be cited."""
    summary: str
    """A sentence with numbers."""
    advice: str
    """Advice, or "" if the status is ok."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFacts:
    """Facts about a results file that no score is computed from.

    `letters` are the letters that the file states, and `failures` the failures that it states and
    the texts of errors. `copies` counts answers that are copies of another one, `contradictions`
    the questions with different answers that are not numbered. `left_out` are remarks about rows
    and files that were left out, and `differences` about rows that differ from the dataset.
    """

    letters: Mapping[Key, Letter] = field(default_factory=dict)
    failures: Mapping[Key, str] = field(default_factory=dict)
    copies: int = 0
    contradictions: int = 0
    left_out: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """The answers of one run, and its evidence.

    `questions` are those that the run should answer, by id; of a file, those that it answers. The
    checks of a citation need no texts, so their `answers` may be rows with fewer columns.

    Only an evaluation has a `specification`. `question_fingerprints` (of the questions on each
    video, correct answers included) and `media` (by video id) are the current ones. `videos` (by
    video id) are those that the scores were computed from; it is empty if they are not stored.
    `by_question` has those of questions with their own frames.
    """

    name: str
    benchmark: Benchmark
    questions: Mapping[str, Question]
    answers: Sequence[Answer | ScoredQuestion]
    stored: StoredFacts = field(default_factory=StoredFacts)
    specification: Mapping[str, object] | None = None
    question_fingerprints: Mapping[str, str] = field(default_factory=dict)
    videos: Mapping[str, EvaluatedVideo] = field(default_factory=dict)
    by_question: Mapping[str, EvaluatedVideo] = field(default_factory=dict)
    media: Mapping[str, Video] = field(default_factory=dict)

    @property
    def is_evaluation(self) -> bool:
        return self.specification is not None

    @cached_property
    def answered(self) -> list[Answer | ScoredQuestion]:
        """The answers of requests that did not fail."""
        return [row for row in self.answers if row.outcome is not Outcome.FAILED]

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(row.question_id for row in self.answers)

    @cached_property
    def rows(self) -> list[ScoredQuestion]:
        """The answers with all columns to questions of the run."""
        return [
            row
            for row in self.answers
            if isinstance(row, ScoredQuestion) and row.question_id in self.questions
        ]

    @cached_property
    def texts(self) -> list[tuple[ScoredQuestion, str]]:
        """The answers with a text, and their texts."""
        return [(r, r.raw_output) for r in self.rows if r.raw_output and r.raw_output.strip()]

    @cached_property
    def readings(self) -> Mapping[ReaderName, Mapping[Key, Letter | None]]:
        """Letters by reader, without readers that know fewer options than the benchmark."""
        by_reader: dict[ReaderName, dict[Key, Letter | None]] = {
            reader: {}
            for reader in ReaderName
            if len(self.benchmark.letters) <= 4 or not reader.startswith(ReaderName.OFFICIAL_V1)
        }
        for row, text in self.texts:
            question = self.questions[row.question_id]
            for reader, letters in by_reader.items():
                reading = read_answer(
                    reader, text, letters=question.letters, options=question.options
                )
                letters[row.question_id, row.repeat] = reading.letter
        return by_reader

    def read_by(self, reader: ReaderName) -> list[ScoredQuestion]:
        """The answers with the letters that `reader` reads. Failed ones stay failed."""
        letters = self.readings[reader]
        return [
            row
            if row.outcome is Outcome.FAILED
            else with_letter(row, letters.get((row.question_id, row.repeat)), None)
            for row in self.rows
        ]

    @property
    def model(self) -> Mapping[str, object]:
        """The settings of the model, empty if they are not known."""
        model = (self.specification or {}).get("model")
        return model if isinstance(model, Mapping) else {}

    def video_of(self, row: Answer | ScoredQuestion) -> EvaluatedVideo | None:
        """The data with the frames of `row`, or None if they are not stored."""
        return self.by_question.get(row.question_id) or self.videos.get(row.video_id)

    def seen_frames(self, row: Answer | ScoredQuestion) -> int | None:
        """The number of frames that the model saw by its prompt tokens, or None if unknown."""
        video, usage = self.video_of(row), row.usage
        if video is None or not video.planned_frames or not video.frame_tokens:
            return None
        if usage.prompt_tokens is None or usage.text_tokens is None:
            return None
        tokens = usage.prompt_tokens - usage.text_tokens
        return seen_frames(video.planned_frames, video.frame_tokens, tokens)

    @property
    def run_again(self) -> str:
        return f"run it again (videomme run {self.name})"


class PublishedCell(NamedTuple):
    """Published scores, 0 to 100: the totals, and those of values of facets."""

    name: str
    parts: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs on one benchmark. `blind` is a run of the same model without frames."""

    runs: Sequence[Run]
    blind: Run | None = None
    published: Sequence[PublishedCell] = ()

    @cached_property
    def same(self) -> Mapping[str, Sequence[tuple[Run, Sameness]]]:
        """The runs with the same answers as each run, by the name of that run."""
        same: dict[str, list[tuple[Run, Sameness]]] = {run.name: [] for run in self.runs}
        answers = [run.answers for run in self.runs]
        are_stored = [run.is_evaluation for run in self.runs]
        for a, b, compared in same_pairs(answers, requests_are_stored=are_stored):
            same[self.runs[a].name].append((self.runs[b], compared))
            same[self.runs[b].name].append((self.runs[a], compared))
        return same
