"""Scores of an evaluation: every question with its response, the letter read and the outcome."""

from collections.abc import Iterator, Mapping
from functools import partial

from videomme_pipeline.benchmarks.question import Question
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.project.asking import ask_model
from videomme_pipeline.project.failures import FailureLog
from videomme_pipeline.project.partitions import Partition, VideoVariantPartition
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.state import BenchmarkState
from videomme_pipeline.project.stored import stored_responses
from videomme_pipeline.responses.response import Response
from videomme_pipeline.scoring.readers.judge import ask_judge, judge_rows
from videomme_pipeline.scoring.score import score_question
from videomme_pipeline.scoring.scored_question import ScoredQuestion


def score_evaluation(
    project: Project, benchmark: BenchmarkState, evaluation: Evaluation
) -> list[ScoredQuestion]:
    """One row per question and repeat, in the order of the benchmark.

    Questions without an answer are rows with the outcome `failed` and the reason. If the
    evaluation has a judge, it is asked about every response that `strict` cannot read.
    """
    reasons = FailureLog(project.store, f"{benchmark.name}/responses").read()
    track_pair = evaluation.track_pair
    scored = [
        (
            question,
            score_question(
                question,
                response,
                evaluation.reader,
                evaluation_fingerprint=evaluation.fingerprint,
                sampling=evaluation.sampling_name,
                track=evaluation.track,
                track_pair=track_pair,
            ),
        )
        for video_id in benchmark.snapshot.questions
        for question, response in _answers(benchmark, video_id, evaluation, reasons)
    ]
    judge = evaluation.judge
    if judge is None:
        return [row for _, row in scored]
    ask = partial(
        ask_judge, judge, project.store.journal, evaluation.name, ask=partial(ask_model, project)
    )
    return judge_rows(scored, judge.model.name, ask)


def _answers(
    benchmark: BenchmarkState,
    video_id: str,
    evaluation: Evaluation,
    reasons: Mapping[Partition, str],
) -> Iterator[tuple[Question, Response]]:
    """Yield each question and repeat of a video with its response, or with a failed one."""
    responses = stored_responses(benchmark, video_id, evaluation)
    reason = reasons.get(VideoVariantPartition(video_id, evaluation.name), "never asked")
    for question in benchmark.snapshot.questions[video_id]:
        for repeat in range(evaluation.repeats):
            response = responses.get((question.question_id, repeat))
            yield (
                question,
                response
                or Response.not_asked(
                    question,
                    evaluation=evaluation.name,
                    model=evaluation.model.name,
                    sample=repeat,
                    error=reason,
                ),
            )
