"""`responses`: every question of an evaluation, asked once."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain

import dagster as dg

from assets.errors import NotReadyError
from assets.failures import FailureLog
from assets.partitions import Cell
from assets.resources import Benchmark, Progress, Project
from assets.stages.base import INCOMPLETE, BenchmarkStage, Failed, Made, Target
from assets.stages.frames import load_frames, shown_frames
from videomme_pipeline.errors import CostLimitError, VideoMMEError
from videomme_pipeline.evaluation import Evaluation
from videomme_pipeline.fingerprint import fingerprint
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import FailureKind
from videomme_pipeline.prompts.render import Prompt
from videomme_pipeline.responses.collect import AskingProgress, collect_now
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import RESPONSE_VERSION, RequestPlan, VideoRequests
from videomme_pipeline.responses.response import (
    AttemptRow,
    Response,
    never_answered,
)
from videomme_pipeline.responses.summary import ResponseSummary, summarize
from videomme_pipeline.store import read_rows, stored_fingerprint, write_rows


class Responses(BenchmarkStage):
    """A video is done when all its questions are answered; what was answered is never lost."""

    name = "responses"
    description = "Every question of every evaluation with the model's raw answer."
    upstream = ("prompts", "frames")
    kinds = frozenset({"openai", "sqlite", "parquet"})
    row_class = Response
    settings = ("model", "decoding", "samples")
    takes_machine = False
    code_version = f"1.{RESPONSE_VERSION}"

    def target(self, cell: Cell) -> Target:
        assert cell.video is not None
        assert cell.variant is not None
        versions, evaluation = self.benchmark.versions, self.benchmark.evaluations[cell.variant]
        version = versions.responses(cell.video, evaluation)
        return Target(
            cell=cell,
            fingerprint=version,
            data_version=version,
            path=self.store.responses(self.benchmark.name, cell.variant, cell.video),
            inputs=self.inputs(
                prompts=versions.prompts(cell.video, evaluation),
                frames=versions.frames(cell.video, evaluation.sampling),
            ),
        )

    def takes_as_much(self, variant: str | None, other: str | None) -> bool:
        """Only the same model takes as long."""
        evaluations = self.benchmark.evaluations
        models = [e.model for name in (variant, other) if (e := evaluations.get(str(name)))]
        return len(models) == 2 and models[0] == models[1]

    def make(self, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        by_evaluation: dict[str, list[Target]] = defaultdict(list)
        for target in targets:
            assert target.cell.variant is not None
            by_evaluation[target.cell.variant].append(target)
        for name, wanted in by_evaluation.items():
            yield from self._ask(self.benchmark.evaluations[name], wanted)

    def _ask(self, evaluation: Evaluation, targets: Sequence[Target]) -> Iterator[Made | Failed]:
        """Ask one evaluation's videos; each is stored when its last question has come back."""
        requests: dict[str, VideoRequests] = {}
        waiting: dict[str, Target] = {}
        for target in targets:
            assert target.cell.video is not None
            try:
                requests[target.cell.video] = requests_of(
                    self.benchmark, evaluation, target.cell.video
                )
            except VideoMMEError as error:
                yield Failed(cell=target.cell, reason=str(error))
                continue
            waiting[target.cell.video] = target
        if not requests:
            return
        held: dict[str, list[Response]] = defaultdict(list)
        with open_journal(self.benchmark, evaluation) as journal:
            try:
                for response in ask(self.benchmark, evaluation, list(requests.values()), journal):
                    answers = held[response.video_id]
                    answers.append(response)
                    asked = requests[response.video_id].questions
                    if len(answers) == len(asked) * evaluation.samples:
                        target = waiting.pop(response.video_id)
                        of_all = None if waiting else summarize(chain(*held.values()))
                        yield self._store(target, answers, journal, of_all)
            except CostLimitError as error:
                # Not a failure: these are as missing as before, and what was asked is kept.
                for video_id, target in waiting.items():
                    rest = _not_asked(requests[video_id], evaluation, held[video_id], str(error))
                    self._write(target, [*held[video_id], *rest], journal)
            except VideoMMEError as error:
                # What was answered is in the journal; the next run goes on from there.
                yield from (Failed(cell=t.cell, reason=str(error)) for t in waiting.values())
        took = summary_markdown(summarize(chain(*held.values())))
        dg.get_dagster_logger().info(f"{evaluation.name}: what asking took\n\n{took}")

    def _store(
        self,
        target: Target,
        responses: list[Response],
        journal: Journal,
        of_all: ResponseSummary | None,
    ) -> Made | Failed:
        """Keep the responses of one video; `of_all` sums up all that the run asked."""
        self._write(target, responses, journal)
        errors = [response.error for response in responses if response.error]
        if errors:
            return Failed(
                cell=target.cell,
                reason=f"{len(errors)} of {len(responses)} questions have no answer: {errors[0]}",
            )
        metadata = _metadata(responses)
        if of_all is not None:
            metadata["evaluation"] = dg.MetadataValue.md(summary_markdown(of_all))
        return Made(target=target, metadata=metadata)

    def _write(self, target: Target, responses: list[Response], journal: Journal) -> None:
        """The responses of one video and every attempt at them, a table each."""
        responses.sort(key=lambda response: (response.question_id, response.sample))
        is_complete = not any(response.error for response in responses)
        write_rows(
            target.path,
            responses,
            Response,
            fingerprint=target.fingerprint + ("" if is_complete else INCOMPLETE),
            recipe=self.recipe(target.cell),
        )
        cell, answered = target.cell, {item.request_fingerprint: item for item in responses}
        assert cell.variant is not None
        assert cell.video is not None
        write_rows(
            self.store.attempts(self.benchmark.name, cell.variant, cell.video),
            [
                attempt.row(answered[attempt.request_fingerprint])
                for attempt in journal.attempts(answered)
            ],
            AttemptRow,
            fingerprint=target.fingerprint,
        )


