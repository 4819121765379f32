"""The checks that a score may be cited, and their findings.

Each check is a pure function of stored data. A finding is `ok`, or it has a sentence with numbers
about the problem, and advice. `blocked` means that the score must not be cited. `warning` means
that the fact must be stated beside the score. `unknown` means that nothing was checked, because
something is not stored.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.benchmarks.selection import Selection
from videomme_pipeline.errors import listed
from videomme_pipeline.models.frame_proof import MIN_TOKEN_SHARE, OTHER_FRAMES, seen_frames
from videomme_pipeline.scoring.audit.letters import compare_letters
from videomme_pipeline.scoring.scored_question import Outcome, is_with_subtitles
from videomme_pipeline.videos.probe import Video


class CitationCheck(StrEnum):
    """A check of the data that a score was computed from."""

    ANSWERS = "answers"
    """Every question has one answer per repeat."""
    RELEASE = "release"
    """The questions are all questions that the benchmark declares."""
    FRAMES = "frames"
    """Every request had the planned number of frames."""
    PROMPT_TOKENS = "prompt_tokens"
    """The endpoint counted the tokens that the frames need."""
    WARNINGS = "warnings"
    """No response has a warning."""
    SUBTITLES = "subtitles"
    """As many videos have subtitles as the benchmark declares."""
    LETTERS = "letters"
    """The letters of the answers are distributed like the correct ones."""
    MEDIA = "media"
    """Videos, subtitles and questions are those that the score was computed from."""
    SAMENESS = "sameness"
    """No evaluation with other settings has the same answers."""


class Status(StrEnum):
    """The result of a check, the best one first."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    BLOCKED = "blocked"


class CheckResult(NamedTuple):
    """The result of one check: a sentence with numbers, and advice ("" if the status is `ok`)."""

    status: Status
    summary: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationFindingRow:
    """One row per (evaluation, check)."""

    benchmark: str
    """Name of the benchmark."""
    evaluation: str
    """Name of the evaluation."""
    check_name: CitationCheck
    """Name of the check."""
    status: Status
    """Result: ok, unknown, warning or blocked."""
    summary: str
    """A sentence with numbers."""
    advice: str
    """Advice, or "" if the status is ok."""


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
    """Hash of the subtitle file, or None if the answers do not depend on it or the video has
    none."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The columns of a scored question that the checks read."""

    question_id: str
    video_id: str
    repeat: int
    answer: Letter
    extracted_answer: Letter | None
    outcome: Outcome
    num_frames: int
    prompt_tokens: int | None
    text_tokens: int | None
    track: str
    judge_error: str | None
    warning: str | None
    request_fingerprint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationEvidence:
    """Everything that is stored about one evaluation.

    `questions`, `question_fingerprints` (of the questions on each video, correct answers included)
    and `media` (by video id) are the current ones. `videos` (by video id) are those that the scores
    were computed from; it is empty if they are not stored. `by_question` has those of questions
    with their own frames.
    """

    benchmark: Benchmark
    evaluation: str
    questions: Sequence[Question]
    question_fingerprints: Mapping[str, str]
    answers: Sequence[Answer]
    specification: Mapping[str, object]
    videos: Mapping[str, EvaluatedVideo] = field(default_factory=dict)
    by_question: Mapping[str, EvaluatedVideo] = field(default_factory=dict)
    media: Mapping[str, Video] = field(default_factory=dict)

    @property
    def answered(self) -> list[Answer]:
        """The answers of requests that did not fail."""
        return [row for row in self.answers if row.outcome is not Outcome.FAILED]

    @property
    def takes_frames_itself(self) -> bool:
        """True if the endpoint gets videos and takes the frames from them."""
        model = self.specification.get("model")
        return isinstance(model, Mapping) and model.get("frames_as") == "video_file"

    def video_of(self, row: Answer) -> EvaluatedVideo | None:
        """The data with the frames of `row`, or None if they are not stored."""
        return self.by_question.get(row.question_id) or self.videos.get(row.video_id)

    def seen_frames(self, row: Answer) -> int | None:
        """The number of frames that the model saw by its prompt tokens, or None if unknown."""
        video = self.video_of(row)
        if video is None or not video.planned_frames or not video.frame_tokens:
            return None
        if row.prompt_tokens is None or row.text_tokens is None:
            return None
        tokens = row.prompt_tokens - row.text_tokens
        return seen_frames(video.planned_frames, video.frame_tokens, tokens)

    @property
    def run_again(self) -> str:
        return f"run it again (videomme run {self.evaluation})"


