"""`races`: two evaluations are asked video by video until their difference is known.

Every look is a run that asks only what no earlier run has answered. So a race that was stopped
continues where it ended, and a race that is repeated costs nothing. In Dagster, a race is a
partition `BASELINE|CANDIDATE`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from videomme_pipeline.assets.dagster_internals.runs import Job
from videomme_pipeline.assets.keys import OWNERS, group_name, key_in
from videomme_pipeline.assets.processes import end_dead_runs
from videomme_pipeline.assets.stages.metadata import column_schema, metadata_of
from videomme_pipeline.assets.triggers.jobs import refresh_here, run_config
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError, ScoringError, VideoMMEError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.fingerprint import version_of
from videomme_pipeline.project.answers.scores import score_evaluation
from videomme_pipeline.project.project import Project
from videomme_pipeline.reports.gate import sentence
from videomme_pipeline.scoring.recorded_look import RecordedLook, read_race, write_race
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
from videomme_pipeline.stages.facts import chart_picture


class RaceRequest(dg.Config):
    """The margin and the limits of a race, which the UI offers at its launch.

    `max_questions` limits the questions that each evaluation is asked.
    """

    margin: float = Field(
        default=2.0, ge=0, description="Points that are no difference in practice."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the order of the videos.")
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
    project: Project,
    instance: dg.DagsterInstance,
    plan: RacePlan,
    request: RaceRequest,
) -> Iterator[RaceLook]:
    """Ask look after look, store each result, and yield it. The last one has the reason to stop.

    Raises:
        ScoringError: if too many questions have no answer, or if the first look exceeds a limit.
    """
    pair = (plan.baseline, plan.candidate)
    benchmark = project.benchmarks[plan.baseline.benchmark]
    dollars = request.max_cost_dollars
    last: RaceLook | None = None
    recorded: list[RecordedLook] = []
    for number, (look, asked) in enumerate(zip(plan.looks, plan.asked, strict=True)):
        videos = plan.order[: look.videos]
        over = request.max_questions is not None and len(asked) > request.max_questions
        if not over:
            spent = _ask(project, instance, pair, videos, dollars)
            dollars = None if dollars is None else max(dollars - spent, 0.0)
            over = project.spending.stopped_by is not None
        if over and last is None:
            raise ScoringError(
                f"the first look needs {len(asked):,} questions about {look.videos:,} videos for "
                "each evaluation, which exceeds the limit; raise --max-questions or --max-cost"
            )
        if over and last is not None:
            last = replace(last, stop=Stop.BUDGET)
            write_race(project.store, [*recorded[:-1], _recorded(plan, last)])
            yield last
            return
        gate = decide(
            *(score_evaluation(project, benchmark, evaluation) for evaluation in pair),
            margin=request.margin,
            asked=asked,
            max_failed=request.max_failed,
            levels=look.levels,
        )
        stop = stop_after(gate.checks[0], plan.looks[number:])
        last = RaceLook(look=look, gate=replace(gate, detectable=plan.detectable), stop=stop)
        recorded.append(_recorded(plan, last))
        write_race(project.store, recorded)
        yield last
        if stop is not None:
            return


def races_key(project: Project) -> dg.AssetKey:
    """The asset key of all races."""
    return key_in(project, "races")


def races_asset(project: Project) -> dg.AssetsDefinition:
    """The asset of all races, with a dynamic partition `BASELINE|CANDIDATE` for each."""
    key = races_key(project)

    @dg.asset(
        key=key,
        description="Races of two evaluations, in partitions `BASELINE|CANDIDATE`.",
        group_name=group_name(f"{project.runs.prefix}results"),
        kinds={"parquet"},
        tags={"stage": "races"},
        owners=list(OWNERS),
        partitions_def=dg.DynamicPartitionsDefinition(name=f"{project.runs.prefix}races"),
        deps=[key_in(project, f"{benchmark}/questions") for benchmark in project.benchmarks],
        metadata={"dagster/column_schema": column_schema(RecordedLook)},
    )
    def races(context: dg.AssetExecutionContext, config: RaceRequest) -> dg.MaterializeResult[None]:
        current = project.reopened()
        baseline, _, candidate = context.partition_key.partition("|")
        try:
            plan = plan_race(current, context.instance, baseline, candidate, config.seed)
            for result in run_race(current, context.instance, plan, config):
                context.log.info(
                    f"{result.look.videos:,} videos: {sentence(result.gate.checks[0])}"
                )
        except VideoMMEError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        looks = read_race(current.store, baseline, candidate)
        return dg.MaterializeResult(
            asset_key=key, metadata=_metadata(looks), data_version=dg.DataVersion(version_of(looks))
        )

    return races


def race_job(project: Project) -> Job:
    """The job that runs one race."""
    return dg.define_asset_job(
        "race",
        selection=dg.AssetSelection.assets(races_key(project)),
        description="Ask two evaluations video by video, until their difference is known.",
    )


def _metadata(looks: Sequence[RecordedLook]) -> dict[str, Any]:
    def draw() -> str:
        from videomme_pipeline.reports.charts import race_chart  # noqa: PLC0415 - loads Altair

        return race_chart(looks).to_json()

    names = ("verdict", "stop", "difference", "p_value", "videos", "questions", "failed")
    rows = [{name: getattr(look, name) for name in names} for look in looks]
    chart = chart_picture(draw, "Difference by videos asked")
    return metadata_of({**rows[-1], "looks": rows, "race": chart})


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
    end_dead_runs(instance, datetime.now(UTC))
    project.store.remove_left_over()
    names = [evaluation.name for evaluation in pair]
    refresh_here(project, instance, run_config(names, max_dollars, videos))
    project.benchmarks[pair[0].benchmark].invalidate()
    return project.spending.spent_dollars
