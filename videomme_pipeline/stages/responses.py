"""`responses`: every question of an evaluation, asked once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain

import numpy as np

from videomme_pipeline.errors import CostLimitError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.models.identity import read_identity
from videomme_pipeline.models.video_llm import Usage
from videomme_pipeline.project.answers import asking
from videomme_pipeline.project.answers.inputs import Inputs
from videomme_pipeline.project.state.benchmark import BenchmarkState
from videomme_pipeline.project.state.partitions import Dimension, VideoVariant
from videomme_pipeline.responses.journal import Journal
from videomme_pipeline.responses.requests import VideoRequests
from videomme_pipeline.responses.response import AttemptRow, Response
from videomme_pipeline.stages import stage as stages

_TOKENS = [count.name for count in fields(Usage)]


def _inputs(benchmark: BenchmarkState, partition: VideoVariant) -> Mapping[str, str | None]:
    versions, evaluation = benchmark.snapshot.versions, benchmark.evaluations[partition.variant]
    return {
        "prompts": versions.prompts(partition.video, evaluation),
        "frames": versions.sent_frames(partition.video, evaluation),
        "server": benchmark.server_record.keys(evaluation.model)[0],
    }


def _prepare(stage: stages.BenchmarkStage, partitions: Sequence[VideoVariant]) -> tuple[()]:
    """Record the current servers, which fingerprints contain."""
    stage.project.observe_servers({partition.variant for partition in partitions})
    stage.invalidate()
    return ()


def _build(stage: stages.BenchmarkStage, targets: stages.Targets) -> stages.BuildEvents:
    stage.project.release_workers()  # no step after this one needs them
    by_evaluation: dict[str, list[stages.Target]] = defaultdict(list)
    for target in targets:
        by_evaluation[str(target.partition.variant)].append(target)
    for name, own_targets in by_evaluation.items():
        yield from _ask(stage, stage.benchmark.evaluations[name], own_targets)


def _ask(
    stage: stages.BenchmarkStage, evaluation: Evaluation, targets: stages.Targets
) -> stages.BuildEvents:
    """Ask about the videos of one evaluation, and store each video after its last answer."""
    project, questions_on = stage.project, stage.benchmark.snapshot.questions_of(evaluation)
    requests: dict[str, list[VideoRequests]] = {}
    pending: dict[str, stages.Target] = {}
    for target in targets:
        video_id = str(target.partition.video)
        try:
            requests[video_id] = asking.requests_of(Inputs(stage.benchmark, video_id, evaluation))
        except VideoMMEError as error:
            yield stages.BuildFailure(partition=target.partition, reason=str(error))
            continue
        pending[video_id] = target
    if not requests:
        return
    responses: dict[str, list[Response]] = defaultdict(list)
    with asking.open_journal(project, evaluation) as journal:
        try:
            asked, plan = list(chain(*requests.values())), asking.plan_of(evaluation)
            for response in asking.ask_model(project, evaluation.model, asked, journal, plan):
                answers = responses[response.video_id]
                answers.append(response)
                if len(answers) == len(questions_on[response.video_id]) * evaluation.repeats:
                    target = pending.pop(response.video_id)
                    total = None if pending else summarize(chain(*responses.values()))
                    yield _store(stage, target, answers, journal, total)
        except CostLimitError as error:
            # This is not a failure: the partitions stay missing, and their answers are kept.
            for video_id, target in pending.items():
                answered = {(row.question_id, row.repeat): row for row in responses[video_id]}
                rows = asking.with_failed_ones(
                    evaluation, questions_on[video_id], answered, f"not asked: {error}"
                )
                _write(stage, target, [row for _, row in rows], journal)
        except VideoMMEError as error:
            # The journal contains every answer so far, and the next run resumes from it.
            for target in pending.values():
                yield stages.BuildFailure(partition=target.partition, reason=str(error))
            return
    totals = summarize(chain(*responses.values()))
    numbers = ", ".join(f"{name} {round(number, 4):,}" for name, number in totals.items())
    project.on_log(f"{evaluation.name}, all requests of these answers: {numbers}")


def _store(
    stage: stages.BenchmarkStage,
    target: stages.Target,
    responses: list[Response],
    journal: Journal,
    total: Mapping[str, int | float] | None,
) -> stages.BuildResult | stages.BuildFailure:
    """Store the responses of one video. `total` summarizes all requests of the run."""
    _write(stage, target, responses, journal)
    errors = [response.error for response in responses if response.error]
    if errors:
        return stages.BuildFailure(
            partition=target.partition,
            reason=f"{len(errors)} of {len(responses)} questions have no answer: {errors[0]}",
        )
    servers = sorted({str(read_identity(row.server)) for row in responses if row.server})
    facts = {
        "answers": "  ".join(str(response.raw_output)[:40] for response in responses),
        "server": "; ".join(servers) or None,
        **summarize(responses),
        "evaluation": total,
    }
    return stages.BuildResult(target=target, facts=facts)


def _write(
    stage: stages.BenchmarkStage, target: stages.Target, responses: list[Response], journal: Journal
) -> None:
    """Store all attempts about one video, and then its responses.

    A partition with responses is fresh, so after a kill its attempts would stay missing.
    """
    responses.sort(key=lambda response: (response.question_id, response.repeat))
    answers = sum(response.error is None for response in responses)
    if answers < len(responses):
        target = stage.part_of(target, responses, answers)
    by_request = {response.request_fingerprint: response for response in responses}
    attempts = journal.attempts(by_request)
    rows = [attempt.row(by_request[attempt.request_fingerprint]) for attempt in attempts]
    stage.write(target, rows, companion=AttemptRow)
    stage.write(target, responses)


RESPONSES = stages.Stage(
    name="responses",
    description="Every question of every evaluation with the model's raw answer.",
    dimensions=frozenset({Dimension.VIDEO, Dimension.EVALUATION}),
    upstream=("prompts", "frames"),
    kinds=frozenset({"sqlite", "parquet"}),
    row_class=Response,
    fingerprint=lambda benchmark, partition: benchmark.snapshot.versions.responses(
        partition.video, benchmark.evaluations[partition.variant]
    ),
    inputs=_inputs,
    prepare=_prepare,
    build=_build,
    settings=("model", "generation", "repeats"),
    companion="attempts",
    asks_models=True,
)
"""The stage that asks the model.

