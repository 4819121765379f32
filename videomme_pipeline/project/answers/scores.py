"""Scores of an evaluation, and the inputs that they were computed from."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from videomme_pipeline.benchmarks.facets import NEEDS_VIDEO, Facets
from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.errors import (
    ConfigurationError,
    DamagedFileError,
    NotReadyError,
    StorageError,
)
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.frames.cache import NO_STORED_FRAMES, StoredFrames, read_stored
from videomme_pipeline.judge.judge import ask_judge, judge_rows
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.project.answers.asking import ask_model, with_failed_ones
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.journal import journal_of
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import EvaluatedVideo, Outcome, ScoredQuestion
from videomme_pipeline.videos.probe import Video


def score_evaluation(
    project: Project, benchmark: BenchmarkState, evaluation: Evaluation
) -> list[ScoredQuestion]:
    """One row per question and repeat, in the order of the benchmark.

    Questions without an answer are rows with the outcome `failed` and the reason. If the
    evaluation has a judge, it is asked about every response that `careful` cannot read.
    """
    reasons = benchmark.failures("responses").reasons()
    pairing = evaluation.pairing
    scored = []
    for video_id, questions in benchmark.snapshot.questions_of(evaluation).items():
        responses = Inputs(benchmark, video_id, evaluation).responses()
        reason = reasons.get(VideoVariant(video_id, evaluation.name), "never asked")
        for question, response in with_failed_ones(evaluation, questions, responses, reason):
            row = score_response(benchmark, evaluation, question, response, pairing)
            scored.append((question, row))
    if evaluation.judge is None:
        return [row for _, row in scored]
    judge = evaluation.judge.served_by(project.server_record.with_server)
    journal = journal_of(project.store)
    ask = partial(ask_judge, judge, journal, evaluation.name, ask=partial(ask_model, project))
    return judge_rows(scored, judge.model.name, ask)


def needs_video(blind_rows: Sequence[ScoredQuestion]) -> Mapping[str, str]:
    """The facet `needs_video` of questions: "no" if most blind answers are correct."""
    correct: dict[str, list[bool]] = defaultdict(list)
    for row in blind_rows:
        if row.outcome is not Outcome.FAILED:
            correct[row.question_id].append(row.is_correct)
    return {
        question_id: "no" if 2 * sum(repeats) > len(repeats) else "yes"
        for question_id, repeats in correct.items()
    }


def with_needs_video(row: ScoredQuestion, values: Mapping[str, str]) -> ScoredQuestion:
    """`row` with the facet `needs_video`, which is unknown without a blind answer."""
    value = values.get(row.question_id, "unknown")
    return replace(row, facets=Facets({**row.facets, NEEDS_VIDEO.column: value}))


def score_response(
    benchmark: BenchmarkState,
    evaluation: Evaluation,
    question: Question,
    response: Response,
    pairing: str | None = None,
) -> ScoredQuestion:
    """The response of an evaluation to `question`, read and scored."""
    return score_question(
        question,
        response,
        evaluation.reader,
        example_id=benchmark.snapshot.example_ids[question.question_id],
        evaluation_fingerprint=evaluation.fingerprint,
        sampling=evaluation.sampling_name,
        track=evaluation.track,
        pairing=pairing,
    )


def evaluated_videos(benchmark: BenchmarkState, evaluation: Evaluation) -> list[EvaluatedVideo]:
    """The inputs of the current scores: one row per video, or per question with own frames."""
    snapshot, versions = benchmark.snapshot, benchmark.snapshot.versions
    selected = snapshot.questions_of(evaluation)
    reads_video = evaluation.sampling is not None or evaluation.alignment is not None
    rows = []
    for video_id, questions in selected.items():
        video = snapshot.find_video(video_id) if reads_video else None
        for part, _ in Inputs(benchmark, video_id, evaluation).parts:
            stored = _stored_frames(benchmark, (video_id, part), video, evaluation)
            planned = None if stored is None else stored.count + len(stored.missing_seconds)
            rows.append(
                EvaluatedVideo(
                    benchmark=benchmark.name,
                    evaluation=evaluation.name,
                    video_id=video_id,
                    question_id=part,
                    questions_fingerprint=fingerprint(questions),
                    video_hash=video.content_hash if video else None,
                    subtitle_hash=video.subtitle_hash if video and evaluation.alignment else None,
                    planned_frames=planned,
                    frame_tokens=frame_tokens(video, planned, evaluation),
                    frame_bytes=(
                        None if stored is None or evaluation.model.reads_video else stored.bytes
                    ),
                    frames_fingerprint=(stored and stored.fingerprint) or None,
                    from_questions=snapshot.questions_version,
                    from_video=_known(partial(versions.video, video_id)) if video else None,
                    from_subtitles=_known(partial(versions.subtitles, video_id, evaluation)),
                    from_prompts=_known(partial(versions.prompts, video_id, evaluation)),
                    from_responses=_known(partial(versions.responses, video_id, evaluation)),
                )
            )
    return rows


def _known(fingerprint: Callable[[], str | None]) -> str | None:
    """A fingerprint, or None if an input is not known."""
    try:
        return fingerprint()
    except NotReadyError:
        return None


def _stored_frames(
    benchmark: BenchmarkState,
    part: tuple[str, str | None],
    video: Video | None,
    evaluation: Evaluation,
) -> StoredFrames | None:
    """The frames of a video or question without their pictures; no frames if none are sent.

    `part` has the ids of video and question. None if no frames are stored, named, or readable.
    """
    if evaluation.sampling is None or not evaluation.model.needs_frames:
        return NO_STORED_FRAMES
    if video is None:
        return None
    video_id, question_id = part
    settings = benchmark.snapshot.versions.frame_settings(video_id, evaluation.sampling_name)
    try:
        return read_stored(benchmark.store, video.content_hash, settings, question_id)
    except (FileNotFoundError, DamagedFileError, StorageError, ConfigurationError):
        return None


def frame_tokens(video: Video | None, planned: int | None, evaluation: Evaluation) -> int | None:
    """The prompt tokens of the planned frames: 0 if no endpoint gets frames, None if unknown."""
    model = evaluation.model
    if planned == 0 or evaluation.sampling is None or not isinstance(model, EndpointSpec):
        return 0
    if video is None or planned is None:
        return None
    return model.frame_tokens(video.stream.size, planned, evaluation.sampling.picture)
