"""Made-up evidence about an evaluation that may be cited."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.made_up_results import made_up_video
from videomme_pipeline.benchmarks.benchmark import Benchmark, Size
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import group_by_video
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.scoring.findings.run import Run
from videomme_pipeline.scoring.scored_question import Answer, EvaluatedVideo, Outcome

VIDEOS = ("001", "002", "003", "004")
BENCHMARK = find_benchmark("videomme").model_copy(
    update={"size": Size(videos=4, questions_per_video=3, videos_with_subtitles=3)}
)


def question(video_id: str, number: int) -> Question:
    return Question(
        benchmark="videomme",
        question_id=f"{video_id}-{number}",
        video_id=video_id,
        youtube_id=None,
        url=None,
        question="What is shown?",
        options=("A. Apples.", "B. Boats.", "C. Cars.", "D. Dogs."),
        answer=tuple(Letter)[number],
    )


QUESTIONS = [question(video_id, number) for video_id in VIDEOS for number in (1, 2, 3)]


def answer(asked: Question, repeat: int = 0, **facts: Any) -> Answer:
    """A correct answer with eight frames."""
    values: dict[str, Any] = {
        "question_id": asked.question_id,
        "video_id": asked.video_id,
        "repeat": repeat,
        "answer": asked.answer,
        "extracted_answer": asked.answer,
        "outcome": Outcome.CORRECT,
        "num_frames": 8,
        "usage": Usage(prompt_tokens=8_100, text_tokens=100),
        "track": "with_subtitles",
        "judge_error": None,
        "warning": None,
        "request_fingerprint": asked.question_id,
    }
    return Answer(**values | facts)


def fingerprints(questions: Sequence[Question]) -> dict[str, str]:
    """The fingerprint of the questions on each video."""
    return {video_id: fingerprint(asked) for video_id, asked in group_by_video(questions).items()}


def video(video_id: str, **facts: Any) -> EvaluatedVideo:
    """A video with subtitles, except for the last one, and eight frames of 1,000 tokens."""
    values: dict[str, Any] = {
        "benchmark": "videomme",
        "evaluation": "made-up",
        "video_id": video_id,
        "questions_fingerprint": fingerprints(QUESTIONS)[video_id],
        "video_hash": f"video {video_id}",
        "subtitle_hash": None if video_id == VIDEOS[-1] else f"subtitles {video_id}",
        "planned_frames": 8,
        "frame_tokens": 8_000,
    }
    return EvaluatedVideo(**values | facts)


def evidence(
    answers: Sequence[Answer] | None = None,
    videos: Sequence[EvaluatedVideo] | None = None,
    *,
    benchmark: Benchmark = BENCHMARK,
    questions: Sequence[Question] = QUESTIONS,
) -> Run:
    """A perfect evaluation, except for what is given."""
    evaluated = [video(video_id) for video_id in VIDEOS] if videos is None else videos
    return Run(
        benchmark=benchmark,
        name="made-up",
        questions={asked.question_id: asked for asked in questions},
        question_fingerprints=fingerprints(questions),
        answers=[answer(asked) for asked in questions] if answers is None else answers,
        specification={},
        videos={row.video_id: row for row in evaluated},
        media={
            row.video_id: replace(
                made_up_video(question(row.video_id, 1)),
                content_hash=row.video_hash or "",
                subtitle_hash=row.subtitle_hash,
            )
            for row in map(video, VIDEOS)
        },
    )
