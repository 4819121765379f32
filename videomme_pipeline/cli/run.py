"""Commands that build partitions or show their state: run, status, sweep, nightly."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videomme_pipeline.cli import arguments
from videomme_pipeline.cli.context import instance_for, open_for_plan
from videomme_pipeline.cli.output import announce, err, note, out, print_json, show, write
from videomme_pipeline.errors import ConfigurationError, listed
from videomme_pipeline.reports.terminal import runs
from videomme_pipeline.reports.terminal.tables import interval, show_line, show_rows

if TYPE_CHECKING:
    from videomme_pipeline.evaluation.evaluation import Evaluation
    from videomme_pipeline.evaluation.folder import Configuration
    from videomme_pipeline.project.project import Project
    from videomme_pipeline.stages.plan import PartitionState
    from videomme_pipeline.stages.refresh import RefreshResult
    from videomme_pipeline.storage.layout import Store

commands = typer.Typer()

PLANNING = "Planning…"
"""Printed first, because importing Dagster takes seconds."""
_COSTS = ("dollars", "tokens", "frames")
"""The cost of a question: the first of these that is known for all settings."""
_QUERY = """
select evaluation, any_value(scored_questions.track) as track, any_value(score) as score,
       any_value(score_low) as score_low, any_value(score_high) as score_high,
       avg(num_frames) as frames,
       case when count(prompt_tokens) = count(*)
            then avg(prompt_tokens + coalesce(completion_tokens, 0)) end as tokens,
       case when count(cost_dollars) = count(*) then avg(cost_dollars) end as dollars
from scored_questions join headlines using (benchmark, evaluation)
where list_contains(?, evaluation) and score is not null
group by evaluation
order by track, score desc, evaluation
"""


@commands.command(epilog="Example: videomme run smoke-embedded")
def run(
    evaluations: arguments.EvaluationNames = None,
    benchmark: arguments.BenchmarkNames = None,
    dry_run: arguments.DryRun = False,
    max_cost: arguments.MaxCost = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Verify the journal and all stored tables, and hash all videos again."
        ),
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="STAGES",
            help="Build only videos or frames, or videos,frames, in this process. Asks no model.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="With --only: build part I of N of the videos."),
    ] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Bring evaluations up to date and show their scores.

    Builds only what is missing or stale. Without names, runs all evaluation files.
    Exits with status 1 if something failed or is stale. What another running run
    will build does not count. Finished partitions are kept, and the next run builds
    only what is missing.
    """
    note(PLANNING)
    with open_for_plan(evaluations) as project:
        names = arguments.evaluations_to_run(project.configuration, evaluations, benchmark)
        if verify:
            _verify(project)
        if dry_run:
            show_plan(project, names, as_json=as_json)
            return
        if only or shard:
            _run_shard(project, names, only, shard, as_json=as_json)
            return
        from videomme_pipeline.cli.stored_scores import score_tables, show_score_tables

        refreshed = _refresh(project, names, max_cost)
        scores = score_tables(project.store, names)
        if as_json:
            print_json(_as_json(refreshed) | scores)
        else:
            _report_run(refreshed)
            show_score_tables(out, scores)
            note(f"\nReport page  {project.store.report().resolve()}")
            program = "videomme" if shutil.which("videomme") else sys.argv[0]
            note(f"Dagster UI   {program} ui  (then open http://localhost:3000)")
        end_if_not_fresh(refreshed)


