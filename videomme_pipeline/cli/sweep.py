"""The command `sweep`: one evaluation with other settings, and the cheapest of the good ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videomme_pipeline.cli.arguments import AsJson, DryRun, MaxCost, evaluation_argument
from videomme_pipeline.cli.context import (
    announce,
    note,
    open_for_plan,
    open_project,
    out,
    print_json,
    write,
)
from videomme_pipeline.cli.run import PLANNING, end_if_not_fresh, run_evaluations, show_plan
from videomme_pipeline.cli.stored_scores import stored_scores

if TYPE_CHECKING:
    from videomme_pipeline.evaluation.evaluation import Evaluation
    from videomme_pipeline.evaluation.folder import Configuration
    from videomme_pipeline.storage.layout import Store

commands = typer.Typer()

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


@commands.command(
    epilog="Example: videomme sweep smoke-embedded --sampling uniform_n-4 --sampling uniform_n-16"
)
def sweep(
    evaluation: Annotated[str, evaluation_argument("EVALUATION", "The evaluation to vary.")],
    sampling: Annotated[
        list[str] | None, typer.Option(help="A sampling, or none. Repeatable.")
    ] = None,
    subtitles: Annotated[
        list[str] | None, typer.Option(help="An alignment, or none. Repeatable.")
    ] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt. Repeatable.")] = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    as_json: AsJson = False,
) -> None:
    """Run an evaluation with every combination of settings, and name the cheapest good one.

    Writes a file for each combination that no evaluation has. All frames of a video
    are extracted in one pass, and what is stored is not asked again. A setting is
    good unless a test shows that it is worse than the best one of its track. Its
    cost is the cost of a question: dollars, else tokens, else frames.
    """
    announce(PLANNING)
    axes = {"sampling": sampling, "subtitles": subtitles, "prompt": prompt}
    chosen = {key: values for key, values in axes.items() if values}
    if dry_run:
        with open_for_plan([evaluation]) as (project, history):
            names, new = _combinations(project.configuration, evaluation, chosen)
            evaluations = {**project.configuration.evaluations}
            evaluations |= {name: planned for name, (_, planned) in new.items()}
            configuration = replace(project.configuration, evaluations=evaluations)
            planned_project = replace(project, configuration=configuration)
            show_plan(planned_project, history, names, as_json=as_json)
        return
    names = _written(evaluation, chosen)
    project, refreshed = run_evaluations(names, max_cost)
    rows = _rows(project.store, names)
    cost = next((c for c in _COSTS if rows and all(row[c] is not None for row in rows)), None)
    cheapest = _cheapest(rows, cost) if cost else {}
    if as_json:
        print_json({"settings": rows, "cheapest": cheapest, "cost": cost})
    elif rows:
        _show(rows, cheapest, cost)
    end_if_not_fresh(refreshed)


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


def _written(evaluation: str, axes: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of all combinations, whose evaluation files are written unless they exist."""
    from videomme_pipeline.evaluation.writing import write_evaluation

    configuration = open_project().configuration
    names, new = _combinations(configuration, evaluation, axes)
    for name, (keys, _) in new.items():
        write_evaluation(configuration, name, keys)
    note(f"{len(names)} evaluations, {len(new)} of them new: {', '.join(names)}")
    return names


def _rows(store: "Store", names: Sequence[str]) -> list[dict[str, Any]]:
    """The scored settings with the means of a question, the best one of each track first.

    `is_worse` is True if a test shows that a setting is worse than the best one of its track, and
    `detectable` is the smallest difference that it would show, in points.
    """
    from videomme_pipeline.scoring.statistics.gate import Verdict, decide
    from videomme_pipeline.warehouse.database import connect, query

    with connect(store) as connection:
        rows = query(connection, _QUERY, [list(names)])
    best = {row["track"]: row for row in reversed(rows)}
    for row in rows:
        first = best[row["track"]]["evaluation"]
        pair = [stored_scores(store, name)[1] for name in (first, row["evaluation"])]
        gate = decide(*pair, margin=0.0)
        row["is_worse"] = gate.verdict is Verdict.WORSE
        row["detectable"] = None if row["evaluation"] == first else gate.detectable
    return rows


def _cheapest(rows: Sequence[Mapping[str, Any]], cost: str) -> dict[str, str]:
    """The cheapest evaluation that is not worse than the best one, by track."""
    good = sorted((row for row in rows if not row["is_worse"]), key=lambda row: -row[cost])
    return {row["track"]: row["evaluation"] for row in good}


def _show(rows: Sequence[Mapping[str, Any]], cheapest: Mapping[str, str], cost: str | None) -> None:
    from videomme_pipeline.reports.terminal.tables import interval, show_rows

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
