"""The command `race`: asks two evaluations only as long as their difference is unknown."""

from typing import TYPE_CHECKING, Annotated

import typer

from videomme_pipeline.cli.arguments import (
    AllowUndecided,
    AsJson,
    FailIfVerdict,
    JUnitFile,
    Margin,
    MaxCost,
    MaxFailed,
    choice,
    evaluation_argument,
)
from videomme_pipeline.cli.context import note, open_for_run
from videomme_pipeline.cli.gate import not_evaluated, report
from videomme_pipeline.cli.run import PLANNING
from videomme_pipeline.errors import VideoMMEError

if TYPE_CHECKING:
    from videomme_pipeline.assets.race import RaceLook, RacePlan, RaceRequest

commands = typer.Typer()


@commands.command(epilog="Example: videomme race smoke-random smoke-embedded --margin 2")
def race(
    baseline: Annotated[str, evaluation_argument("BASELINE", "An evaluation.")],
    candidate: Annotated[
        str, evaluation_argument("CANDIDATE", "Another one with the same questions.")
    ],
    margin: Margin = 2.0,
    fail_if: FailIfVerdict = "worse",
    allow_undecided: AllowUndecided = False,
    max_cost: MaxCost = None,
    max_questions: Annotated[
        int | None, typer.Option(min=1, help="Most questions that each evaluation is asked.")
    ] = None,
    max_failed: MaxFailed = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of the videos.")] = 0,
    junit: JUnitFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask two evaluations video by video, and stop when their difference is known.

    The videos are asked in a random order. The difference is tested at planned
    interim looks (group-sequential test), so stopping early does not raise the
    error rate.
    Every answer is stored as in `run`, and a race that was stopped continues.
    Exit status and files for CI are those of `gate`.
    """
    from videomme_pipeline.scoring.statistics.gate import FailIf

    try:
        rule = choice(FailIf, fail_if, "rule for --fail-if")
        note(PLANNING)
        from videomme_pipeline.assets.race import RaceRequest

        request = RaceRequest(
            margin=margin,
            seed=seed,
            max_cost_dollars=max_cost,
            max_questions=max_questions,
            max_failed=max_failed,
        )
        looks = _race(baseline, candidate, request)
    except VideoMMEError as error:
        raise not_evaluated(error, baseline, candidate, junit) from error
    last = looks[-1]
    details = {"stop": last.stop, "looks": looks} if as_json else None
    raise report("Race", last.gate, rule, junit, details, allow_undecided=allow_undecided)


def _race(baseline: str, candidate: str, request: "RaceRequest") -> "list[RaceLook]":
    """Run a race, and show what it can detect, each look, and why it stopped."""
    from videomme_pipeline.assets.race import plan_race, run_race
    from videomme_pipeline.reports.gate import sentence

    looks: list[RaceLook] = []
    with open_for_run([baseline, candidate]) as (project, instance):
        plan = plan_race(project, instance, baseline, candidate, request.seed)
        note(_what_it_detects(plan))
        for result in run_race(project, instance, plan, request):
            looks.append(result)
            done = f"{result.look.videos:,} of {len(plan.order):,} videos"
            note(f"After {done}: {sentence(result.gate.checks[0])}")
        note(f"Stopped after {done}: {result.stop}.")
    return looks


def _what_it_detects(plan: "RacePlan") -> str:
    """The size of the race, its looks and the difference that it can find."""
    numbers = ", ".join(f"{look.videos:,}" for look in plan.looks)
    detectable = (
        "With so few videos, no difference can be significant."
        if plan.detectable is None
        else f"Differences of {plan.detectable:.1f} points or more are found in 80% of races of "
        "similar models."
    )
    return (
        f"{len(plan.asked[-1]):,} questions about {len(plan.order):,} videos, compared after "
        f"{numbers} videos. {detectable}"
    )
