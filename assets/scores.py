"""`scores`: what was read from each response, and whether it is right."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import dagster as dg

from assets.errors import NotReadyError
from assets.failures import FailureLog
from assets.partitions import Cell
from assets.stage import INCOMPLETE, BenchmarkStage, Failed, Made, Target
from videomme_pipeline.annotations.question import Question
from videomme_pipeline.errors import VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.reports.terminal import interval, percent
from videomme_pipeline.responses.response import Response, never_answered
from videomme_pipeline.scoring.breakdowns import breakdown
from videomme_pipeline.scoring.judge_reader import ask_judge, judge_rows, summarize_judge
from videomme_pipeline.scoring.score import SCORE_VERSION, score_question
from videomme_pipeline.scoring.scored_question import Outcome, ScoredQuestion
from videomme_pipeline.store import read_rows, stored_fingerprint, write_rows


class Scores(BenchmarkStage):
    """One partition an evaluation. Questions without an answer are in it as `failed`."""

    name = "scores"
    description = "Every question with its response, the letter read from it and the outcome."
    upstream = ("questions", "responses")
    kinds = frozenset({"parquet"})
    row_class = ScoredQuestion
    settings = ("reader", "judge")
    code_version = f"1.{SCORE_VERSION}"

    def target(self, cell: Cell) -> Target:
        assert cell.variant is not None
        version = self.benchmark.versions.scores(self.benchmark.evaluations[cell.variant])
        return Target(
            cell=cell,
            fingerprint=version,
            data_version=version,
            path=self.benchmark.store.scores(self.benchmark.name, cell.variant),
            inputs=self.inputs(),
        )

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        for target in targets:
            try:
                yield from self._make(target)
            except VideoMMEError as error:
                yield Failed(cell=target.cell, reason=str(error))

    def _make(self, target: Target) -> Iterator[Made | Failed]:
        assert target.cell.variant is not None
        evaluation = self.benchmark.evaluations[target.cell.variant]
        reasons = FailureLog.of(self.store, self.key_of("responses").to_user_string()).read()
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
                ),
            )
            for video_id in self.benchmark.questions
            for question, response in self._answers(video_id, evaluation, reasons)
        ]
        rows = self._judged(scored, evaluation)
        outcomes = Counter(row.outcome for row in rows)
        unjudged = [row.judge_error for row in rows if row.judge_error]
        incomplete = outcomes[Outcome.FAILED] > 0 or bool(unjudged)
        write_rows(
            target.path,
            rows,
            ScoredQuestion,
            fingerprint=target.fingerprint + (INCOMPLETE if incomplete else ""),
            recipe=evaluation.specification,
        )
        yield Made(target=target, metadata=_metadata(rows, outcomes), incomplete=incomplete)
        if unjudged:
            yield Failed(
                cell=target.cell,
                reason=f"{len(unjudged)} requests to its judge failed: {unjudged[0]}",
            )

    def _judged(
        self, scored: Sequence[tuple[Question, ScoredQuestion]], evaluation: Evaluation
    ) -> list[ScoredQuestion]:
        """The rows, with what the judge of the evaluation reads where there is one."""
        judge = evaluation.judge
        if judge is None:
            return [row for _, row in scored]
        ask = partial(ask_judge, judge, self.store.journal, evaluation.name)
        return judge_rows(scored, judge.model.name, ask)

    def _answers(
        self, video_id: str, evaluation: Evaluation, reasons: Mapping[Cell, str]
    ) -> Iterator[tuple[Question, Response]]:
        """Each question of a video with its responses, or with the reason why there is none."""
        held = self._responses(video_id, evaluation)
        for question in self.benchmark.questions[video_id]:
            for sample in range(evaluation.samples):
                response = held.get((question.question_id, sample))
                yield (
                    question,
                    response
                    or never_answered(
                        question,
                        evaluation=evaluation.name,
                        model=evaluation.model.name,
                        sample=sample,
                        error=reasons.get(
                            Cell(video=video_id, variant=evaluation.name), "never asked"
                        ),
                    ),
                )

    def _responses(self, video_id: str, evaluation: Evaluation) -> dict[tuple[str, int], Response]:
        """The stored responses by question and sample; older ones to another request are none."""
        path = self.store.responses(self.benchmark.name, evaluation.name, video_id)
        try:
            version = self.benchmark.versions.responses(video_id, evaluation)
        except NotReadyError:
            return {}
        if stored_fingerprint(path) not in (version, version + INCOMPLETE):
            return {}
        return {(row.question_id, row.sample): row for row in read_rows(path, Response)}


def _metadata(rows: Sequence[ScoredQuestion], outcomes: Counter[Outcome]) -> dict[str, object]:
    questions = outcomes.total()
    answered = outcomes[Outcome.CORRECT] + outcomes[Outcome.INCORRECT]
    metadata: dict[str, object] = {outcome.value: outcomes[outcome] for outcome in Outcome}
    metadata |= {"questions": questions, "accuracy": outcomes[Outcome.CORRECT] / questions}
    if answered:
        metadata["accuracy_of_answered"] = outcomes[Outcome.CORRECT] / answered
    metadata |= _judge_metadata(rows)
    column = "task_type" if rows[0].group_type is None else "second_head"
    metadata[f"by_{column}"] = dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    column: cell.values[0],
                    "accuracy": percent(cell.accuracy),
                    "interval": interval(cell.accuracy_low, cell.accuracy_high),
                    "questions": cell.responses,
                    "videos": cell.videos,
                }
            )
            for cell in breakdown(rows, [column])
        ]
    )
    return metadata


def _judge_metadata(rows: Sequence[ScoredQuestion]) -> dict[str, object]:
    summary = summarize_judge(rows)
    if summary is None:
        return {}
    held = asdict(summary)
    return {key if "judge" in key else f"judge_{key}": value for key, value in held.items()}