def findings(
    evidence: CitationEvidence, sameness: CheckResult | None
) -> Iterator[CitationFindingRow]:
    """Yield the results of all checks that apply to an evaluation.

    `sameness` is the result of the check that compares evaluations with each other.
    """
    results = {check: function(evidence) for check, function in _CHECKS.items()}
    for check, result in (results | {CitationCheck.SAMENESS: sameness}).items():
        if result is not None:
            yield CitationFindingRow(
                benchmark=evidence.benchmark.name,
                evaluation=evidence.evaluation,
                check_name=check,
                status=result.status,
                summary=result.summary,
                advice=result.advice,
            )


def answered_once(evidence: CitationEvidence) -> CheckResult:
    """Check that every question has one answer per repeat, read by the judge if there is one."""
    rows = Counter((row.question_id, row.repeat) for row in evidence.answers)
    repeats = 1 + max((row.repeat for row in evidence.answers), default=0)
    asked = set(product((q.question_id for q in evidence.questions), range(repeats)))
    failed = sum(row.outcome is Outcome.FAILED for row in evidence.answers)
    numbers = {
        "failed": failed,
        "missing": len(asked - rows.keys()),
        "repeated": sum(count > 1 for count in rows.values()),
        "not in the benchmark": len(rows.keys() - asked),
        "not read by the judge": sum(r.judge_error is not None for r in evidence.answers),
    }
    problems = [f"{count:,} {what}" for what, count in numbers.items() if count]
    times = "once" if repeats == 1 else f"{repeats} times"
    if not problems:
        return CheckResult(Status.OK, f"{len(evidence.questions):,} questions are answered {times}")
    return CheckResult(
        Status.BLOCKED,
        f"of {len(asked):,} answers, {', '.join(problems)}",
        f"{evidence.run_again}; only what is missing is asked",
    )


def matches_release(evidence: CitationEvidence) -> CheckResult:
    """Check that the questions are those that the benchmark declares, or name the chosen subset."""
    size = evidence.benchmark.size
    by_video = Counter(
        video for video, _ in {(row.video_id, row.question_id) for row in evidence.answers}
    )
    counted = f"{by_video.total():,} questions on {len(by_video):,} videos"
    if size.questions is None:
        return CheckResult(
            Status.UNKNOWN,
            f"{counted}; the benchmark does not declare its size",
            "declare its `size`: the numbers of videos and questions",
        )
    if by_video.total() == size.questions and size.videos in (None, len(by_video)):
        return CheckResult(Status.OK, f"{counted}, as declared")
    selected = Counter(question.video_id for question in evidence.questions)
    is_subset = by_video == selected and by_video.total() < size.questions
    declared = f"the benchmark has {size.questions:,}"
    if size.videos is not None:
        declared += f" on {size.videos:,}"
        is_subset = is_subset and len(selected) < size.videos
    if is_subset and (
        size.questions_per_video is None or set(selected.values()) == {size.questions_per_video}
    ):
        return CheckResult(
            Status.WARNING,
            f"{counted}: a subset{_keys(evidence)}, {declared}",
            "name the subset beside the score, or remove the keys that select videos "
            "(`videos`, `duration`, `subset`, `limit`) from benchmarks.yaml and from the file of "
            "the evaluation, and run again",
        )
    return CheckResult(
        Status.BLOCKED,
        f"{counted}, but {declared}",
        f"build the questions again, then {evidence.run_again}",
    )


def _keys(evidence: CitationEvidence) -> str:
    """The keys of the evaluation that select videos: " (duration: long)"."""
    selected = Selection.stored_in(evidence.specification).selected_by
    keys = ", ".join(f"{key}: {value}" for key, value in selected.items())
    return f" ({keys})" if keys else ""


def sent_planned_frames(evidence: CitationEvidence) -> CheckResult | None:
    """Check that every request had the planned number of frames. None without frames."""
    answered = evidence.answered
    videos = [(row, evidence.video_of(row)) for row in answered]
    if not any(row.num_frames or (video and video.planned_frames) for row, video in videos):
        return None
    stored = [
        (row, video.planned_frames)
        for row, video in videos
        if video is not None and video.planned_frames is not None
    ]
    if evidence.takes_frames_itself:
        return _took_planned_frames(evidence)
    other = [
        f"{row.question_id} ({row.num_frames} of {plan})"
        for row, plan in stored
        if row.num_frames != plan
    ]
    if other:
        return CheckResult(
            Status.BLOCKED,
            f"{len(other):,} of {len(answered):,} requests did not have the planned number "
            f"of frames: {listed(other)}",
            "look for damaged videos (videomme doctor), replace them, and " + evidence.run_again,
        )
    if len(stored) < len(answered):
        return CheckResult(
            Status.UNKNOWN,
            f"the planned number of frames of {len(answered) - len(stored):,} of "
            f"{len(answered):,} requests is not stored",
            evidence.run_again,
        )
    frames = sorted({row.num_frames for row in answered})
    span = f"{frames[0]} to {frames[-1]}" if len(frames) > 1 else f"{frames[0]}"
    return CheckResult(Status.OK, f"{len(answered):,} requests had the planned {span} frames")