def open_journal(benchmark: Benchmark, evaluation: Evaluation) -> Journal:
    """The journal of the project; where answers cost money, every commit waits for the disk."""
    return Journal(benchmark.store.journal, flushes_every_commit=evaluation.model.costs_money)


def plan_of(evaluation: Evaluation, observation: str | None = None) -> RequestPlan:
    """How an evaluation asks; an `observation` (a date) asks anew."""
    return RequestPlan(
        evaluation=evaluation.name,
        decoding=evaluation.decoding,
        repeats=evaluation.samples,
        schedule=evaluation.model.request_schedule,
        observation=observation,
        limits=evaluation.model.limits,
    )


def ask(
    benchmark: Benchmark,
    evaluation: Evaluation,
    requests: Sequence[VideoRequests],
    journal: Journal,
    observation: str | None = None,
) -> Iterator[Response]:
    """Every response of an evaluation's model to `requests`. Raises as `ask_model`."""
    plan = plan_of(evaluation, observation)
    return ask_model(benchmark.project, evaluation.model, requests, journal, plan)


def ask_model(
    project: Project,
    spec: ModelSpec,
    requests: Sequence[VideoRequests],
    journal: Journal,
    plan: RequestPlan,
) -> Iterator[Response]:
    """Every response to `requests`, as it comes, within what the run may still spend.

    Raises:
        VideoMMEError: after the last response, when no further question can be answered, or the
            money is used up.
    """
    spending = project.spending
    if spec.costs_money:
        plan = replace(plan, max_cost_dollars=spending.left_dollars)
    what = f"{plan.evaluation}: responses"
    total = sum(len(request.questions) for request in requests) * plan.repeats
    spent_before = spending.spent_dollars

    def spent(progress: AskingProgress) -> None:
        spending.spent_dollars = spent_before + progress.cost_dollars

    collected = collect_now(requests, build_model(spec), journal, plan, on_progress=spent)
    with project.asking(spec), closing(collected) as asked:
        try:
            for done, response in enumerate(asked, start=1):
                project.on_progress(Progress(what=what, done=done, total=total))
                yield response
        except CostLimitError as error:
            raise spending.stop(plan.evaluation, error, spec.limits.max_cost_dollars) from error