@commands.command(epilog="Example: videomme status --explain smoke-embedded")
def status(
    evaluations: arguments.EvaluationNames = None,
    benchmark: arguments.BenchmarkNames = None,
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
    as_json: arguments.AsJson = False,
) -> None:
    """Show what is fresh, stale, missing or failed, and why."""
    note(PLANNING)
    from videomme_pipeline.stages.explain import Explanation, matching
    from videomme_pipeline.stages.plan import Freshness, counts, failure_groups, plan_project

    with open_for_plan(evaluations) as project:
        names = arguments.chosen_evaluations(project.configuration, evaluations, benchmark)
        states = plan_project(project, names)
        explanation = Explanation(states)
        causes = explanation.causes() if explain is None else {}
        shown: Sequence[PartitionState] = ()
        if explain is not None:
            shown = matching(states, explain)
        elif reasons or as_json:
            shown = [state for state in states if state.freshness is not Freshness.FRESH]
        rows = [
            {"partition": s.name, "state": s.freshness, "reasons": explanation.reasons(s)}
            for s in shown
        ]
    if as_json:
        summary = {"assets": counts(states), "causes": causes, "failures": failure_groups(states)}
        print_json(rows if explain is not None else {**summary, "not_fresh": rows})
        return
    if explain is None:
        runs.show_counts(out, [state.value for state in Freshness], counts(states), causes)
        _show_failures(states)
    for row in rows:
        title = f"{row['partition']}: {row['state']}"
        show_line(out, "\n  ".join([title, *map(str, row["reasons"])]))


@commands.command(
    epilog="Example: videomme sweep smoke-embedded --sampling uniform_n-4 --sampling uniform_n-16"
)
def sweep(
    evaluation: Annotated[
        str, arguments.evaluation_argument("EVALUATION", "The evaluation to vary.")
    ],
    sampling: Annotated[
        list[str] | None, typer.Option(help="A sampling, or none. Repeatable.")
    ] = None,
    subtitles: Annotated[
        list[str] | None, typer.Option(help="An alignment, or none. Repeatable.")
    ] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt. Repeatable.")] = None,
    dry_run: arguments.DryRun = False,
    max_cost: arguments.MaxCost = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Run an evaluation with every combination of settings, and name the cheapest good one.

    Writes a file for each combination that no evaluation has. All frames of a video
    are extracted in one pass, and what is stored is not asked again. A setting is
    good unless a test shows that it is worse than the best one of its track. Its
    cost is the cost of a question: dollars, else tokens, else frames.
    """
    announce(PLANNING)
    from videomme_pipeline.evaluation.writing import write_evaluation

    axes = {"sampling": sampling, "subtitles": subtitles, "prompt": prompt}
    chosen = {key: values for key, values in axes.items() if values}
    with open_for_plan([evaluation]) as project:
        configuration = project.configuration
        names, new = _combinations(configuration, evaluation, chosen)
        if dry_run:
            planned = {**configuration.evaluations, **{name: e for name, (_, e) in new.items()}}
            configuration = replace(configuration, evaluations=planned)
            show_plan(replace(project, configuration=configuration), names, as_json=as_json)
            return
    for name, (keys, _) in new.items():
        write_evaluation(configuration, name, keys)
    note(f"{len(names)} evaluations, {len(new)} of them new: {', '.join(names)}")
    project, refreshed = run_evaluations(names, max_cost)
    rows = _settings_of(project.store, names)
    cost = next((c for c in _COSTS if rows and all(row[c] is not None for row in rows)), None)
    cheapest = _cheapest(rows, cost) if cost else {}
    if as_json:
        print_json({"settings": rows, "cheapest": cheapest, "cost": cost})
    elif rows:
        _show_settings(rows, cheapest, cost)
    end_if_not_fresh(refreshed)


@commands.command(epilog="Example: videomme nightly smoke-embedded")
def nightly(
    evaluations: arguments.EvaluationNames = None,
    dates: Annotated[
        list[str] | None,
        typer.Option(
            "--date",
            metavar="DATE",
            help="Date of the nightly run, YYYY-MM-DD. Can be repeated. Default: today.",
        ),
    ] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Run tracked evaluations again and compare them with their references.

    Without names, runs every evaluation that nightly.yaml tracks. A nightly run
    that is already stored is not repeated. Exits with status 1 if a check fails
    with severity `error`.
    """
    note(PLANNING)
    from videomme_pipeline.assets.run import run_nightly
    from videomme_pipeline.project.nightly.tracked import nightly_date, read_nightly

    with open_for_plan(evaluations) as project, instance_for(project) as instance:
        timezone = read_nightly(project.configuration).timezone
        reports = []
        for date in dates or [nightly_date(datetime.now(UTC), timezone)]:
            reports += run_nightly(project, instance, evaluations or [], date)
    show(reports, runs.show_nightly_runs, as_json=as_json)
    if any(f.severity == "error" for report in reports for f in report.findings if not f.passed):
        raise typer.Exit(1)


def _verify(project: "Project") -> None:
    """Invalidate the hashes of videos, and set damaged tables aside, which a plan then rebuilds.

    With a damaged journal, no table is set aside, because responses are rebuilt from the journal.
    """
    from videomme_pipeline.project.runs.journal import journal_of
    from videomme_pipeline.storage.tables import verify

    journal_of(project.store).verify()
    project.hashes.clear()
    _, problems = verify(project.store.tables())
    for problem in problems:
        note(problem)


def _run_shard(
    project: "Project",
    evaluations: Sequence[str],
    only: str | None,
    shard: str | None,
    *,
    as_json: bool,
) -> None:
    from videomme_pipeline.stages.shard import SHARDED, Shard, build_shard

    stages = (only or "").split(",")
    if unknown := [name for name in stages if name not in SHARDED]:
        raise ConfigurationError(
            f"--only {unknown[0] or 'is missing'}: expected {' or '.join(SHARDED)}, or "
            f"{','.join(SHARDED)}"
        )
    part = Shard.parse(shard or "1/1")
    result = build_shard(project, evaluations, stages, part)
    if as_json:
        print_json(asdict(result))
    else:
        note(f"Videos of shard {part.number}/{part.count}: {result.videos:,}.")
        note(f"Built {_amounts(result.built)}. Stored before: {_amounts(result.stored)}.")
        runs.show_failed(err, list(result.failures.items()))
    if result.failures:
        raise typer.Exit(1)


def show_plan(project: "Project", evaluations: Sequence[str], *, as_json: bool) -> None:
    """Print what a run would build and request."""
    from videomme_pipeline.stages.plan import plan_project
    from videomme_pipeline.stages.refresh import estimate, estimate_costs

    states = plan_project(project, evaluations)
    estimates = [{"asset": asset, "partitions": n} for asset, n in estimate(states).items()]
    costs = estimate_costs(states)
    if as_json:
        print_json({"build": estimates, "requests": costs})
    elif not estimates:
        note("Everything is fresh. A run would build nothing.")
    else:
        runs.show_estimates(out, estimates)
        runs.show_costs(out, costs)


def _as_json(refreshed: "RefreshResult") -> dict[str, Any]:
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
    names: Sequence[str], max_cost: float | None
) -> "tuple[Project, RefreshResult]":
    """Bring evaluations up to date, and print what was built and what failed."""
    with open_for_plan(names) as project:
        refreshed = _refresh(project, names, max_cost)
    _report_run(refreshed)
    return project, refreshed