A partition is built once all questions of its video have an answer. All answers are kept."""


def summarize(responses: Iterable[Response]) -> dict[str, int | float]:
    """Counts, tokens, costs and latencies by name, without those that are unknown.

    `cached_share` is cached divided by prompt tokens (0–1), in responses that report both.
    `failed: timeout` counts the failures of one kind.
    """
    rows = list(responses)
    answered = [row for row in rows if row.raw_output is not None]
    latencies = [
        row.served.latency_seconds for row in answered if row.served.latency_seconds is not None
    ]
    p50 = p95 = None
    if latencies:  # the smallest latency that is not below those of this share of the answers
        p50, p95 = np.quantile(latencies, (0.50, 0.95), method="inverted_cdf").tolist()
    numbers = {
        "responses": len(rows),
        "succeeded": len(answered),
        "failed": len(rows) - len(answered),
        "attempts": sum(row.served.attempts for row in rows),
        **{name: _total(getattr(row.usage, name) for row in rows) for name in _TOKENS},
        "cached_share": _cached_share(row.usage for row in rows),
        "cost_dollars": _total(row.served.cost_dollars for row in rows),
        "latency_p50_seconds": p50,
        "latency_p95_seconds": p95,
    }
    failures = Counter(f"failed: {row.failure}" for row in rows if row.failure is not None)
    return {name: number for name, number in numbers.items() if number is not None} | failures


def _total(numbers: Iterable[int | float | None]) -> int | float | None:
    reported = [number for number in numbers if number is not None]
    return sum(reported) if reported else None


def _cached_share(usages: Iterable[Usage]) -> float | None:
    both = [usage for usage in usages if None not in (usage.cached_tokens, usage.prompt_tokens)]
    cached_tokens = sum(usage.cached_tokens or 0 for usage in both)
    prompt_tokens = sum(usage.prompt_tokens or 0 for usage in both)
    return cached_tokens / prompt_tokens if prompt_tokens else None