def requests_of(benchmark: Benchmark, evaluation: Evaluation, video_id: str) -> VideoRequests:
    """Everything that a video is asked.

    Raises:
        NotReadyError: when its prompts or frames are not there; the message says why.
        FrameCacheError: when the file of its frames is damaged.
    """
    prompts = {prompt.question_id: prompt for prompt in _prompts(benchmark, evaluation, video_id)}
    asked = [
        (question, prompts[question.question_id]) for question in benchmark.questions[video_id]
    ]
    shown = shown_frames(benchmark, video_id, evaluation)
    sees_times = evaluation.model.sees_frame_times
    return VideoRequests(
        video_id=video_id,
        questions=asked,
        frame_digests=[fingerprint(held) if sees_times else held.digest for held in shown],
        load_frames=lambda: load_frames(benchmark, video_id, evaluation),
    )


def stored_responses(
    benchmark: Benchmark, evaluation: Evaluation, video_id: str
) -> dict[tuple[str, int], Response]:
    """The stored responses by question and sample; older ones to another request are none."""
    path = benchmark.store.responses(benchmark.name, evaluation.name, video_id)
    try:
        version = benchmark.versions.responses(video_id, evaluation)
    except NotReadyError:
        return {}
    if stored_fingerprint(path) not in (version, version + INCOMPLETE):
        return {}
    return {(row.question_id, row.sample): row for row in read_rows(path, Response)}


def _prompts(benchmark: Benchmark, evaluation: Evaluation, video_id: str) -> list[Prompt]:
    path = benchmark.store.prompts(benchmark.name, evaluation.name, video_id)
    if stored_fingerprint(path) != benchmark.versions.prompts(video_id, evaluation):
        failures = FailureLog.of(benchmark.store, f"{benchmark.name}/prompts")
        raise failures.not_ready(Cell(video=video_id, variant=evaluation.name))
    return read_rows(path, Prompt)


def _not_asked(
    video: VideoRequests, evaluation: Evaluation, held: Sequence[Response], reason: str
) -> Iterator[Response]:
    """A row for each question of a video that is left for a later run."""
    answered = {(response.question_id, response.sample) for response in held}
    for sample in range(evaluation.samples):
        for question, _ in video.questions:
            if (question.question_id, sample) not in answered:
                left = never_answered(
                    question,
                    evaluation=evaluation.name,
                    model=evaluation.model.name,
                    sample=sample,
                    error=f"not asked: {reason}",
                )
                yield replace(left, failure=FailureKind.NOT_ASKED)


def _metadata(responses: Sequence[Response]) -> dict[str, object]:
    """What the responses of one video took; what was not reported is left out."""
    summary = summarize(responses)
    known = {name: getattr(summary, name) for name in _SHOWN}
    return {
        "answers": "  ".join(str(response.raw_output)[:40] for response in responses),
        **{name: value for name, value in known.items() if value is not None},
    }


_SHOWN = (
    "responses",
    "answered",
    "failed",
    "attempts",
    "prompt_tokens",
    "cached_tokens",
    "cached_share",
    "completion_tokens",
    "reasoning_tokens",
    "cost_dollars",
    "latency_p50_seconds",
    "latency_p95_seconds",
)


def summary_markdown(summary: ResponseSummary) -> str:
    """A table of what a set of responses took, and how long they took as bars."""
    lines = ["| | |", "|---|---|"]
    for name in _SHOWN:
        value = getattr(summary, name)
        if value is not None:
            shown = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
            lines.append(f"| {name.replace('_', ' ')} | {shown} |")
    lines += [f"| failed: {kind} | {count} |" for kind, count in summary.failures.items()]
    if summary.latency_bins:
        most = max(held.responses for held in summary.latency_bins)
        lines += ["", "| latency below | responses | |", "|---:|---:|---|"]
        lines += [
            f"| {held.below_seconds:.3g} s | {held.responses} | "
            f"{'█' * round(20 * held.responses / most)} |"
            for held in summary.latency_bins
        ]
    return "\n".join(lines)