def _took_planned_frames(evidence: CitationEvidence) -> CheckResult:
    """Check that prompt tokens count the frames that the endpoint took from the videos itself.

    `counted_frame_tokens` compares the numbers of frames.
    """
    answered = evidence.answered
    uncounted = sum(evidence.seen_frames(row) is None for row in answered)
    if uncounted:
        return CheckResult(
            Status.UNKNOWN,
            f"the endpoint took the frames from the videos itself, and nothing shows how many "
            f"for {uncounted:,} of {len(answered):,} requests",
            "send frames (without `frames_as: video_file`), or use an engine and a model whose "
            "token counts are known (docs/engines.md)",
        )
    return CheckResult(
        Status.OK,
        f"the endpoint took the frames from the videos itself, and the prompt tokens of "
        f"{len(answered):,} requests count them",
    )


def counted_frame_tokens(evidence: CitationEvidence) -> CheckResult | None:
    """Check that the endpoint counted the tokens of the frames. None if no endpoint gets frames.

    If the tokens of the text are known, the others show the number of frames. Without a published
    rule, a frame needs at least one token, which proves little. The result is then `unknown`, or
    `blocked` if the endpoint counted fewer tokens than frames.
    """
    rows = [
        (row, video)
        for row in evidence.answered
        if (video := evidence.video_of(row)) is not None and video.frame_tokens != 0
    ]
    if not rows:
        return None
    other = [
        f"{row.question_id} ({seen} of {video.planned_frames})"
        for row, video in rows
        if (seen := evidence.seen_frames(row)) not in (None, video.planned_frames)
    ]
    if other:
        return CheckResult(
            Status.BLOCKED,
            f"{len(other):,} of {len(rows):,} requests have the prompt tokens of another number "
            f"of frames: {listed(other)}",
            "the endpoint dropped, added or resized frames; compare the sampling with the engine "
            f"(videomme doctor MODEL --probe, docs/engines.md), and {evidence.run_again}",
        )
    few = [
        f"{row.question_id} ({row.prompt_tokens:,} of {_least_tokens(video):,})"
        for row, video in rows
        if row.prompt_tokens is not None and row.prompt_tokens < _least_tokens(video)
    ]
    if few:
        return CheckResult(
            Status.BLOCKED,
            f"{len(few):,} of {len(rows):,} requests have fewer prompt tokens than their "
            f"frames need at least: {listed(few)}",
            "the endpoint dropped or shrank frames; check its limit on images per prompt "
            f"(or `tokens_per_frame` in models.yaml), and {evidence.run_again}",
        )
    uncounted = sum(row.prompt_tokens is None for row, _ in rows)
    unruled = sum(video.frame_tokens is None for _, video in rows)
    if uncounted or unruled:
        reason = f"the tokens of a frame are unknown for {unruled:,}"
        advice = "set `tokens_per_frame` in models.yaml"
        if uncounted:
            reason = f"the endpoint did not report the prompt tokens of {uncounted:,}"
            advice = "let the endpoint report `usage`"
        return CheckResult(Status.UNKNOWN, f"{reason} of {len(rows):,} requests", advice)
    return CheckResult(
        Status.OK, f"{len(rows):,} requests have the prompt tokens that their frames need"
    )


def has_no_warnings(evidence: CitationEvidence) -> CheckResult:
    """Check that no response was stored with a warning. Warnings about frames block."""
    warnings = [f"{r.question_id}: {r.warning}" for r in evidence.answered if r.warning]
    answered = f"{len(evidence.answered):,} responses"
    if not warnings:
        return CheckResult(Status.OK, f"{answered} have no warning")
    of_frames = [warning for warning in warnings if OTHER_FRAMES in warning]
    summary = f"{len(warnings):,} of {answered} have a warning: {(of_frames or warnings)[0]}"
    if not of_frames:
        return CheckResult(Status.WARNING, summary, "state the warning beside the score")
    advice = "compare the sampling with the engine (videomme doctor MODEL --probe, "
    advice += "docs/engines.md), and "
    return CheckResult(Status.BLOCKED, summary, advice + evidence.run_again)


