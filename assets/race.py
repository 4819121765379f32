"""Races: two evaluations are asked video by video until their difference is known.

Every look is a run that asks only what no earlier run has answered. So a race that was stopped
continues where it ended, and a race that is repeated costs nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from videomme_pipeline.assets.stages.metadata import metadata_of
from videomme_pipeline.assets.triggers.jobs import QUIET, one_of, refresh_here
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError, ScoringError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.project.answers.scores import score_evaluation
from videomme_pipeline.project.project import Project
from videomme_pipeline.reports.gate import sentence
from videomme_pipeline.scoring.recorded_look import RecordedLook, write_race
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

_SHOWN = ("verdict", "stop", "difference", "p_value", "videos", "questions", "failed")
"""The columns of the last look that the run in Dagster shows."""


class RaceLimits(dg.Config):
    """The margin and the limits of a race, which the UI offers at its launch."""

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
class RacePlan:
    """The videos of a race in the order in which they are asked, and its looks.

    `asked` has the ids of the questions that each evaluation is asked until each look.
    `detectable` is the difference, in points, that the race detects with 80% power, or None with
    too few videos.
    """

    baseline: Evaluation
    candidate: Evaluation
    seed: int
    order: tuple[str, ...]
    looks: tuple[Look, ...]
    asked: tuple[frozenset[str], ...]
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLook:
    """The decision after one look. `stop` is None if the race goes on."""

    look: Look
    gate: Gate
    stop: Stop | None


def plan_race(
    project: Project, instance: dg.DagsterInstance, baseline: str, candidate: str, seed: int
) -> RacePlan:
    """The plan of a race of two evaluations. Builds the table of questions if there is none yet.

    Raises:
        ConfigurationError: if there is no such evaluation, if the two do not have the same
            questions, or if one has a judge.
    """
    pair = [project.configuration.evaluation(name) for name in (baseline, candidate)]
    for evaluation in pair:
        if evaluation.judge is not None:
            raise ConfigurationError(
                f"{evaluation.name}: a race asks no judge; use an evaluation without `judge`"
            )
    if pair[0].benchmark != pair[1].benchmark or pair[0].selection != pair[1].selection:
        raise ConfigurationError(
            f"{baseline} and {candidate} do not have the same questions; race two evaluations with "
            "the same `benchmark`, `duration` and `subset`"
        )
    if pair[0].track != pair[1].track and pair[0].pairing != pair[1].pairing:
        raise ConfigurationError(
            f"{baseline} and {candidate} differ in their subtitles and in other settings, so their "
            "difference would have several causes; race evaluations of one track"
        )
    _ask(project, instance, pair, videos=[], max_dollars=None)
    benchmark = pair[0].benchmark
    questions = project.benchmarks[benchmark].snapshot.questions_of(pair[0])
    order = race_order(questions, find_benchmark(benchmark).strata, seed)
    looks = plan_looks(len(order))
    asked = tuple(
        frozenset(q.question_id for video_id in order[: look.videos] for q in questions[video_id])
        for look in looks
    )
    return RacePlan(
        baseline=pair[0],
        candidate=pair[1],
        seed=seed,
        order=order,
        looks=looks,
        asked=asked,
        detectable=detectable_in_race(len(asked[-1]), looks),
    )


def run_race(
    project: Project, instance: dg.DagsterInstance, plan: RacePlan, limits: RaceLimits
) -> Iterator[RaceLook]:
    """Ask look after look, store each result, and yield it. The last one has the reason to stop.

    Raises:
        ScoringError: if too many questions have no answer, or if the first look exceeds a limit.
    """
    pair = (plan.baseline, plan.candidate)
    benchmark = project.benchmarks[plan.baseline.benchmark]
    dollars = limits.max_cost_dollars
    last: RaceLook | None = None
    recorded: list[RecordedLook] = []
    for number, (look, asked) in enumerate(zip(plan.looks, plan.asked, strict=True)):
        videos = plan.order[: look.videos]
        over = limits.max_questions is not None and len(asked) > limits.max_questions
        if not over:
            spent = _ask(project, instance, pair, videos, dollars)
            dollars = None if dollars is None else max(dollars - spent, 0.0)
            over = project.spending.stopped_by is not None
        if over:
            if last is None:
                raise ScoringError(
                    f"the first look needs {len(asked):,} questions about {look.videos:,} videos "
                    "for each evaluation, which exceeds the limit; raise --max-questions or "
                    "--max-cost"
                )
            last = replace(last, stop=Stop.BUDGET)
            write_race(project.store, [*recorded[:-1], _recorded(plan, last)])
            yield last
            return
        gate = decide(
            *(score_evaluation(project, benchmark, evaluation) for evaluation in pair),
            margin=limits.margin,
            asked=asked,
            max_failed=limits.max_failed,
            levels=look.levels,
        )
        stop = stop_after(gate.checks[0], plan.looks[number:])
        last = RaceLook(look=look, gate=replace(gate, detectable=plan.detectable), stop=stop)
        recorded.append(_recorded(plan, last))
        write_race(project.store, recorded)
        yield last
        if stop is not None:
            return


def _recorded(plan: RacePlan, result: RaceLook) -> RecordedLook:
    gate, check = result.gate, result.gate.checks[0]
    return RecordedLook(
        benchmark=plan.baseline.benchmark,
        baseline=plan.baseline.name,
        candidate=plan.candidate.name,
        baseline_fingerprint=plan.baseline.fingerprint,
        candidate_fingerprint=plan.candidate.fingerprint,
        seed=plan.seed,
        margin=gate.margin,
        videos=result.look.videos,
        all_videos=len(plan.order),
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


def _ask(
    project: Project,
    instance: dg.DagsterInstance,
    pair: Sequence[Evaluation],
    videos: Sequence[str],
    max_dollars: float | None,
) -> float:
    """Ask both evaluations about `videos` in one run, and return the dollars that the run spent."""
    names = [evaluation.name for evaluation in pair]
    refresh_here(project, instance, names, max_dollars, videos)
    project.benchmarks[pair[0].benchmark].invalidate()
    return project.spending.spent_dollars


def race_job(project: Project) -> dg.JobDefinition:
    """The job that runs one race. The launchpad offers the names of the evaluations."""
    name, names = one_of(list(project.configuration.evaluations))
    fields: dict[str, Any] = {
        "baseline": dg.Field(name, description=f"The evaluation to compare with. {names}"),
        "candidate": dg.Field(name, description=f"The evaluation in question. {names}"),
        "seed": dg.Field(int, default_value=0, description="Seed of the order of the videos."),
        **RaceLimits.to_fields_dict(),
    }

    @dg.config_mapping(config_schema=fields)
    def for_the_step(request: dict[str, Any]) -> dict[str, Any]:
        return {"ops": {"ask_until_decided": {"config": request}}, "loggers": QUIET}

    @dg.op(
        description="Ask, compare, and ask more until the difference is known.",
        config_schema=fields,
    )
    def ask_until_decided(context: dg.OpExecutionContext) -> None:
        config = dict(context.op_config)
        current = project.reopened()
        baseline, candidate, seed = (config.pop(key) for key in ("baseline", "candidate", "seed"))
        try:
            plan = plan_race(current, context.instance, baseline, candidate, seed)
            for result in run_race(current, context.instance, plan, RaceLimits(**config)):
                context.log.info(
                    f"{result.look.videos:,} videos: {sentence(result.gate.checks[0])}"
                )
        except VideoMMEError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        look = _recorded(plan, result)
        context.add_output_metadata(metadata_of({name: getattr(look, name) for name in _SHOWN}))

    @dg.job(
        name="race",
        description="Ask two evaluations video by video, until their difference is known.",
        config=for_the_step,
    )
    def race() -> None:
        ask_until_decided()

    return race
