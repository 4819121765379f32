"""Races: two evaluations are asked video by video until their difference is known.

A race is one run of the job `race`, which asks only what no earlier run has answered. So a race
that was stopped continues where it ended, and a race that is repeated costs nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from videomme_pipeline.assets.processes import QUIET, run_here
from videomme_pipeline.assets.stages.metadata import metadata_of
from videomme_pipeline.assets.triggers.jobs import one_of, refresh_within
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError, ScoringError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.project.answers.scores import score_evaluation
from videomme_pipeline.project.project import Project
from videomme_pipeline.project.runs.progress import ignore
from videomme_pipeline.reports.gate import detected_differences, sentence
from videomme_pipeline.scoring.statistics.gate import Gate, decide
from videomme_pipeline.scoring.statistics.race import (
    Look,
    Stop,
    boundary,
    detectable_in_race,
    plan_looks,
    race_order,
    stop_after,
)
from videomme_pipeline.scoring.verdicts import RecordedLook, write_race

RACE_JOB = "race"


class RaceConfig(dg.Config):
    """The evaluations, the margin and the limits of a race, which the form in the UI offers."""

    baseline: str = Field(description="The evaluation to compare with.")
    candidate: str = Field(description="The evaluation in question.")
    seed: int = Field(default=0, description="Seed of the order of the videos.")
    margin: float = Field(
        default=2.0, ge=0, description="Points that are no difference in practice."
    )
    max_cost_dollars: float | None = Field(
        default=None, ge=0, description="US dollars that the race may spend. Empty means no limit."
    )
    max_questions: int | None = Field(
        default=None, gt=0, description="Most questions that each evaluation is asked."
    )
    max_failed: float = Field(
        default=0.1, ge=0, le=1, description="Largest share of unanswered questions."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLook:
    """The decision after one look. `stop` is None if the race goes on."""

    look: Look
    gate: Gate
    stop: Stop | None


def race_here(
    project: Project,
    instance: dg.DagsterInstance,
    config: RaceConfig,
    on_look: Callable[[RaceLook], None],
) -> None:
    """Run a race in this process, and call `on_look` after each look. The last one has a `stop`.

    Raises ConfigurationError if the two evaluations cannot race, and ScoringError if too many
    questions have no answer, or if the first look exceeds a limit.
    """
    _pair(project, config)
    definitions = dg.Definitions(jobs=[race_job(project, on_look)])
    run_here(project, instance, definitions, RACE_JOB, run_config=config.model_dump())


def race_job(project: Project, on_look: Callable[[RaceLook], None] = ignore) -> dg.JobDefinition:
    """The job that runs one race. The launchpad offers the names of the evaluations."""
    fields = {**RaceConfig.to_fields_dict()}  # a copy, because Dagster keeps its own one
    kind, names = one_of(project.configuration.evaluations)
    for name in ("baseline", "candidate"):
        fields[name] = dg.Field(kind, description=f"{fields[name].description} {names}")

    @dg.config_mapping(config_schema=fields)
    def for_the_step(request: dict[str, Any]) -> dict[str, Any]:
        return {"ops": {"ask_until_decided": {"config": request}}, "loggers": QUIET}

    @dg.op(
        description="Ask, compare, and ask more until the difference is known.",
        config_schema=fields,
    )
    def ask_until_decided(context: dg.OpExecutionContext) -> None:
        config, current = RaceConfig(**context.op_config), project.reopened()
        try:
            with current.servers, current.keeping_workers():
                for result in _race(context, current, config):
                    on_look(result)
        except VideoMMEError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        gate, check = result.gate, result.gate.checks[0]
        shown = {
            "verdict": gate.verdict.value,
            "stop": str(result.stop),
            "difference": check.difference,
            "p_value": check.p_value,
            "videos": result.look.videos,
            "questions": gate.questions,
            "failed": gate.failed,
        }
        context.add_output_metadata(metadata_of(shown))

    @dg.job(
        name=RACE_JOB,
        description="Ask two evaluations video by video, until their difference is known.",
        config=for_the_step,
    )
    def race() -> None:
        ask_until_decided()

    return race


def _pair(project: Project, config: RaceConfig) -> tuple[Evaluation, Evaluation]:
    """Baseline and candidate. Raises ConfigurationError if they cannot race."""
    baseline = project.configuration.evaluation(config.baseline)
    candidate = project.configuration.evaluation(config.candidate)
    names = f"{baseline.name} and {candidate.name}"
    for evaluation in (baseline, candidate):
        if evaluation.judge is not None:
            raise ConfigurationError(
                f"{evaluation.name}: a race asks no judge; use an evaluation without `judge`"
            )
    if baseline.benchmark != candidate.benchmark or baseline.selection != candidate.selection:
        raise ConfigurationError(
            f"{names} do not have the same questions; race two evaluations with the same "
            "`benchmark`, `duration` and `subset`"
        )
    if baseline.track != candidate.track and baseline.pairing != candidate.pairing:
        raise ConfigurationError(
            f"{names} are of different tracks ({baseline.track}, {candidate.track}) and differ in "
            "other settings too, so their difference would have several causes; race evaluations "
            "of one track"
        )
    return baseline, candidate


def _race(
    context: dg.OpExecutionContext, project: Project, config: RaceConfig
) -> Iterator[RaceLook]:
    """Ask look after look, store each result, and yield it."""
    pair = _pair(project, config)

    def ask(videos: Sequence[str]) -> None:
        names = [evaluation.name for evaluation in pair]
        refresh_within(context, project, names, config.max_cost_dollars, videos)
        benchmark.invalidate()

    def show(message: str) -> None:
        context.log.info(message)
        project.on_message(message)

    benchmark = project.benchmarks[pair[0].benchmark]
    ask([])  # builds the table of questions if there is none
    questions = benchmark.snapshot.questions_of(pair[0])
    order = race_order(questions, find_benchmark(benchmark.name).strata, config.seed)
    looks = plan_looks(len(order))
    asked = [
        frozenset(q.question_id for video_id in order[: look.videos] for q in questions[video_id])
        for look in looks
    ]
    detectable = detectable_in_race(len(asked[-1]), looks)
    show(
        f"{len(asked[-1]):,} questions about {len(order):,} videos, compared after "
        f"{', '.join(f'{look.videos:,}' for look in looks)} videos. "
        f"{detected_differences(detectable, 'races of similar models')}"
    )
    last: RaceLook | None = None
    recorded: list[RecordedLook] = []
    for number, (look, ids) in enumerate(zip(looks, asked, strict=True)):
        over = config.max_questions is not None and len(ids) > config.max_questions
        if not over:
            ask(order[: look.videos])
            over = project.spending.stopped_by is not None
        if over and last is None:
            raise ScoringError(
                f"the first look needs {len(ids):,} questions about {look.videos:,} videos for "
                "each evaluation, which exceeds the limit; raise --max-questions or --max-cost"
            )
        if over and last is not None:
            last = replace(last, stop=Stop.BUDGET)
            recorded.pop()
        else:
            scores = (score_evaluation(project, benchmark, evaluation) for evaluation in pair)
            gate = decide(
                *scores,
                margin=config.margin,
                asked=ids,
                max_failed=config.max_failed,
                levels=look.levels,
            )
            stop = stop_after(gate.checks[0], looks[number:])
            last = RaceLook(look=look, gate=replace(gate, detectable=detectable), stop=stop)
            show(f"After {look.videos:,} videos: {sentence(gate.checks[0])}")
        recorded.append(_recorded(pair, config, last, len(order)))
        write_race(project.store, recorded)
        yield last
        if last.stop is not None:
            show(f"Stopped after {last.look.videos:,} of {len(order):,} videos: {last.stop}.")
            return


def _recorded(
    pair: Sequence[Evaluation], config: RaceConfig, result: RaceLook, all_videos: int
) -> RecordedLook:
    gate, check = result.gate, result.gate.checks[0]
    return RecordedLook(
        benchmark=pair[0].benchmark,
        baseline=config.baseline,
        candidate=config.candidate,
        baseline_fingerprint=pair[0].fingerprint,
        candidate_fingerprint=pair[1].fingerprint,
        seed=config.seed,
        margin=gate.margin,
        videos=result.look.videos,
        all_videos=all_videos,
        questions=gate.questions,
        failed=gate.failed,
        difference=check.difference,
        difference_low=check.low,
        difference_high=check.high,
        boundary=boundary(check, result.look),
        p_value=check.p_value,
        verdict=check.verdict.value,
        stop=None if result.stop is None else result.stop.value,
        recorded_at=datetime.now(UTC),
    )