def _least_tokens(video: EvaluatedVideo) -> int:
    """The smallest plausible number of prompt tokens of a request about `video`."""
    if video.frame_tokens is None:
        return video.planned_frames or 0
    return round(MIN_TOKEN_SHARE * video.frame_tokens)


def covers_subtitles(evidence: CitationEvidence) -> CheckResult | None:
    """Check how many videos have subtitles. None for an evaluation without subtitles."""
    size = evidence.benchmark.size
    if not is_with_subtitles(evidence.answers[0].track):
        return None
    if not evidence.videos:
        return _not_stored(evidence)
    videos, declared = len(evidence.videos), size.videos_with_subtitles
    count = sum(video.subtitle_hash is not None for video in evidence.videos.values())
    counted = f"{count:,} of {videos:,} videos have subtitles"
    is_complete = videos == size.videos and declared is not None
    if count == 0 or (is_complete and count != declared):
        expected = "" if declared is None else f", but the benchmark has {declared:,}"
        return CheckResult(
            Status.BLOCKED,
            counted + (expected if is_complete else ""),
            "fetch the subtitles of all videos (docs/data.md has the layouts), and "
            + evidence.run_again,
        )
    if is_complete:
        return CheckResult(Status.OK, f"{counted}, as declared")
    reason = (
        "the benchmark does not declare how many"
        if declared is None
        else f"the benchmark declares {declared:,} of {size.videos or 0:,}, but not which"
    )
    return CheckResult(
        Status.UNKNOWN,
        f"{counted}; {reason}",
        "name the number beside the score"
        if declared is not None
        else "declare `videos_with_subtitles` in its `size`",
    )


def has_expected_letters(evidence: CitationEvidence) -> CheckResult | None:
    """Compare the letters of the answers with the correct ones.

    None without frames, because a model that sees nothing has to guess.
    """
    letters = compare_letters(
        (row.answer, row.extracted_answer) for row in evidence.answered if not row.repeat
    )
    if letters is None or not any(row.num_frames for row in evidence.answered):
        return None
    if not letters.is_biased:
        return CheckResult(Status.OK, letters.summary)
    return CheckResult(
        Status.WARNING,
        letters.summary,
        "read some responses: the model prefers letters, or the reader misreads its answers",
    )


def has_same_media(evidence: CitationEvidence) -> CheckResult:
    """Check that videos, subtitles and questions are those that the score was computed from."""
    if not evidence.videos:
        return _not_stored(evidence)
    changed: dict[str, list[str]] = {"the file": [], "subtitles": [], "questions": []}
    with_subtitles = is_with_subtitles(evidence.answers[0].track)
    for video_id, video in evidence.videos.items():
        media = evidence.media.get(video_id)
        if media and video.video_hash and media.content_hash != video.video_hash:
            changed["the file"].append(video_id)
        if media and with_subtitles and media.subtitle_hash != video.subtitle_hash:
            changed["subtitles"].append(video_id)
        if evidence.question_fingerprints.get(video_id) != video.questions_fingerprint:
            changed["questions"].append(video_id)
    videos = f"{len(evidence.videos):,} videos"
    problems = [
        f"{what} of {len(ids):,} of {videos} ({listed(ids)})"
        for what, ids in changed.items()
        if ids
    ]
    if not problems:
        return CheckResult(Status.OK, f"the files and questions of {videos} are unchanged")
    return CheckResult(
        Status.BLOCKED,
        f"changed since the score was computed: {', '.join(problems)}",
        f"{evidence.run_again}; only questions on what changed are asked",
    )


_CHECKS: Mapping[CitationCheck, Callable[[CitationEvidence], CheckResult | None]] = {
    CitationCheck.ANSWERS: answered_once,
    CitationCheck.RELEASE: matches_release,
    CitationCheck.FRAMES: sent_planned_frames,
    CitationCheck.PROMPT_TOKENS: counted_frame_tokens,
    CitationCheck.WARNINGS: has_no_warnings,
    CitationCheck.SUBTITLES: covers_subtitles,
    CitationCheck.LETTERS: has_expected_letters,
    CitationCheck.MEDIA: has_same_media,
}


def _not_stored(evidence: CitationEvidence) -> CheckResult:
    return CheckResult(
        Status.UNKNOWN,
        "the data that the score was computed from is not stored",
        f"{evidence.run_again}; no question is asked again",
    )
