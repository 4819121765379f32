"""Races: two evaluations are asked video by video until their difference is known.

Every look is a run that asks only what no earlier run has answered. So a race that was stopped
continues where it ended, and a race that is repeated costs nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import dagster as dg

from videomme_pipeline.assets.definitions import build_definitions
from videomme_pipeline.assets.processes import end_dead_runs, run_here
from videomme_pipeline.assets.triggers.jobs import REFRESH_JOB, run_config
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.errors import ConfigurationError, ScoringError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.project.answers.scores import score_evaluation
from videomme_pipeline.project.project import Project
from videomme_pipeline.scoring.statistics.compare import compare
from videomme_pipeline.scoring.statistics.gate import GateCheck, headline_check, require_answers
from videomme_pipeline.scoring.statistics.race import (
    Look,
    Stop,
    detectable_in_race,
    plan_looks,
    race_order,
    stop_after,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLimits:
    """Limits of the cost of a race, and of the share of its questions without an answer.

    `max_questions` limits the questions that each evaluation is asked.
    """

    max_dollars: float | None = None
    max_questions: int | None = None
    max_failed: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RacePlan:
    """The videos of a race in the order in which they are asked, and its looks.

    `questions` are the numbers of questions that each evaluation is asked until each look.
    `detectable` is the difference, in points, that the race detects with 80% power, or None with
    too few videos.
    """

    baseline: Evaluation
    candidate: Evaluation
    order: tuple[str, ...]
    looks: tuple[Look, ...]
    questions: tuple[int, ...]
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLook:
    """The result of one look. `failed` questions have no answer on one side.

    `stop` is None if the race goes on.
    """

    look: Look
    check: GateCheck
    questions: int
    failed: int
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
    counts = tuple(
        sum(len(questions[video_id]) for video_id in order[: look.videos]) for look in looks
    )
    return RacePlan(
        baseline=pair[0],
        candidate=pair[1],
        order=order,
        looks=looks,
        questions=counts,
        detectable=detectable_in_race(counts[-1], looks),
    )


def run_race(
    project: Project,
    instance: dg.DagsterInstance,
    plan: RacePlan,
    margin: float,
    limits: RaceLimits,
) -> Iterator[RaceLook]:
    """Ask look after look, and yield each result. The last one has the reason to stop.

    Raises:
        ScoringError: if too many questions have no answer, or if the first look exceeds a limit.
    """
    pair = (plan.baseline, plan.candidate)
    benchmark = project.benchmarks[plan.baseline.benchmark]
    dollars = limits.max_dollars
    last: RaceLook | None = None
    for number, (look, questions) in enumerate(zip(plan.looks, plan.questions, strict=True)):
        videos = plan.order[: look.videos]
        over = limits.max_questions is not None and questions > limits.max_questions
        if not over:
            spent = _ask(project, instance, pair, videos, dollars)
            dollars = None if dollars is None else max(dollars - spent, 0.0)
            over = project.spending.stopped_by is not None
        if over and last is None:
            raise ScoringError(
                f"the first look needs {questions:,} questions about {look.videos:,} videos for "
                "each evaluation, which exceeds the limit; raise --max-questions or --max-cost"
            )
        if over and last is not None:
            yield replace(last, stop=Stop.BUDGET)
            return
        chosen = set(videos)
        rows = [
            [row for row in score_evaluation(project, benchmark, e) if row.video_id in chosen]
            for e in pair
        ]
        comparison = compare(*rows)
        require_answers(comparison, questions, limits.max_failed)
        check = headline_check(comparison, margin, look.levels)
        stop = stop_after(check, margin, plan.detectable, plan.looks[number:])
        last = RaceLook(
            look=look,
            check=check,
            questions=questions,
            failed=len(comparison.failed),
            stop=stop,
        )
        yield last
        if stop is not None:
            return


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
    job = build_definitions(project).resolve_job_def(REFRESH_JOB)
    names = [evaluation.name for evaluation in pair]
    config = run_config(names, max_dollars, videos)
    run_here(job, instance, project.runs.code_location, run_config=config)
    project.benchmarks[pair[0].benchmark].invalidate()
    return project.spending.spent_dollars