def _refresh(
    project: "Project", evaluations: Sequence[str], max_cost: float | None
) -> "RefreshResult":
    """Bring evaluations up to date. Dagster is opened only if something is stale."""
    from videomme_pipeline.stages.refresh import nothing_stale

    if result := nothing_stale(project, evaluations):
        return result
    from videomme_pipeline.assets.run import refresh_stale

    with instance_for(project) as instance:
        return refresh_stale(project, instance, evaluations, max_cost)


def _amounts(counted: Mapping[str, int]) -> str:
    """The number of partitions of each asset, such as "24 smoke/videos, 1 warehouse"."""
    return ", ".join(f"{count} {asset}" for asset, count in counted.items()) or "nothing"


def _report_run(refreshed: "RefreshResult") -> None:
    if refreshed.run_id is None:
        note("Everything is fresh. No frame was extracted and no model was asked.")
        return
    note(f"Built {_amounts(refreshed.built)}.")
    if registered := refreshed.registered.total():
        note(f"Registered {registered:,} stored partitions, which Dagster did not show.")
    if refreshed.stopped_by is not None:
        show_line(err, refreshed.stopped_by, "Stopped", "bold yellow")
    if refreshed.left_to_others:
        names = listed([state.name for state in refreshed.left_to_others])
        note(f"Left to another run, which has changed an input: {names}.")
    _show_failures(refreshed.not_fresh)


