"""Commands that build partitions or show their state: run, status, nightly."""

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videomme_pipeline.cli.arguments import (
    AsJson,
    BenchmarkNames,
    DryRun,
    EvaluationNames,
    MaxCost,
    chosen_evaluations,
    evaluations_to_run,
)
from videomme_pipeline.cli.context import (
    err,
    instance_for,
    note,
    open_for_plan,
    open_for_run,
    out,
    print_json,
    program,
    show,
)
from videomme_pipeline.cli.stored_scores import score_tables, show_score_tables
from videomme_pipeline.errors import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from videomme_pipeline.project.project import Project
    from videomme_pipeline.stages.plan import PartitionState
    from videomme_pipeline.stages.refresh import RefreshResult

commands = typer.Typer()

PLANNING = "Planning…"
"""Printed first, because importing Dagster takes seconds."""


@commands.command(epilog="Example: videomme run smoke-embedded")
def run(
    evaluations: EvaluationNames = None,
    benchmark: BenchmarkNames = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Verify the journal and every stored table, and hash every video again even if "
            "its file looks unchanged.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring evaluations up to date and show their scores.

    Builds only what is missing or stale. Without names, runs all evaluation files.
    Exits with status 1 if something failed or is stale. What another running run
    will build does not count. Finished partitions are kept, and the next run builds
    only what is missing.
    """
    note(PLANNING)
    with open_for_plan(evaluations) as project:
        names = evaluations_to_run(project.configuration, evaluations, benchmark)
        if verify:
            _verify(project)
        if dry_run:
            show_plan(project, names, as_json=as_json)
            return
        refreshed = _refresh(project, names, max_cost)
        scores = score_tables(project.store, names)
        if as_json:
            print_json(_run_as_json(refreshed) | scores)
        else:
            _report_run(refreshed)
            show_score_tables(out, scores)
            note(f"\nReport page  {project.store.report().resolve()}")
            note(f"Dagster UI   {program()} ui  (then open http://localhost:3000)")
        end_if_not_fresh(refreshed)


@commands.command(epilog="Example: videomme status --explain smoke-embedded")
def status(
    evaluations: EvaluationNames = None,
    benchmark: BenchmarkNames = None,
    reasons: Annotated[
        bool,
        typer.Option("--reasons", help="List every partition that is not fresh, and the reasons."),
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Explain the state of a partition (smoke/frames uniform_n-8|001), or of every "
            "partition of an asset, video, sampling, track or evaluation.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is fresh, stale, missing or failed, and why."""
    note(PLANNING)
    from videomme_pipeline.reports.terminal.runs import show_counts, show_reasons
    from videomme_pipeline.stages.explain import Explanation, matching
    from videomme_pipeline.stages.plan import Freshness, counts, failure_groups, plan_project

    with open_for_plan(evaluations) as project:
        names = chosen_evaluations(project.configuration, evaluations, benchmark)
        states = plan_project(project, names)
        explanation = Explanation(states)
        causes = explanation.causes() if explain is None else {}
        shown: Sequence[PartitionState] = ()
        if explain is not None:
            shown = matching(states, explain)
        elif reasons or as_json:
            shown = [state for state in states if state.freshness is not Freshness.FRESH]
        explained = [(state, explanation.reasons(state)) for state in shown]
    if as_json:
        rows = [
            {"partition": state.name, "state": state.freshness, "reasons": state_reasons}
            for state, state_reasons in explained
        ]
        if explain is not None:
            print_json(rows)
        else:
            failures = failure_groups(states)
            assets = {"assets": counts(states), "causes": causes}
            print_json({**assets, "failures": failures, "not_fresh": rows})
        return
    if explain is None:
        show_counts(out, [state.value for state in Freshness], counts(states), causes)
        _show_failures(states)
    for state, state_reasons in explained:
        lines = [str(reason) for reason in state_reasons]
        show_reasons(out, f"{state.name}: {state.freshness}", lines)


@commands.command(epilog="Example: videomme nightly smoke-embedded")
def nightly(
    evaluations: EvaluationNames = None,
    date: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Date of the nightly run, YYYY-MM-DD. Default: today."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run tracked evaluations again and compare them with their references.

    Without names, runs every evaluation that nightly.yaml tracks. A nightly run
    that is already stored is not repeated. Exits with status 1 if a check fails
    with severity `error`.
    """
    note(PLANNING)
    from videomme_pipeline.assets.run import run_nightly
    from videomme_pipeline.project.nightly.tracked import nightly_date, read_nightly
    from videomme_pipeline.reports.terminal.runs import show_nightly_runs

    with open_for_run(evaluations) as (project, instance):
        timezone = read_nightly(project.configuration).timezone
        run_date = date or nightly_date(datetime.now(UTC), timezone)
        reports = run_nightly(project, instance, evaluations or [], run_date)
    show(reports, show_nightly_runs, as_json=as_json)
    if any(f.severity == "error" for report in reports for f in report.findings if not f.passed):
        raise typer.Exit(1)


def _verify(project: "Project") -> None:
    """Invalidate the hashes of videos, and set damaged tables aside, which a plan then rebuilds.

    Raises:
        StorageError: if the journal is damaged. Tables are then not set aside, because responses
            are rebuilt from the journal.
    """
    from videomme_pipeline.project.runs.journal import journal_of
    from videomme_pipeline.storage.tables import verify

    journal_of(project.store).verify()
    project.hashes.clear()
    _, problems = verify(project.store.tables())
    for problem in problems:
        note(problem)


def show_plan(project: "Project", evaluations: "Sequence[str]", *, as_json: bool) -> None:
    """Print what a run would build and request."""
    from videomme_pipeline.reports.terminal.runs import show_costs, show_estimates
    from videomme_pipeline.stages.estimate import estimate, estimate_costs
    from videomme_pipeline.stages.plan import plan_project

    states = plan_project(project, evaluations)
    estimates = [{"asset": asset, "partitions": n} for asset, n in estimate(states).items()]
    costs = estimate_costs(states)
    if as_json:
        print_json({"build": estimates, "requests": costs})
    elif not estimates:
        note("Everything is fresh. A run would build nothing.")
    else:
        show_estimates(out, estimates)
        show_costs(out, costs)


def _run_as_json(refreshed: "RefreshResult") -> dict[str, Any]:
    from videomme_pipeline.stages.plan import failure_groups

    return {
        "run_id": refreshed.run_id,
        "built": refreshed.built,
        "registered": refreshed.registered,
        "stopped_by": refreshed.stopped_by,
        "failures": failure_groups(refreshed.not_fresh),
        "not_fresh": [state.name for state in refreshed.not_fresh],
        "left_to_other_runs": [state.name for state in refreshed.left_to_others],
    }


def run_evaluations(
    names: "Sequence[str]", max_cost: float | None
) -> "tuple[Project, RefreshResult]":
    """Bring evaluations up to date, and print what was built and what failed."""
    with open_for_plan(names) as project:
        refreshed = _refresh(project, names, max_cost)
    _report_run(refreshed)
    return project, refreshed


def _refresh(
    project: "Project", evaluations: "Sequence[str]", max_cost: float | None
) -> "RefreshResult":
    """Bring evaluations up to date. Dagster is opened only if something is stale."""
    from videomme_pipeline.stages.refresh import nothing_stale

    if result := nothing_stale(project, evaluations):
        return result
    from videomme_pipeline.assets.run import refresh_stale

    with instance_for(project) as instance:
        return refresh_stale(project, instance, evaluations, max_cost)


def _report_run(refreshed: "RefreshResult") -> None:
    """Print what a run built, and what failed, on standard error."""
    from videomme_pipeline.reports.terminal.tables import show_line

    if refreshed.run_id is None:
        note("Everything is fresh. No frame was extracted and no model was asked.")
        return
    built = ", ".join(f"{count} {asset}" for asset, count in refreshed.built.items())
    note(f"Built {built or 'nothing'}.")
    if registered := refreshed.registered.total():
        note(f"Registered {registered:,} stored partitions, which Dagster did not show.")
    if refreshed.stopped_by is not None:
        show_line(err, refreshed.stopped_by, "Stopped", "bold yellow")
    if refreshed.left_to_others:
        names = listed([state.name for state in refreshed.left_to_others])
        note(f"Left to another run, which has changed an input: {names}.")
    _show_failures(refreshed.not_fresh)


def end_if_not_fresh(refreshed: "RefreshResult") -> None:
    """Exit with status 1 if something failed or is stale, and say how much of it.

    A run that its cost limit stopped exits with status 1 even if other runs have asked the rest.
    """
    if refreshed.not_fresh:
        count = _counted(refreshed.not_fresh)
        note(f"Exit status 1: {count} (`videomme status --reasons` says why).")
        raise typer.Exit(1)
    if refreshed.stopped_by is not None:
        note("Exit status 1: the cost limit stopped this run.")
        raise typer.Exit(1)


def _counted(states: "Sequence[PartitionState]") -> str:
    """The numbers of stale, missing and failed partitions."""
    from videomme_pipeline.stages.plan import Freshness

    counted = Counter(state.freshness for state in states)
    return ", ".join(f"{counted[kind]:,} {kind}" for kind in Freshness if counted[kind])


def _show_failures(states: "Sequence[PartitionState]") -> None:
    """Print each cause of failed partitions once, on standard error."""
    from videomme_pipeline.reports.terminal.runs import show_failed
    from videomme_pipeline.stages.plan import failure_groups

    show_failed(err, [(group.title, group.reason) for group in failure_groups(states)])