def _show_failures(states: "Sequence[PartitionState]") -> None:
    """Print each cause of failed partitions once, on standard error."""
    from videomme_pipeline.stages.plan import failure_groups

    runs.show_failed(err, [(group.title, group.reason) for group in failure_groups(states)])


def end_if_not_fresh(refreshed: "RefreshResult") -> None:
    """Exit with status 1 if something failed or is stale, and say how much of it.

    A run that its cost limit stopped exits with status 1 even if other runs have asked the rest.
    """
    from videomme_pipeline.stages.plan import Freshness

    if refreshed.not_fresh:
        states = [state.freshness for state in refreshed.not_fresh]
        counts = [f"{states.count(kind):,} {kind}" for kind in Freshness if kind in states]
        note(f"Exit status 1: {', '.join(counts)} (`videomme status --reasons` says why).")
        raise typer.Exit(1)
    if refreshed.stopped_by is not None:
        note("Exit status 1: the cost limit stopped this run.")
        raise typer.Exit(1)


def _combinations(
    configuration: "Configuration", evaluation: str, axes: Mapping[str, Sequence[str]]
) -> "tuple[list[str], dict[str, tuple[dict[str, Any], Evaluation]]]":
    """The names of the evaluations of all combinations, and those without a file, by name."""
    from videomme_pipeline.configuration import read_yaml
    from videomme_pipeline.evaluation.reading import parse_evaluation

    folder = configuration.folder / "evaluations"
    base = read_yaml(folder / f"{configuration.evaluation(evaluation).name}.yaml")
    existing = {(e.benchmark, e.fingerprint): e.name for e in configuration.files.values()}
    names, new = [], {}
    for values in product(*axes.values()):
        name = "-".join([evaluation, *values])
        keys = base | dict(zip(axes, values, strict=True))
        path, benchmarks = folder / f"{name}.yaml", configuration.benchmarks
        planned = parse_evaluation(keys, path, benchmarks, configuration.catalog)
        same = existing.get((planned.benchmark, planned.fingerprint))
        if same is None:
            new[name] = keys, planned
        names.append(same or name)
    return names, new


def _settings_of(store: "Store", names: Sequence[str]) -> list[dict[str, Any]]:
    """The scored settings with the means of a question, the best one of each track first.

    `is_worse` is True if a test shows that a setting is worse than the best one of its track, and
    `detectable` is the smallest difference that it would show, in points.
    """
    from videomme_pipeline.cli.stored_scores import stored_scores
    from videomme_pipeline.scoring.statistics.gate import Verdict, decide
    from videomme_pipeline.warehouse.database import connect, query

    with connect(store) as connection:
        rows = query(connection, _QUERY, [list(names)])
    best = {row["track"]: row for row in reversed(rows)}
    for row in rows:
        first = best[row["track"]]["evaluation"]
        pair = [stored_scores(store, name) for name in (first, row["evaluation"])]
        gate = decide(*pair, margin=0.0)
        row["is_worse"] = gate.verdict is Verdict.WORSE
        row["detectable"] = None if row["evaluation"] == first else gate.detectable
    return rows


def _cheapest(rows: Sequence[Mapping[str, Any]], cost: str) -> dict[str, str]:
    good = sorted((row for row in rows if not row["is_worse"]), key=lambda row: -row[cost])
    return {row["track"]: row["evaluation"] for row in good}


def _show_settings(
    rows: Sequence[Mapping[str, Any]], cheapest: Mapping[str, str], cost: str | None
) -> None:
    shown = [
        {
            "evaluation": row["evaluation"],
            "score": f"{100 * row['score']:.1f}",
            "95% CI": interval(row["score_low"], row["score_high"]),
            **{name: None if row[name] is None else f"{row[name]:.4g}" for name in _COSTS},
            "worse than the best": "yes" if row["is_worse"] else None,
            "detectable": None if row["detectable"] is None else f"{row['detectable']:.1f}",
        }
        for row in rows
    ]
    show_rows(out, shown)
    for track, name in cheapest.items():
        title = track.replace("_", " ")
        write(f"Cheapest {title} that is not detectably worse, by {cost} per question: {name}\n")
